"""A session's askModel socket: framing, concurrency, isolation, and what remains when a process is killed."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from pathlib import Path

import pytest

from counsel import run_paths
from counsel.askmodel.service import sweep
from counsel.engine.engine import Engine
from counsel.errors import Conflict, InvalidArgument
from counsel.front.json_messages import encode
from fake import FakeAPI, marked
from support.ask_service import SocketClient, service


async def test_an_answer_has_converses_shape(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("askmodel_1", "hello", sessionTag="topic", timestamp="2026-01-01T12:00:00.000Z")
        reply = await client.line()
        assert (reply["requestId"], reply["text"], reply["error"]) == (
            "askmodel_1",
            "gpt-5 says: hello",
            None,
        )
        assert reply["sessionTag"] == "topic"
        assert reply["continuationId"].startswith("ask_")
        jobs = (await engine.recent()).to_json()["content"]["jobs"]
        assert [(job["tool"], job["job_id"]) for job in jobs] == [("askModel", reply["jobId"])]
        client.close()


async def test_a_question_may_have_a_limit_of_its_cost(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("askmodel_1", "hello", maxCostUsd=0.0001)
        reply = await client.line()
        assert (reply["code"], reply["details"]["limit_usd"]) == ("BUDGET_EXCEEDED", 0.0001)
        assert not fake_api.calls
        client.close()


async def test_many_at_once_on_one_connection_in_the_order_of_their_ends(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(contains="slow", gate="later")
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        for n in range(8):
            client.send(f"r{n}", "slow" if n == 0 else f"p{n}", sessionTag=f"t{n}")
        quick = await client.lines(7)
        assert {name: line["text"] for name, line in quick.items()} == {
            f"r{n}": f"gpt-5 says: p{n}" for n in range(1, 8)
        }
        fake_api.open_gate("later")
        assert (await client.line())["requestId"] == "r0"
        client.close()


async def test_partial_text_comes_in_pieces_that_make_the_answer(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(text="one two three four", deltas=4, gate="more", gate_after=1)
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("r", stream=True)
        reply = ""
        message = await client.line()
        fake_api.open_gate("more")  # a piece was here before the answer was complete
        while "partial" in message:
            assert message["offset"] == len(reply)
            reply += message["partial"]
            message = await client.line()
        assert reply == message["text"] == "one two three four"
        client.close()


async def test_discarded_text_is_marked_as_discarded(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1)
    fake_api.script(text="good1 good2 good3")
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("r", model="auto", stream=True)
        reply, reports = "", []
        while "partial" in (message := await client.line()):
            reply = reply[: message["offset"]] + message["partial"]
            reports += [message["restarted"]] if "restarted" in message else []
            fake_api.open_gate("fail")
        assert reply == message["text"] == "good1 good2 good3"
        first, second = [call.model for call in fake_api.calls][:2]
        assert [(report["model"], report["next"], report["reason"]) for report in reports] == [
            (first, second, "failed")
        ]
        client.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{not json", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"\xff\xfe\x00", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"{}", "requestId is missing"),
        (b'{"requestId": 7, "model": "m", "prompt": "p"}', "requestId must be a string"),
        (b'{"requestId": "a", "prompt": "p"}', "model is missing"),
        (b'{"requestId": "a", "model": "m"}', "prompt is missing"),
        (b'{"requestId": "a", "model": "m", "prompt": ["p"]}', "prompt must be a string"),
        (b'{"requestId": "a", "model": "m", "prompt": "p", "stream": 1}', "stream must be true or false"),
        (
            b'{"requestId": "a", "model": "m", "prompt": "p", "tools": [1]}',
            "tools[0] must be a string, not a number",
        ),
        (
            b'{"requestId": "a", "model": "m", "prompt": "p", "sesionTag": "x"}',
            "sesionTag is not known (did you mean sessionTag?)",
        ),
        (b'{"requestId": "a", "model": "gpt-5", "prompt": "p", "sessionTag": "x:y"}', "session tag"),
    ],
)
async def test_a_bad_line_is_an_error_for_that_line_only(
    engine: Engine, fake_api: FakeAPI, home: Path, line: bytes, words: str
) -> None:
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("before", sessionTag="one")
        client.writer.write(line + b"\n")
        client.send("after", sessionTag="two")
        answers = await client.lines(3)
        assert answers["before"]["text"] == answers["after"]["text"] == "gpt-5 says: hello"
        (bad,) = (answer for name, answer in answers.items() if name not in {"before", "after"})
        assert (bad["text"], bad["code"]) == (None, "INVALID_ARGUMENT")
        assert words in bad["error"]
        assert bad["requestId"] == ("a" if b'"requestId": "a"' in line else None)
        client.close()


async def test_a_client_that_writes_no_line_end_is_answered(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    async with service(engine, fake_api, home) as ask_service:
        for prompt in ("hello", 'a } in a text \\" {', "x" * 300_000):
            client = await SocketClient.to(ask_service.path)
            message = {"requestId": "a", "model": "gpt-5", "prompt": prompt, "sessionTag": None}
            client.writer.write(json.dumps(message).encode())
            assert (await client.line())["text"] == f"gpt-5 says: {prompt}"
            client.close()


async def test_failures_are_errors_with_a_code(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home, agent="codex", COUNSEL_MAX_ATTEMPTS="1") as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("none", model="no-such-model")
        client.send("self", model="codex")
        client.send("down", marked(status=500))
        client.send("", "no name")
        answers = await client.lines(4)
        codes = {name: (line["text"], line["code"]) for name, line in answers.items()}
        assert codes == {
            "none": (None, "MODEL_NOT_FOUND"),
            "self": (None, "SELF_CONSULTATION"),
            "down": (None, "UPSTREAM_ERROR"),
            "": (None, "INVALID_ARGUMENT"),
        }
        assert all(line["error"] for line in answers.values())
        client.close()


async def test_a_call_has_a_time_limit(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(gate="never", gate_after=1)
    async with service(
        engine, fake_api, home, REQUEST_TIMEOUT_MS="400", COUNSEL_MAX_ATTEMPTS="1"
    ) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("r")
        reply = await client.line()
        assert (reply["text"], reply["code"]) == (None, "TIMEOUT")
        client.close()


async def test_a_name_in_use_is_refused_and_its_first_answer_comes(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(gate="go")
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("same")
        client.send("same")
        reply = await client.line()
        assert (reply["requestId"], reply["code"]) == (None, "INVALID_ARGUMENT")
        fake_api.open_gate("go")
        assert (await client.line())["text"] == "gpt-5 says: hello"
        client.close()


async def test_hanging_up_stops_the_call_upstream(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(gate="never", gate_after=1)
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("r", stream=True)
        assert "partial" in await client.line()
        client.close()
        await fake_api.wait_for(state="disconnected")
        async with asyncio.timeout(10):
            while (await engine.recent()).to_json()["content"]["jobs"][0]["status"] == "processing":
                await asyncio.sleep(0.01)
        assert (await engine.recent()).to_json()["content"]["jobs"][0]["status"] == "cancelled"


async def test_one_request_can_be_cancelled(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(contains="stop me", gate="never", gate_after=1)
    async with service(engine, fake_api, home) as ask_service:
        client = await SocketClient.to(ask_service.path)
        client.send("one", "stop me", stream=True, sessionTag="one")
        assert "partial" in await client.line()
        client.writer.write(encode({"requestId": "one", "cancel": True}))
        message = await client.line()
        while "partial" in message:
            message = await client.line()
        assert (message["requestId"], message["text"], message["code"]) == ("one", None, "CANCELLED")
        await fake_api.wait_for(state="disconnected")
        client.send("two", sessionTag="two")
        assert (await client.line())["text"] == "gpt-5 says: hello"
        client.close()


async def test_sessions_are_isolated(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with (
        service(engine, fake_api, home, "one") as first,
        service(engine, fake_api, home, "two") as second,
    ):
        assert first.path != second.path
        threads = []
        for ask_service in (first, second, first):
            client = await SocketClient.to(ask_service.path)
            client.send("r", f"in {ask_service.session}", sessionTag="topic")
            threads.append((await client.line())["continuationId"])
            client.close()
        assert threads[0] == threads[2] != threads[1]
        assert "in one" not in json.dumps([call.body for call in fake_api.log.calls if "in two" in call.text])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ask-*"))


async def test_a_socket_is_private_and_gone_at_the_end(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home) as ask_service:
        at = Path(ask_service.path)
        assert [mode(path) for path in (at, at.parent)] == [0o600, 0o700]
        with pytest.raises(Conflict, match="already has a socket"):
            await service(engine, fake_api, home).__aenter__()
        assert files_left(at.parent) == ["ask-s1.sock", "ask-s1.sock.lock"]
    assert files_left(at.parent) == []


async def test_what_a_killed_service_left_is_removed(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    run_folder = Path(run_paths.run_folder(str(home)))
    for name in ("s1", "other"):  # sockets without a listener, and locks without an owner
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(run_folder / f"ask-{name}.sock"))
        (run_folder / f"ask-{name}.sock.lock").touch()
    async with service(engine, fake_api, home) as ask_service:
        assert files_left(run_folder) == ["ask-s1.sock", "ask-s1.sock.lock"]
        sweep(run_folder)
        client = await SocketClient.to(ask_service.path)
        client.send("r")
        assert (await client.line())["error"] is None
        client.close()


@pytest.mark.parametrize("depth", [1, 120])
async def test_long_paths_and_names(engine: Engine, fake_api: FakeAPI, tmp_path: Path, depth: int) -> None:
    deep = tmp_path / ("d" * depth)
    deep.mkdir()
    paths = set()
    for session in ("x" * 64, "x" * 63 + "y"):
        async with service(engine, fake_api, deep, session) as ask_service:
            paths.add(ask_service.path)
            client = await SocketClient.to(ask_service.path)
            client.send("r")
            assert (await client.line())["text"] == "gpt-5 says: hello"
            client.close()
    assert len(paths) == 2


@pytest.mark.parametrize("session", ["", "..", "a/b", "a b", "x" * 65, "a:b"])
async def test_a_session_has_a_plain_name(
    engine: Engine, fake_api: FakeAPI, home: Path, session: str
) -> None:
    with pytest.raises(InvalidArgument, match="cannot name a session"):
        service(engine, fake_api, home, session)
