"""The whole path: client → front → socket → daemon → engine → wire → the fake of the vendors' APIs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from counsel.caller import local_caller
from counsel.daemon.rpc_client import connect
from counsel.requests import ChatRequest
from fake import FakeProcess
from support.stdio_client import StdioClient, kill_daemon

pytestmark = pytest.mark.slow
COUNSEL = [sys.executable, "-m", "counsel", "stdio"]


def keys(fake: FakeProcess) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake.v1}


@pytest.mark.parametrize("standalone", [[], ["--standalone"]])
async def test_a_question_is_answered_and_continued(
    home: Path, fake_process: FakeProcess, standalone: list[str]
) -> None:
    async with StdioClient(home, command=[*COUNSEL, *standalone], env=keys(fake_process)) as client:
        await client.initialize()
        first = await client.call("chat", prompt="hello", model="gpt-5-mini")
        document = first["structuredContent"]
        assert document["content"] == "gpt-5-mini says: hello"
        again = await client.call("chat", prompt="more", continuation_id=document["continuation"]["id"])
        assert again["structuredContent"]["continuation"]["messageCount"] == 4
        assert "gpt-5-mini" in again["content"][0]["text"]


@pytest.mark.parametrize(
    ("text", "finish", "code"), [(" ", None, "EMPTY_ANSWER"), ("No.", "filtered", "CONTENT_FILTERED")]
)
async def test_an_empty_or_refused_answer_is_an_error_result(
    home: Path, fake_process: FakeProcess, text: str, finish: str | None, code: str
) -> None:
    fake_process.script(text=text, finish=finish, times=None)
    async with StdioClient(home, command=[*COUNSEL, "--standalone"], env=keys(fake_process)) as client:
        await client.initialize()
        result = await client.call("chat", prompt="hello", model="gpt-5-mini")
        assert result["isError"]
        assert result["structuredContent"]["code"] == code
        assert result["content"][0]["text"].startswith(f"{code}: ")


@pytest.mark.parametrize("standalone", [[], ["--standalone"]])
async def test_four_calls_at_once_and_a_ping_meanwhile(
    home: Path, fake_process: FakeProcess, standalone: list[str]
) -> None:
    fake_process.script(gate="go", times=None)
    async with StdioClient(home, command=[*COUNSEL, *standalone], env=keys(fake_process)) as client:
        await client.initialize()
        calls = [client.begin("chat", prompt=f"p{at}", model="gpt-5-mini") for at in range(4)]
        await asyncio.to_thread(fake_process.wait_for, count=4)
        assert await client.ask("ping") == {}
        assert not any(call.done() for call in calls)
        fake_process.open_gate("go")
        answers = await asyncio.gather(*calls)
        texts = [answer["result"]["structuredContent"]["content"] for answer in answers]
        assert texts == [f"gpt-5-mini says: p{at}" for at in range(4)]


@pytest.mark.parametrize("standalone", [[], ["--standalone"]])
async def test_cancelling_closes_the_upstream_connection(
    home: Path, fake_process: FakeProcess, standalone: list[str]
) -> None:
    fake_process.script(gate="never", gate_after=1, times=None)
    async with StdioClient(home, command=[*COUNSEL, *standalone], env=keys(fake_process)) as client:
        await client.initialize()
        client.start(
            "tools/call",
            {
                "name": "chat",
                "arguments": {"prompt": "a b c", "model": "gpt-5-mini"},
                "_meta": {"progressToken": "t"},
            },
        )
        progress = await asyncio.wait_for(client.notes.get(), 20)
        assert progress["params"]["progressToken"] == "t"
        assert progress["params"]["message"]
        client.notify("notifications/cancelled", {"requestId": client.number})
        await asyncio.to_thread(fake_process.wait_for, state="disconnected")


@pytest.mark.parametrize("standalone", [[], ["--standalone"]])
async def test_progress_marks_discarded_text(
    home: Path, fake_process: FakeProcess, standalone: list[str]
) -> None:
    fake_process.script(
        text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1
    )
    fake_process.script(text="good1 good2 good3", gate="answer", gate_after=1)
    async with StdioClient(home, command=[*COUNSEL, *standalone], env=keys(fake_process)) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "x", "model": "auto"}}
        call = client.start("tools/call", {**params, "_meta": {"progressToken": "t"}})
        reports: list[tuple[float, str]] = []
        await until_shown(client, reports, "void1 ")
        fake_process.open_gate("fail")
        await until_shown(client, reports, "]\n\ngood1 ")
        fake_process.open_gate("answer")
        answer = (await asyncio.wait_for(call, 30))["result"]["structuredContent"]
    first, second = [request["model"] for request in fake_process.calls][:2]
    assert reports[0][1] == "void1 "
    assert reports[-1][1].startswith(f"[{first} failed; its partial answer is discarded. Asking {second}. ")
    assert "void1" not in reports[-1][1]
    assert [number for number, _ in reports] == sorted({number for number, _ in reports})  # each greater
    assert answer["content"] == "good1 good2 good3"


async def test_progress_continues_where_a_killed_daemon_left_it(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(text="void1 void2 void3", hang_after=2)
    fake_process.script(text="good1 good2 good3", gate="answer", gate_after=1)
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "x", "model": "gpt-5-mini"}}
        call = client.start("tools/call", {**params, "_meta": {"progressToken": "t"}})
        reports: list[tuple[float, str]] = []
        await until_shown(client, reports, "void1 void2 ")
        kill_daemon(home)
        await until_shown(client, reports, "good1 ")
        fake_process.open_gate("answer")
        answer = (await asyncio.wait_for(call, 30))["result"]["structuredContent"]
    assert answer["content"] == "good1 good2 good3"
    assert [number for number, _ in reports] == sorted({number for number, _ in reports})  # each greater


async def until_shown(client: StdioClient, notes: list[tuple[float, str]], words: str) -> None:
    """Read progress, which arrives a few times per second, until it ends with these words."""
    while not notes or not notes[-1][1].endswith(words):
        note = await asyncio.wait_for(client.notes.get(), 20)
        notes.append((note["params"]["progress"], note["params"]["message"]))


async def test_a_killed_daemons_call_is_answered_by_the_next(home: Path, fake_process: FakeProcess) -> None:
    fake_process.script(gate="first", times=1)
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as client:
        await client.initialize()
        call = client.begin("chat", prompt="survive", model="gpt-5-mini")
        await asyncio.to_thread(fake_process.wait_for, contains="survive")
        kill_daemon(home)
        answer = await asyncio.wait_for(call, 30)
        assert answer["result"]["structuredContent"]["content"] == "gpt-5-mini says: survive"
        jobs = (await client.call("check_status"))["structuredContent"]["content"]["jobs"]
        assert [job["status"] for job in jobs] == ["completed"]  # one job, not two


async def test_a_call_past_the_clients_limit_continues_even_in_the_next_daemon(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(gate="never", times=1)
    env = {**keys(fake_process), "COUNSEL_CLIENT_LIMIT_SECONDS": "1"}
    async with (
        StdioClient(home, command=COUNSEL, env=keys(fake_process)) as first,
        StdioClient(home, command=COUNSEL, env=env) as client,
    ):
        await first.initialize()
        await first.call("check_status")  # a daemon that runs: starting one may take longer than this limit
        await client.initialize()
        early = (await client.call("chat", prompt="patience", model="gpt-5-mini"))["structuredContent"]
        assert early["continuation"]["status"] == "processing"
        kill_daemon(home)
        async with asyncio.timeout(30):
            while True:
                # by the client without a limit: starting a daemon may take longer than a second
                status = await first.call("check_status", continuation_id=early["job_id"])
                content = status["structuredContent"]
                if content["content"]["status"] != "processing":
                    break
        assert content["content"]["result"]["content"] == "gpt-5-mini says: patience"


async def test_a_background_job_outlives_its_client_and_another_reads_it(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(gate="later", times=None)
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as client:
        await client.initialize()
        job = await client.call("chat", prompt="slow", model="gpt-5-mini", **{"async": True})
        name = job["structuredContent"]["continuation"]["id"]
        await asyncio.to_thread(fake_process.wait_for, contains="slow")
    fake_process.open_gate("later")
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as second_client:
        await second_client.initialize(name="codex-mcp-client")
        async with asyncio.timeout(20):
            while True:
                result = (await second_client.call("check_status", continuation_id=name))[
                    "structuredContent"
                ]["content"]
                if result["status"] == "completed":
                    break
        assert result["result"]["content"] == "gpt-5-mini says: slow"


async def test_a_background_job_continues_in_the_next_daemon_without_a_client(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(gate="never", times=1)
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as client:
        await client.initialize()
        await client.call("chat", prompt="alone", model="gpt-5-mini", **{"async": True})
        await asyncio.to_thread(fake_process.wait_for, contains="alone")
        kill_daemon(home)
        await asyncio.to_thread(fake_process.wait_for, contains="alone", state="finished")


async def test_the_command_lines_client_survives_a_dying_daemon(
    home: Path, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNSEL_HOME", str(home))
    for name, value in keys(fake_process).items():
        monkeypatch.setenv(name, value)
    fake_process.script(gate="first", times=1)
    sender = local_caller("cli", cwd=home)
    engine = await connect(sender)
    job = await engine.submit(ChatRequest(prompt="ride on", model="gpt-5-mini"), sender)
    await asyncio.to_thread(fake_process.wait_for, contains="ride on")
    events: list[str] = []

    async def follow() -> None:
        async for event in engine.follow(job):
            events.append(event.kind)

    following = asyncio.ensure_future(follow())
    waiting = asyncio.ensure_future(engine.wait(job))
    await engine.recent()
    kill_daemon(home)
    assert (await asyncio.wait_for(waiting, 30)).content == "gpt-5-mini says: ride on"
    await asyncio.wait_for(following, 30)
    assert events[-1] == "done"
    await engine.close()
