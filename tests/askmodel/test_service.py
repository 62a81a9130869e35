"""A session's askModel socket: framing, concurrency, isolation, and what remains when a process is killed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counsel import run_paths
from counsel.askmodel.client import AskClient, AskError
from counsel.askmodel.json_objects import NewlineInserter
from counsel.askmodel.service import AskService, sweep
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import Conflict, InvalidArgument
from counsel.front.json_messages import encode
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import Splitter
from counsel.results import ChatResult
from fake import FakeAPI, FakeProcess, marked
from support.stdio_client import daemon_pid, kill_daemon


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
async def engine(home: Path) -> AsyncIterator[Engine]:
    made = await open_engine(home)
    yield made
    await made.close()


def service(
    engine: Engine, fake: FakeAPI, home: Path, session: str = "s1", agent: str | None = None, **env: str
) -> AskService:
    env = {"COUNSEL_HOME": str(home), "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake.v1, **env}
    return AskService(engine, ClientIdentity(env=env, cwd=home, agent=agent), session, home)


class Wire:
    """A program at the socket: raw bytes out, lines in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, path: str) -> Wire:
        return cls(*await asyncio.open_unix_connection(path, limit=1 << 26))

    def send(self, identity: str, prompt: str = "hello", **more: Any) -> None:
        message = {"requestId": identity, "model": "gpt-5", "prompt": prompt, **more}
        self.writer.write(encode(message))

    async def line(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            message: dict[str, Any] = json.loads(await self.reader.readline())
            return message

    async def lines(self, count: int) -> dict[str, dict[str, Any]]:
        got = [await self.line() for _ in range(count)]
        return {line["requestId"]: line for line in got}

    def close(self) -> None:
        self.writer.close()


async def test_an_answer_has_the_seeds_shape(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("askmodel_1", "hello", sessionTag="topic", timestamp="2026-01-01T12:00:00.000Z")
        got = await wire.line()
        assert (got["requestId"], got["text"], got["error"]) == ("askmodel_1", "gpt-5 says: hello", None)
        assert got["sessionTag"] == "topic"
        assert got["continuationId"].startswith("ask_")
        jobs = (await engine.recent()).to_json()["content"]["jobs"]
        assert [(job["tool"], job["job_id"]) for job in jobs] == [("askModel", got["jobId"])]
        wire.close()


async def test_many_at_once_on_one_connection_in_the_order_of_their_ends(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(contains="slow", gate="later")
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        for n in range(8):
            wire.send(f"r{n}", "slow" if n == 0 else f"p{n}", sessionTag=f"t{n}")
        quick = await wire.lines(7)
        assert {name: line["text"] for name, line in quick.items()} == {
            f"r{n}": f"gpt-5 says: p{n}" for n in range(1, 8)
        }
        fake_api.open_gate("later")
        assert (await wire.line())["requestId"] == "r0"
        wire.close()


async def test_partial_text_comes_in_pieces_that_make_the_answer(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(text="one two three four", deltas=4, gate="more", gate_after=1)
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("r", stream=True)
        said = ""
        got = await wire.line()
        fake_api.open_gate("more")  # a piece was here before the answer was complete
        while "partial" in got:
            assert got["offset"] == len(said)
            said += got["partial"]
            got = await wire.line()
        assert said == got["text"] == "one two three four"
        wire.close()


async def test_discarded_text_is_marked_as_discarded(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1)
    fake_api.script(text="good1 good2 good3")
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("r", model="auto", stream=True)
        said, told = "", []
        while "partial" in (got := await wire.line()):
            said = said[: got["offset"]] + got["partial"]
            told += [got["restarted"]] if "restarted" in got else []
            fake_api.open_gate("fail")
        assert said == got["text"] == "good1 good2 good3"
        first, second = [call.model for call in fake_api.calls][:2]
        assert [(each["model"], each["next"], each["reason"]) for each in told] == [(first, second, "failed")]
        wire.close()


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
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("before", sessionTag="one")
        wire.writer.write(line + b"\n")
        wire.send("after", sessionTag="two")
        got = await wire.lines(3)
        assert got["before"]["text"] == got["after"]["text"] == "gpt-5 says: hello"
        (bad,) = (answer for name, answer in got.items() if name not in {"before", "after"})
        assert (bad["text"], bad["code"]) == (None, "INVALID_ARGUMENT")
        assert words in bad["error"]
        assert bad["requestId"] == ("a" if b'"requestId": "a"' in line else None)
        wire.close()


async def test_the_seeds_client_writes_no_line_end_and_is_answered(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    async with service(engine, fake_api, home) as served:
        for prompt in ("hello", 'a } in a text \\" {', "x" * 300_000):
            wire = await Wire.to(served.path)
            message = {"requestId": "a", "model": "gpt-5", "prompt": prompt, "sessionTag": None}
            wire.writer.write(json.dumps(message).encode())
            assert (await wire.line())["text"] == f"gpt-5 says: {prompt}"
            wire.close()


async def test_two_objects_without_a_line_end_are_two_requests(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        message = {"model": "gpt-5", "prompt": "hello"}
        both = [json.dumps({"requestId": name, "sessionTag": name, **message}) for name in ("a", "b")]
        wire.writer.write("".join(both).encode())
        wire.send("c", sessionTag="c")
        got = await wire.lines(3)
        assert {name: answer["text"] for name, answer in got.items()} == dict.fromkeys(
            "abc", "gpt-5 says: hello"
        )
        wire.close()


_TEXT = st.text(max_size=8)
_VALUES = st.recursive(
    _TEXT | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.lists(st.dictionaries(_TEXT, _VALUES, max_size=4), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(objects=_OBJECTS, kind=st.sampled_from([("", " "), ("\n", "\n ")]), data=st.data())
def test_an_objects_end_is_found_however_it_is_split(
    objects: list[dict[str, object]], kind: tuple[str, str], data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.sampled_from(kind), min_size=len(objects), max_size=len(objects)))
    text = "".join(json.dumps(one) + end for one, end in zip(objects, ends, strict=True)).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
    found: list[bytes] = []
    filled, split = NewlineInserter(), Splitter(found.append, lambda _: None)
    for piece in pieces:
        split.feed(filled.feed(piece))
    assert [json.loads(line) for line in found] == objects


def test_what_is_no_object_waits_for_its_line_end() -> None:
    for text in (b'"text"', b"[1]", b"}", b"{" * 200, b'{"a": ', b'{"a": "}'):
        assert NewlineInserter().feed(text) == text


async def test_failures_are_errors_with_a_code(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home, agent="codex", COUNSEL_MAX_ATTEMPTS="1") as served:
        wire = await Wire.to(served.path)
        wire.send("none", model="no-such-model")
        wire.send("self", model="codex")
        wire.send("down", marked(status=500))
        wire.send("", "no name")
        got = await wire.lines(4)
        codes = {name: (line["text"], line["code"]) for name, line in got.items()}
        assert codes == {
            "none": (None, "MODEL_NOT_FOUND"),
            "self": (None, "SELF_CONSULTATION"),
            "down": (None, "UPSTREAM_ERROR"),
            "": (None, "INVALID_ARGUMENT"),
        }
        assert all(line["error"] for line in got.values())
        wire.close()


async def test_a_call_has_a_time_limit(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(gate="never", gate_after=1)
    async with service(engine, fake_api, home, REQUEST_TIMEOUT_MS="400", COUNSEL_MAX_ATTEMPTS="1") as served:
        wire = await Wire.to(served.path)
        wire.send("r")
        got = await wire.line()
        assert (got["text"], got["code"]) == (None, "TIMEOUT")
        wire.close()


async def test_a_name_in_use_is_refused_and_its_first_answer_comes(
    engine: Engine, fake_api: FakeAPI, home: Path
) -> None:
    fake_api.script(gate="go")
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("same")
        wire.send("same")
        refused = await wire.line()
        assert (refused["requestId"], refused["code"]) == (None, "INVALID_ARGUMENT")
        fake_api.open_gate("go")
        assert (await wire.line())["text"] == "gpt-5 says: hello"
        wire.close()


async def test_hanging_up_stops_the_call_upstream(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(gate="never", gate_after=1)
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("r", stream=True)
        assert "partial" in await wire.line()
        wire.close()
        await fake_api.wait_for(state="disconnected")
        async with asyncio.timeout(10):
            while (await engine.recent()).to_json()["content"]["jobs"][0]["status"] == "processing":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await engine.recent()).to_json()["content"]["jobs"][0]["status"] == "cancelled"


async def test_one_request_can_be_cancelled(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(contains="stop me", gate="never", gate_after=1)
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("one", "stop me", stream=True, sessionTag="one")
        assert "partial" in await wire.line()
        wire.writer.write(encode({"requestId": "one", "cancel": True}))
        got = await wire.line()
        while "partial" in got:
            got = await wire.line()
        assert (got["requestId"], got["text"], got["code"]) == ("one", None, "CANCELLED")
        await fake_api.wait_for(state="disconnected")
        wire.send("two", sessionTag="two")
        assert (await wire.line())["text"] == "gpt-5 says: hello"
        wire.close()


async def test_sessions_are_isolated(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home, "one") as one, service(engine, fake_api, home, "two") as two:
        assert one.path != two.path
        threads = []
        for served in (one, two, one):
            wire = await Wire.to(served.path)
            wire.send("r", f"in {served.session}", sessionTag="topic")
            threads.append((await wire.line())["continuationId"])
            wire.close()
        assert threads[0] == threads[2] != threads[1]
        assert "in one" not in json.dumps([call.body for call in fake_api.log.calls if "in two" in call.text])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ask-*"))


async def test_a_socket_is_private_and_gone_at_the_end(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    async with service(engine, fake_api, home) as served:
        at = Path(served.path)
        assert [mode(path) for path in (at, at.parent)] == [0o600, 0o700]
        with pytest.raises(Conflict, match="already has a socket"):
            await service(engine, fake_api, home).__aenter__()
        assert left(at.parent) == ["ask-s1.sock", "ask-s1.sock.lock"]
    assert left(at.parent) == []


async def test_what_a_killed_service_left_is_removed(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    run = Path(run_paths.run_folder(str(home)))
    for name in ("s1", "other"):  # sockets that nobody listens on, and locks that nobody holds
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(run / f"ask-{name}.sock"))
        (run / f"ask-{name}.sock.lock").touch()
    async with service(engine, fake_api, home) as served:
        assert left(run) == ["ask-s1.sock", "ask-s1.sock.lock"]
        sweep(run)
        wire = await Wire.to(served.path)
        wire.send("r")
        assert (await wire.line())["error"] is None
        wire.close()


@pytest.mark.parametrize("depth", [1, 120])
async def test_long_paths_and_names(engine: Engine, fake_api: FakeAPI, tmp_path: Path, depth: int) -> None:
    deep = tmp_path / ("d" * depth)
    deep.mkdir()
    paths = set()
    for session in ("x" * 64, "x" * 63 + "y"):
        async with service(engine, fake_api, deep, session) as served:
            paths.add(served.path)
            wire = await Wire.to(served.path)
            wire.send("r")
            assert (await wire.line())["text"] == "gpt-5 says: hello"
            wire.close()
    assert len(paths) == 2


@pytest.mark.parametrize("session", ["", "..", "a/b", "a b", "x" * 65, "a:b"])
async def test_a_session_has_a_plain_name(
    engine: Engine, fake_api: FakeAPI, home: Path, session: str
) -> None:
    with pytest.raises(InvalidArgument, match="cannot name a session"):
        service(engine, fake_api, home, session)


# ── framing ──


@settings(deadline=None)
@given(data=st.data(), texts=st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_lines_split_anywhere_are_the_same_lines(data: st.DataObject, texts: list[str]) -> None:
    sent = b"".join(encode({"prompt": text}) for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=20)))
    got: list[str] = []
    split = Splitter(
        lambda line: got.append(json.loads(line)["prompt"]), lambda too_long: pytest.fail(str(too_long))
    )
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        split.feed(sent[start:end])
    assert got == texts


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=8), text=st.text(min_size=1, max_size=200))
def test_a_request_split_anywhere_is_answered(sizes: list[int], text: str, tmp_path: Path) -> None:
    asyncio.run(_split(sizes, text, tmp_path))


async def _split(sizes: list[int], text: str, home: Path) -> None:
    engine: Any = Echo()
    async with AskService(
        engine, ClientIdentity(env={"COUNSEL_HOME": str(home)}, cwd=home), "s", home
    ) as served:
        wire = await Wire.to(served.path)
        whole = b"".join(encode({"requestId": f"{n}é", "model": "m", "prompt": text}) for n in range(3))
        at, turn = 0, 0
        while at < len(whole):
            size = sizes[turn % len(sizes)]
            wire.writer.write(whole[at : at + size])
            await wire.writer.drain()
            await asyncio.sleep(0)
            at, turn = at + size, turn + 1
        got = await wire.lines(3)
        assert {line["text"] for line in got.values()} == {text}
        assert set(got) == {"0é", "1é", "2é"}
        wire.close()


class Echo:
    """An engine that says what it was asked: the lines are what is tested."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    async def submit(self, request: Any, caller: Caller, *, background: bool = False, key: Any = None) -> str:
        self.asked[name := f"job_{len(self.asked)}"] = request.prompt
        return name

    async def wait(self, job_id: str) -> ChatResult:
        return ChatResult.from_json({"content": self.asked[job_id], "continuation": {"id": "ask_1"}})

    async def cancel(self, any_id: str) -> dict[str, Any]:
        return {}


async def test_a_message_of_many_megabytes(engine: Engine, fake_api: FakeAPI, home: Path) -> None:
    fake_api.script(size=5_000_000, times=None)
    async with service(engine, fake_api, home) as served:
        wire = await Wire.to(served.path)
        wire.send("big", "x" * 300_000)  # what fits the model's window
        wire.send("small", "y", sessionTag="other")
        got = await wire.lines(2)
        assert [len(got[name]["text"]) for name in ("big", "small")] == [5_000_000, 5_000_000]
        for size, code in ((10_000_000, "CONTEXT_LENGTH_EXCEEDED"), (20_000_000, "INVALID_ARGUMENT")):
            wire.writer.write(b'{"requestId": "wide", "model": "gpt-5", "prompt": "' + b"z" * size + b'"}\n')
            assert (await wire.line())["code"] == code
        wire.close()


# ── the command and its client ──


class Served:
    def __init__(self, home: Path, env: dict[str, str], *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "counsel", "ask-service", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            cwd=home,
            text=True,
        )
        assert self.process.stdout is not None
        self.about = json.loads(self.process.stdout.readline())
        self.path: str = self.about["socket"]

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(20)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code


@pytest.fixture
def env(home: Path, fake_process: FakeProcess) -> Iterator[dict[str, str]]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    yield {
        **kept,
        "HOME": str(home),
        "COUNSEL_HOME": str(home),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_process.v1,
    }
    if (pid := daemon_pid(home)) is not None:
        os.kill(pid, signal.SIGKILL)


Serve = Callable[..., Served]


@pytest.fixture
def serve(home: Path, env: dict[str, str]) -> Iterator[Serve]:
    """Starts services; none outlives its test."""
    started: list[Served] = []

    def start(*args: str, **more: str) -> Served:
        started.append(Served(home, {**env, **more}, *args))
        return started[-1]

    yield start
    for each in started:
        each.end(signal.SIGKILL)


def test_the_command_and_its_client(serve: Serve, fake_process: FakeProcess) -> None:
    served = serve("--session", "mine")
    assert (served.about["session"], Path(served.path).name) == ("mine", "ask-mine.sock")
    client = AskClient(served.path)
    pieces: list[str] = []
    answer = client.ask("gpt-5", "hello", session_tag="t", on_partial=lambda piece, _: pieces.append(piece))
    assert (answer.text, answer.session_tag) == ("gpt-5 says: hello", "t")
    assert "".join(pieces) == answer.text
    fake_process.script(
        text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1
    )
    fake_process.script(text="good1 good2 good3")
    told: list[str] = []

    def hear(piece: str, at: int) -> None:
        pieces[:] = ["".join(pieces)[:at], piece]
        fake_process.open_gate("fail")

    pieces.clear()
    again = client.ask("auto", "hello", on_partial=hear, on_restart=lambda why: told.append(why["reason"]))
    assert ("".join(pieces), again.text, told) == (again.text, "good1 good2 good3", ["failed"])
    with pytest.raises(AskError) as raised:
        client.ask("no-such-model", "hello")
    assert raised.value.code == "MODEL_NOT_FOUND"
    assert served.end() == 0
    assert not Path(served.path).exists()
    with pytest.raises(AskError, match="cannot be reached"):
        AskClient(served.path, patience=0.1).ask("gpt-5", "hello")


def test_the_client_rides_over_a_killed_service(serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never", gate_after=1, contains="ride on")
    served = serve("--session", "mine")
    got: list[str] = []
    client = AskClient(served.path, timeout=90, patience=60)
    asking = threading.Thread(target=lambda: got.append(client.ask("gpt-5", "ride on").text))
    asking.start()
    fake_process.wait_for(contains="ride on")
    served.end(signal.SIGKILL)
    fake_process.wait_for(contains="ride on", state="disconnected")  # what it had asked is stopped
    assert Path(served.path).exists()  # left behind by the kill, taken over by the next
    serve("--session", "mine")
    asking.join(90)
    assert got == ["gpt-5 says: ride on"]


def test_a_dying_daemon_is_ridden_over(home: Path, serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never", contains="go on")
    served = serve("--session", "mine")
    got: list[str] = []
    client = AskClient(served.path, timeout=90)
    asking = threading.Thread(target=lambda: got.append(client.ask("gpt-5", "go on").text))
    asking.start()
    fake_process.wait_for(contains="go on")
    kill_daemon(home)
    asking.join(90)
    assert got == ["gpt-5 says: go on"]


def test_the_client_gives_up_in_time(serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never")
    served = serve()
    with pytest.raises(AskError) as raised:
        AskClient(served.path, timeout=1.0).ask("gpt-5", "hello")
    assert raised.value.code == "TIMEOUT"
    if fake_process.calls:  # on a busy machine the time may be over before the vendor is reached
        fake_process.wait_for(state="disconnected")


def test_it_ends_with_its_parent(serve: Serve) -> None:
    served = serve("--until-eof", "--standalone", SESSION_ID="of-the-host")
    assert served.about["session"] == "of-the-host"
    assert served.process.stdin is not None
    served.process.stdin.close()
    assert served.process.wait(20) == 0
    assert not Path(served.path).exists()


def test_a_parent_without_a_pipe_gets_an_error(home: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counsel", "ask-service", "--until-eof", "--standalone"],
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "--until-eof needs a pipe or terminal" in done.stderr
    assert done.stdout == ""
