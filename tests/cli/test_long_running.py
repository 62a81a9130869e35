"""Commands that run until they are told to stop, and the demo: in this process, with a model and engine of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pytest
from click.testing import CliRunner

from counsel import settings
from counsel.caller import Caller
from counsel.cli import ask_service, connect, demo
from counsel.cli.team import worker
from counsel.errors import InvalidArgument
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent
from counsel.models import embedded

Output = pytest.CaptureFixture[str]


# ── the demo ─────────────────────────────────────────────────────────────────────────────────────────


MODEL = {"COUNSEL_LOCAL_API_KEY": "k", "COUNSEL_LOCAL_BASE_URL": "http://127.0.0.1:1"}


class ModelStub:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = MODEL

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


class CounselStub:
    asked: ClassVar[list[tuple[str, str, float]]] = []
    env: ClassVar[dict[str, str]] = {}

    def __init__(self, env: dict[str, str]) -> None:
        CounselStub.env = env

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to end."""

    async def ask(self, question: str, *, model: str, temperature: float) -> Any:
        self.asked.append((question, model, temperature))
        return SimpleNamespace(text=f"about {question}", metadata={"model": model})

    async def stream(self, question: str, *, model: str, temperature: float) -> AsyncGenerator[JobEvent]:
        self.asked.append((question, model, temperature))
        yield event_from(1, 0.0, "notice", "0", {"kind_of": "warning", "text": "x"})
        for offset, text in ((0, "it "), (3, "is")):
            yield event_from(2, 0.0, "text", "0", {"text": text, "offset": offset, "phase": "answer"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("COUNSEL")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    monkeypatch.setattr(demo, "Counsel", CounselStub)
    monkeypatch.setattr(embedded, "LocalModel", ModelStub)
    monkeypatch.setattr(embedded, "fetch", lambda home, report: report(f"fetched to {home}"))
    CounselStub.asked = []
    return tmp_path


def ran(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(demo.demo, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


def test_the_demo_asks_its_questions_and_says_how_to_go_on(home: Path) -> None:
    out, err = ran()
    assert [question for question, *_ in CounselStub.asked] == list(demo.QUESTIONS)
    assert {(model, temperature) for _, model, temperature in CounselStub.asked} == {("smollm2", 0.0)}
    assert out == "it is\n\n" * 2
    assert err.startswith(f"fetched to {home}\n{demo.TINY}\n")
    assert [line for line in err.splitlines() if line.startswith("> ")] == [
        f"> {text}" for text in demo.QUESTIONS
    ]
    assert "set a key such as OPENAI_API_KEY" in err
    assert CounselStub.env.items() >= MODEL.items()


def test_questions_of_ones_own_and_offers_with_ones_own_keys(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0000000000000000")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0000000000000000")
    _, err = ran("--prompt", "one", "--prompt", "two")
    assert [question for question, *_ in CounselStub.asked] == ["one", "two"]
    assert "You have keys. Ask a large model:  counsel ask -m " in err
    assert "`counsel models` lists all models" in err
    document = json.loads(ran("--json", "--prompt", "one")[0])
    assert document["answers"] == [
        {"prompt": "one", "content": "about one", "metadata": {"model": "smollm2"}}
    ]
    assert (document["model"], document["note"]) == ("smollm2", demo.TINY)
    assert len(document["with_your_keys"]) == 2, "the best of each provider"
    assert document["with_your_keys"][0] in err


@pytest.mark.parametrize("as_json", [True, False])
def test_the_model_is_kept_for_other_programs(
    home: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def pause() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "pause", pause)
    out, err = ran("--keep", *(["--json"] if as_json else []))
    assert CounselStub.asked == []
    if as_json:
        assert json.loads(out)["environment"] == MODEL
    else:
        assert out == "".join(f"export {name}={value}\n" for name, value in MODEL.items())
        assert "Ctrl-C stops it." in err


# ── a worker ─────────────────────────────────────────────────────────────────────────────────────────


class EngineStub:
    def __init__(self) -> None:
        self.notes: list[object] = []
        self.drains = asyncio.Event()

    def register_caller(self, caller: Caller) -> None:
        self.notes.append(("caller", caller.client))

    async def drain(self, seconds: float) -> None:
        self.notes.append(("drain", seconds))
        await self.drains.wait()

    async def close(self, *, keep: bool) -> None:
        self.notes.append(("close", keep))


class Running:
    """A worker in this process, and what it announces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path, **env: str) -> None:
        self.engine = EngineStub()
        self.said: list[str] = []
        self.settings = settings.load({"COUNSEL_HOME": str(home), "COUNSEL_CONCURRENCY": "3", **env})

        async def whole_engine(_: Path) -> EngineStub:
            return self.engine

        monkeypatch.setattr("counsel.daemon.server.whole_engine", whole_engine)
        monkeypatch.setattr("counsel.daemon.process_limits.prepare_process", lambda: None)
        monkeypatch.setattr("counsel.logs.setup", lambda *_, **__: None)
        monkeypatch.setattr("counsel.logs.announce", lambda _, text: self.said.append(text))

    async def start(self, port: int | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(worker._run(self.settings, port))
        async with asyncio.timeout(30):
            while not any("runs up to" in text for text in self.said):
                await asyncio.sleep(0)
        return task

    async def until(self, note: object) -> None:
        async with asyncio.timeout(30):
            while note not in self.engine.notes:
                await asyncio.sleep(0)


async def test_a_worker_finishes_its_jobs_after_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(monkeypatch, tmp_path, COUNSEL_DRAIN_SECONDS="7")
    task = await running.start()
    assert running.said == ["counsel worker runs up to 3 jobs. Ctrl-C stops it."]
    assert running.engine.notes == [("caller", "worker")]
    os.kill(os.getpid(), signal.SIGTERM)
    await running.until(("drain", 7))
    assert running.said[1] == "counsel worker takes no more jobs; running ones have 7 seconds to finish."
    assert not task.done()
    running.engine.drains.set()
    await asyncio.wait_for(task, 30)
    assert running.engine.notes[-1] == ("close", True)


async def test_a_second_signal_ends_a_worker_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(monkeypatch, tmp_path)
    task = await running.start()
    os.kill(os.getpid(), signal.SIGINT)
    await running.until(("drain", running.settings.drain_seconds))
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(task, 30)
    assert running.engine.notes[-1] == ("close", True)


@pytest.mark.parametrize(
    ("option", "setting", "has_probes"), [(0, "", True), (None, "", False), (None, "0", False)]
)
async def test_a_worker_answers_probes_where_it_is_asked_to_and_not_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: int | None, setting: str, has_probes: bool
) -> None:
    running = Running(monkeypatch, tmp_path, **({"COUNSEL_PROBE_PORT": setting} if setting else {}))
    task = await running.start(option)
    probes = [text for text in running.said if text.startswith("Probes: http://")]
    assert len(probes) == has_probes
    if has_probes:
        host, _, port = probes[0].removeprefix("Probes: http://").removesuffix("/ready").partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
    running.engine.drains.set()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 30)
    if has_probes:
        with pytest.raises(OSError, match=r"refused|failed"):
            await asyncio.open_connection(host, int(port))


@pytest.mark.parametrize(
    ("option", "setting", "port"),
    [(8081, "", 8081), (None, "8082", 8082), (8081, "8082", 8081), (0, "8082", 0), (None, "", None)],
)
async def test_the_option_of_a_workers_probes_wins_over_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: int | None, setting: str, port: int | None
) -> None:
    ports: list[int] = []

    async def serve(_: object, host: str, port: int) -> asyncio.Server:
        ports.append(port)
        return await asyncio.start_server(lambda *_: None, host, 0)

    monkeypatch.setattr("counsel.http.worker_probes.WorkerProbes.serve", serve)
    running = Running(monkeypatch, tmp_path, **({"COUNSEL_PROBE_PORT": setting} if setting else {}))
    task = await running.start(option)
    running.engine.drains.set()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 30)
    assert ports == ([] if port is None else [port])


def test_a_worker_needs_a_teams_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    monkeypatch.setenv("COUNSEL_DATABASE", "")
    monkeypatch.setenv("COUNSEL_CONCURRENCY", "1")
    result = CliRunner().invoke(worker.worker, ["--concurrency", "5"])
    assert isinstance(result.exception, InvalidArgument)
    assert "A worker needs a team's database." in str(result.exception)
    assert os.environ["COUNSEL_CONCURRENCY"] == "5"


# ── a session's socket ───────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def no_engine(_caller: Caller, *, standalone: bool) -> AsyncIterator[Any]:
    assert standalone
    yield SimpleNamespace(register_caller=lambda _: None)


@pytest.mark.parametrize("end", ["a signal", "the end of its input"])
async def test_a_sessions_socket_is_served_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output, end: str
) -> None:
    monkeypatch.setattr(connect, "engine", no_engine)
    read, write = os.pipe()
    stdin = os.fdopen(read)
    monkeypatch.setattr("sys.stdin", stdin)
    caller = Caller("test", settings=settings.load({"COUNSEL_HOME": str(tmp_path)}))
    serving = asyncio.create_task(
        ask_service._serve(caller, "s-1", "claude", until_eof=end != "a signal", standalone=True)
    )
    out = ""
    async with asyncio.timeout(30):
        while not (out := out + capsys.readouterr().out):
            await asyncio.sleep(0)
    document = json.loads(out)
    assert (document["session"], document["pid"]) == ("s-1", os.getpid())
    _, writer = await asyncio.open_unix_connection(document["socket"])
    writer.close()
    os.write(write, b"ignored")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not serving.done()
    if end == "a signal":
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 30)
    os.close(write)
    await asyncio.wait_for(serving, 30)
    stdin.close()
    assert not Path(document["socket"]).exists()


async def test_a_programs_pipe_gets_the_sockets_place_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "engine", no_engine)
    read, write = os.pipe()
    os.set_blocking(read, False)
    stdout = os.fdopen(write, "w")
    monkeypatch.setattr("sys.stdout", stdout)
    caller = Caller("test", settings=settings.load({"COUNSEL_HOME": str(tmp_path)}))
    serving = asyncio.create_task(
        ask_service._serve(caller, "s-1", "claude", until_eof=False, standalone=True)
    )
    out = b""
    async with asyncio.timeout(20):
        while not out.endswith(b"\n"):
            await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError):
                out += os.read(read, 1000)
    assert not serving.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 30)
    stdout.close()
    os.close(read)


@pytest.mark.parametrize("continues", [True, False])
async def test_a_standalone_engine_continues_jobs_only_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    notes: list[object] = []

    class Standalone:
        def for_machine(self) -> Self:
            return self

        def register_caller(self, caller: Caller) -> None:
            notes.append(caller.client)

        async def close(self) -> None:
            notes.append("closed")

    async def open_engine(home: Path, *, takes_jobs: bool) -> Standalone:
        notes.append((home, takes_jobs))
        return Standalone()

    monkeypatch.setattr("counsel.engine.engine.open_engine", open_engine)
    monkeypatch.setattr("counsel.logs.setup", lambda *_, **__: None)
    caller = Caller("test", settings=settings.load({"COUNSEL_HOME": str(tmp_path)}))
    with pytest.raises(InvalidArgument):
        async with connect.engine(caller, standalone=True, resume_jobs=continues):
            raise InvalidArgument("It failed.")
    assert notes == [(tmp_path, False), *(["test"] if continues else []), "closed"]


async def test_input_that_cannot_be_watched_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "file").open("w+") as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(InvalidArgument, match="needs a pipe or terminal"):
            ask_service._stop_at_eof(asyncio.Event())
