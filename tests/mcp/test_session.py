"""The dispatcher: the rules of each revision, and concurrent calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counsel.front import protocol
from counsel.job_event_json import event_from
from counsel.mcp import progress, session
from counsel.mcp.session import listing
from support.session_client import ENVELOPE, SessionClient


@pytest.fixture
def client(tmp_path: Path) -> SessionClient:
    return SessionClient(tmp_path)


@pytest.mark.parametrize("version", protocol.HANDSHAKE)
async def test_each_handshake_revision_is_agreed_on(client: SessionClient, version: str) -> None:
    result = (await client.initialize(version))["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "counsel"
    assert (await client.ask("ping"))["result"] == {}
    assert (await client.ask("tools/list"))["result"] == {"tools": listing()}
    assert (await client.call("chat", {"prompt": "echo hello"}))["structuredContent"][
        "content"
    ] == "echo hello"


async def test_an_unknown_revision_is_answered_with_the_newest_handshake(client: SessionClient) -> None:
    assert (await client.initialize("2019-01-01"))["result"]["protocolVersion"] == "2025-11-25"


async def test_the_stateless_revision_needs_no_handshake(client: SessionClient) -> None:
    result = (await client.ask("server/discover", {"_meta": ENVELOPE}))["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["resultType"] == "complete"
    assert result["_meta"][protocol.META_SERVER]["name"] == "counsel"
    tools = (await client.ask("tools/list", {"_meta": ENVELOPE}))["result"]
    assert (tools["ttlMs"], tools["cacheScope"]) == (3_600_000, "public")
    reply = await client.call("chat", {"prompt": "echo hi"}, **ENVELOPE)
    assert reply["resultType"] == "complete"
    assert client.engine.jobs["conv_1"].caller.client == "claude-code"
    assert client.engine.jobs["conv_1"].caller.agent == "claude"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"_meta": {protocol.META_VERSION: "2026-07-28"}}, protocol.INVALID_PARAMS),
        ({"_meta": {**ENVELOPE, protocol.META_VERSION: "2031-01-01"}}, protocol.UNSUPPORTED_VERSION),
        ({"_meta": {**ENVELOPE, protocol.META_VERSION: 7}}, protocol.INVALID_PARAMS),
    ],
)
async def test_a_bad_envelope_is_refused(client: SessionClient, params: Any, code: int) -> None:
    assert (await client.ask("tools/list", params))["error"]["code"] == code


async def test_the_eras_do_not_mix_on_one_connection(client: SessionClient) -> None:
    await client.ask("server/discover", {"_meta": ENVELOPE})
    assert (await client.initialize())["error"]["code"] == protocol.UNSUPPORTED_VERSION
    assert (await client.ask("ping", {"_meta": ENVELOPE}))["error"]["code"] == protocol.METHOD_NOT_FOUND
    second = SessionClient(client.session.identity.cwd)
    await second.initialize()
    response = await second.ask("tools/list", {"_meta": ENVELOPE})
    assert response["error"]["code"] == protocol.INVALID_REQUEST


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [
        (b"{not json", protocol.PARSE_ERROR, None),
        (b"[" * 100_000, protocol.PARSE_ERROR, None),
        (b'{"id": 1, "method": "ping"}', protocol.INVALID_REQUEST, 1),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', protocol.INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', protocol.INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": []}', protocol.INVALID_PARAMS, 2),
        (b'{"jsonrpc": "2.0", "id": 3}', protocol.INVALID_REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "nope"}', protocol.METHOD_NOT_FOUND, 4),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "x"}}',
            protocol.INVALID_PARAMS,
            5,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": {"cursor": "x"}}',
            protocol.INVALID_PARAMS,
            6,
        ),
    ],
)
async def test_malformed_input_gets_an_error_and_the_connection_goes_on(
    client: SessionClient, line: bytes, code: int, name: Any
) -> None:
    await client.initialize()
    client.lines.line(line)
    answer = await client.messages.get()
    assert (answer["error"]["code"], answer["id"]) == (code, name)
    assert (await client.ask("ping"))["result"] == {}


async def test_a_slow_call_blocks_neither_another_nor_a_ping(client: SessionClient) -> None:
    await client.initialize()
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    assert (await client.ask("ping"))["result"] == {}
    assert (await client.call("chat", {"prompt": "echo quick"}))["structuredContent"][
        "content"
    ] == "echo quick"
    client.engine.jobs["conv_1"].end({"content": "at last"})
    answer = await client.messages.get()
    assert answer["id"] == slow
    assert answer["result"]["structuredContent"] == {"content": "at last"}


async def test_cancelling_stops_the_job_and_sends_no_result(client: SessionClient) -> None:
    await client.initialize()
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    client.notify("notifications/cancelled", {"requestId": slow, "reason": "user"})
    await client.engine.jobs["conv_1"].ended.wait()
    assert client.engine.jobs["conv_1"].status == "cancelled"
    assert (await client.ask("ping"))["id"] == slow + 1  # the next thing that is sent
    client.notify("notifications/cancelled", {"requestId": slow})  # again: nothing happens
    assert (await client.ask("ping"))["result"] == {}


@pytest.mark.parametrize(
    "reason",
    [
        "McpError: MCP error -32001: Request timed out",  # the TypeScript SDK, Gemini CLI
        "SdkError: Request timed out",  # Claude Code
        "request timeout",  # rmcp
        "timed out after 5.0s",  # the Python SDK
        "TimeoutError: The operation was aborted due to timeout",  # AbortSignal.timeout()
    ],
)
async def test_a_client_that_timed_out_leaves_the_job_running(client: SessionClient, reason: str) -> None:
    await client.initialize()
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    client.notify("notifications/cancelled", {"requestId": slow, "reason": reason})
    assert (await client.ask("ping"))["id"] == slow + 1  # nothing is sent for the call
    status = await client.call("check_status", {"continuation_id": "conv_1"})
    assert status["structuredContent"]["content"]["status"] == "processing"
    await client.lines.close("gone")
    job = client.engine.jobs["conv_1"]
    assert (job.status, job.background) == ("processing", True)


@pytest.mark.parametrize(
    "reason",
    [
        None,
        "",
        "AbortError: This operation was aborted",
        7,
        "user pressed esc",
        "MCP response future dropped",
    ],
)
async def test_any_other_cancellation_stops_the_job(client: SessionClient, reason: Any) -> None:
    await client.initialize()
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    client.notify("notifications/cancelled", {"requestId": slow, "reason": reason})
    await client.engine.jobs["conv_1"].ended.wait()
    assert client.engine.jobs["conv_1"].status == "cancelled"


@pytest.mark.parametrize("then", ["AbortError: The operation was aborted.", None])
async def test_the_first_reason_of_a_client_counts(client: SessionClient, then: str | None) -> None:
    """OpenCode cancels twice when its time limit has passed; other clients disconnect at once (None)."""
    await client.initialize()
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    reasons = ["McpError: MCP error -32001: Request timed out", *([then] if then else [])]
    for reason in reasons:
        client.notify("notifications/cancelled", {"requestId": slow, "reason": reason})
    await client.lines.close("gone")
    job = client.engine.jobs["conv_1"]
    assert (job.status, job.background) == ("processing", True)


async def test_a_client_that_gives_up_before_its_job_is_made_finds_it_later(client: SessionClient) -> None:
    await client.initialize(roots={})
    roots_request = await client.messages.get()  # for the roots, which the call waits for
    slow = client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    assert (await client.ask("ping"))["result"] == {}
    assert not client.engine.jobs
    client.notify("notifications/cancelled", {"requestId": slow, "reason": "Request timed out"})
    client.send({"jsonrpc": "2.0", "id": roots_request["id"], "result": {"roots": []}})
    await asyncio.wait_for(client.engine.started.wait(), 10)
    job = client.engine.jobs["conv_1"]
    while not job.background:
        assert (await client.ask("ping"))["result"] == {}  # and no answer to the call
    await client.lines.close("gone")
    assert job.status == "processing"


async def test_a_silent_model_sends_a_growing_heartbeat(
    client: SessionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT", 0.02)
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.0)
    await client.initialize()
    params = {"name": "chat", "arguments": {"prompt": "hang"}, "_meta": {"progressToken": "t"}}
    client.request("tools/call", params)
    beats = [(await client.messages.get())["params"] for _ in range(4)]
    assert [beat["message"] for beat in beats[1:]] == ["fake is thinking (0 s)"] * 3
    numbers = [beat["progress"] for beat in beats]
    assert numbers == sorted(set(numbers))
    await client.lines.close()


async def test_calls_wait_only_once_for_roots_that_never_come(
    client: SessionClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "ROOTS_TIMEOUT", 0.05)
    await client.initialize(roots={})
    roots_request = await client.messages.get()
    await client.call("chat", {"prompt": "echo one"})
    waits: list[Any] = []
    plain = asyncio.wait

    async def record_wait(*args: Any, **options: Any) -> Any:
        waits.append(options)
        return await plain(*args, **options)

    monkeypatch.setattr(asyncio, "wait", record_wait)
    await client.call("chat", {"prompt": "echo two"})
    assert waits == []
    client.send(
        {"jsonrpc": "2.0", "id": roots_request["id"], "result": {"roots": [{"uri": f"file://{tmp_path}/x"}]}}
    )
    await client.call("chat", {"prompt": "echo three"})  # a late answer counts
    await client.call("chat", {"prompt": "echo four"})
    assert client.engine.jobs["conv_4"].caller.roots == (tmp_path / "x",)


async def test_an_id_in_use_is_refused(client: SessionClient) -> None:
    await client.initialize()
    client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    client.number -= 1
    assert (await client.ask("tools/call", {"name": "check_status"}))["error"][
        "code"
    ] == protocol.INVALID_REQUEST
    await client.lines.close()


async def test_progress_carries_the_text_so_far(client: SessionClient) -> None:
    await client.initialize()
    params = {"name": "chat", "arguments": {"prompt": "hang one"}, "_meta": {"progressToken": "t"}}
    client.request("tools/call", params)
    first = await client.messages.get()
    assert first["method"] == "notifications/progress"
    assert first["params"] == {"progressToken": "t", "progress": 3, "message": "one"}
    client.engine.jobs["conv_1"].add("text", text=" two")
    second = await client.messages.get()
    assert second["params"] == {"progressToken": "t", "progress": 7, "message": "one two"}
    client.engine.jobs["conv_1"].end({"content": "one two"})
    assert (await client.messages.get())["result"]["structuredContent"]["content"] == "one two"


async def test_progress_is_sent_a_few_times_per_second_not_per_delta(client: SessionClient) -> None:
    await client.initialize()
    params = {"name": "chat", "arguments": {"prompt": "hang x"}, "_meta": {"progressToken": 0}}
    client.request("tools/call", params)
    await client.messages.get()
    for _ in range(500):
        client.engine.jobs["conv_1"].add("text", text="x")
    assert (await client.messages.get())["params"]["progress"] == 501
    await client.lines.close()


async def test_a_client_that_goes_away_stops_its_call(client: SessionClient) -> None:
    await client.initialize()
    client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    await client.lines.close("gone")
    assert client.engine.jobs["conv_1"].status == "cancelled"


@pytest.mark.parametrize("env", [{"COUNSEL_KEEP_ABANDONED": "1"}, {}])
async def test_a_kept_or_background_job_goes_on_without_its_client(
    tmp_path: Path, env: dict[str, str]
) -> None:
    client = SessionClient(tmp_path, **env)
    await client.initialize()
    arguments = {"prompt": "hang", "async": not env}
    client.request("tools/call", {"name": "chat", "arguments": arguments})
    await client.engine.started.wait()
    await client.lines.close("gone")
    assert client.engine.jobs["conv_1"].status == "processing"


async def test_a_handover_leaves_the_job_to_the_next_daemon(client: SessionClient) -> None:
    await client.initialize()
    client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
    await client.engine.started.wait()
    await client.lines.close("handover")
    assert client.engine.jobs["conv_1"].status == "processing"


async def test_shortly_before_the_clients_limit_the_call_answers_with_its_id(tmp_path: Path) -> None:
    client = SessionClient(tmp_path, COUNSEL_CLIENT_LIMIT_SECONDS="1")
    await client.initialize(name="codex-mcp-client")
    result = await client.call("chat", {"prompt": "hang"})
    assert result["structuredContent"]["continuation"] == {"id": "conv_1", "status": "processing"}
    assert "check_status" in result["content"][0]["text"]
    assert client.engine.jobs["conv_1"].status == "processing"
    assert client.engine.jobs["conv_1"].background
    await client.lines.close("gone")  # nobody waits for it, and it continues
    assert client.engine.jobs["conv_1"].status == "processing"


async def test_batches_belong_to_one_revision(client: SessionClient) -> None:
    await client.initialize("2025-03-26")
    client.send(
        [
            {"jsonrpc": "2.0", "id": 7, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"id": 8},
            {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "check_status"}},
        ]
    )
    answers = await client.messages.get()
    assert [answer["id"] for answer in answers] == [7, 8, 9]
    assert answers[1]["error"]["code"] == protocol.INVALID_REQUEST
    newer = SessionClient(client.session.identity.cwd)
    await newer.initialize("2025-06-18")
    newer.send([{"jsonrpc": "2.0", "id": 7, "method": "ping"}])
    assert (await newer.messages.get())["error"]["code"] == protocol.INVALID_REQUEST


async def test_the_clients_roots_are_the_callers_folders(client: SessionClient, tmp_path: Path) -> None:
    await client.initialize(roots={"listChanged": True})
    roots_request = await client.messages.get()
    assert roots_request["method"] == "roots/list"
    roots = [{"uri": f"file://{tmp_path}/a%20b"}, {"uri": "https://example.org"}, {"uri": 3}]
    client.send({"jsonrpc": "2.0", "id": roots_request["id"], "result": {"roots": roots}})
    await client.call("chat", {"prompt": "echo"})
    caller = client.engine.jobs["conv_1"].caller
    assert caller.roots == (tmp_path / "a b",)
    assert caller.cwd == tmp_path / "a b"


async def test_a_failure_of_ours_is_a_result_that_a_model_can_read(client: SessionClient) -> None:
    await client.initialize()
    result = await client.call("chat", {"prompt": "crash"})
    assert result["isError"]
    assert result["structuredContent"]["code"] == "INTERNAL"


async def test_lists_without_entries(client: SessionClient) -> None:
    await client.initialize()
    assert (await client.ask("resources/list"))["result"] == {"resources": []}
    assert (await client.ask("resources/templates/list"))["result"]["resourceTemplates"]
    assert (await client.ask("logging/setLevel", {"level": "info"}))["result"] == {}
    assert (await client.ask("resources/read", {"uri": "counsel://jobs/none/text"}))["error"][
        "code"
    ] == -32002


def test_progress_keeps_the_text_before_the_discarded_part() -> None:
    live_text = progress.LiveText()
    live_text.add(event_from(1, 0.0, "model_started", "0", {"model": "claude"}))
    live_text.add(event_from(1, 0.0, "text", "0", {"text": "x" * progress.REPORT_TEXT + "void", "offset": 0}))
    about = {"model": "claude", "next": "claude", "reason": "retried", "error": "It broke."}
    live_text.add(event_from(2, 0.0, "restarted", "0", {**about, "offset": progress.REPORT_TEXT}))
    before = live_text.size
    live_text.add(event_from(2, 0.0, "text", "0", {"text": "good", "offset": progress.REPORT_TEXT}))
    note, text = live_text.message().split("\n\n")
    assert note == "[claude starts again; the end of its answer is discarded. It broke.]"
    assert text.removeprefix("…").strip("x") == "good"
    assert live_text.size > before > progress.REPORT_TEXT


def test_progress_is_the_end_of_the_text_cut_at_a_word() -> None:
    live_text = progress.LiveText()
    live_text.add(event_from(1, 0.0, "model_started", "0", {"model": "gpt-5"}))
    text = " ".join(f"word{number}" for number in range(500))
    live_text.add(event_from(1, 0.0, "text", "0", {"text": text, "offset": 0}))
    message = live_text.message()
    assert len(message) <= progress.REPORT_TEXT
    assert message.startswith("…word")
    assert message.endswith("word499")


def test_progress_of_several_models_is_a_line_each() -> None:
    live_text = progress.LiveText()
    for slot, model in enumerate(("gpt-5", "opus", "grok-4")):
        live_text.add(event_from(1, 0.0, "model_started", str(slot), {"model": model}))
    live_text.add(event_from(1, 0.0, "text", "0", {"text": "one\n\ntwo " * 100 + "end", "offset": 0}))
    live_text.add(event_from(1, 0.0, "model_finished", "1", {}))
    first, second, third = live_text.message().split("\n")
    assert first.startswith("gpt-5: …")
    assert first.endswith("end")
    assert second == "opus: done"
    assert third == "grok-4 is thinking (0 s)"
    assert len(live_text.message()) <= progress.REPORT_TEXT


async def test_a_client_that_says_again_that_it_is_ready_is_asked_once_for_its_folders(
    client: SessionClient, tmp_path: Path
) -> None:
    await client.initialize(roots={})
    first = await client.messages.get()
    client.notify("notifications/initialized")
    second = await client.messages.get()
    assert second["id"] != first["id"]
    await asyncio.sleep(0)
    for request, folder in ((second, "new"), (first, "old")):
        roots = [{"uri": f"file://{tmp_path}/{folder}"}]
        client.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": roots}})
    await client.call("chat", {"prompt": "echo hi"})
    assert client.engine.jobs["conv_1"].caller.roots == (tmp_path / "new",), "the first request was given up"
