"""The daemon's engine for programs, with daemons of our own in this process: lost, replaced, silent, and refusing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import __version__, pending_calls, settings
from counsel.caller import Caller
from counsel.daemon import rpc_client
from counsel.daemon.rpc_client import RemoteEngine
from counsel.errors import CounselError, FileTooLarge, Internal, InvalidArgument, NotFound
from counsel.front.launcher import FAILING_LIMIT
from counsel.requests import ChatRequest

RESULT = {
    "content": "Hello",
    "continuation": {"id": "mine"},
    "metadata": {"model": "gpt-5", "provider": "openai", "usage": {}, "cost_usd": 0.0, "response_time_ms": 1, "finish_reason": "stop"},
    "job_id": "job_1",
}  # fmt: skip


class Daemon:
    """One daemon's end of a connection: answers from a table, by method."""

    def __init__(self, version: str = __version__) -> None:
        self.version = version
        self.asked: list[dict[str, Any]] = []
        self.control: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.silent: set[str] = set()
        self.heard = asyncio.Event()
        self.ours, self._theirs = socket.socketpair()
        self._writer: asyncio.StreamWriter | None = None

    def connection(self) -> socket.socket:
        self.ours.setblocking(False)
        return self.ours

    async def serve(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._theirs)
        while line := await reader.readline():
            if line.startswith(b"@"):
                self.control.append(json.loads(line[1:]))
                if "hello" in self.control[-1] and "hello" not in self.silent:
                    self.say(b'@{"hello":{"version":"%s"}}' % self.version.encode())
                if "handover" in self.control[-1]:
                    self.die()
            else:
                self._answer(json.loads(line))
            self.heard.set()

    def _answer(self, message: dict[str, Any]) -> None:
        self.asked.append(message)
        method = message["method"]
        if method == "drop" or method in self.silent:
            return
        if method == "daemon_stop":
            self.say(json.dumps({"id": message["id"], "result": None}).encode())
            self.die()
            return
        answer = self.answers.get(method, {"result": f"job_of {method}"})
        for event in answer.get("events", ()):
            self.say(json.dumps({"id": message["id"], "event": event}).encode())
        rest = {name: value for name, value in answer.items() if name != "events"}
        if rest:
            self.say(json.dumps({"id": message["id"], **rest}).encode())

    def say(self, line: bytes) -> None:
        assert self._writer is not None
        self._writer.write(line + b"\n")

    def die(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()

    def methods(self) -> list[str]:
        return [message["method"] for message in self.asked]


class LauncherStub:
    """Reaches the daemons one after another."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)
        self.problem, self.error = "", None
        self.error_file = "/home/daemon.err"
        self.daemons: list[Daemon] = []
        self.notes: list[str] = []
        self.gives_up = False
        self.limits: list[tuple[float, float]] = []
        self.failure: OSError | None = None

    def attempt(self) -> socket.socket | None:
        self.notes.append("attempt")
        return self.daemons.pop(0).connection() if self.daemons else None

    def existing(self) -> socket.socket | None:
        if self.failure:
            raise self.failure
        return self.attempt()

    def should_give_up(self, began: float, limit: float, failing: float) -> bool:
        self.limits.append((limit, failing))
        return self.gives_up

    def pause(self) -> float:
        return 0.0

    def take_lock(self) -> bool:
        self.notes.append("lock")
        return self.notes.count("lock") > 1

    def not_answering(self) -> str:
        return "process 5 does not answer"

    def __getattr__(self, name: str) -> Any:
        return lambda: self.notes.append(name)


class Setup:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.caller = Caller("cli", cwd=Path("/"), settings=settings.load({"COUNSEL_HOME": str(home)}))
        self.engine = RemoteEngine({"COUNSEL_HOME": str(home)}, self.caller)
        self.launcher = LauncherStub(home)
        launcher: Any = self.launcher
        self.engine._launcher = launcher
        self._serving: list[asyncio.Task[None]] = []
        self._daemons: list[Daemon] = []

    def daemon(self, version: str = __version__, **answers: Any) -> Daemon:
        daemon = Daemon(version)
        daemon.answers = answers
        self.launcher.daemons.append(daemon)
        self._daemons.append(daemon)
        self._serving.append(asyncio.create_task(daemon.serve()))
        return daemon

    async def submit(self, prompt: str = "hi", **fields: Any) -> str:
        return await self.engine.submit(ChatRequest(prompt=prompt), self.caller, **fields)

    def notes(self) -> set[str]:
        folder = self.home / "run" / "kept"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    async def close(self) -> None:
        await self.engine.close()
        for daemon in self._daemons:
            daemon.die()
        for _ in range(5):  # until the transports are closed
            await asyncio.sleep(0)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for daemon in self._daemons:
            daemon.ours.close()
            daemon._theirs.close()


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    setup_ = Setup(tmp_path)
    yield setup_
    await setup_.close()


async def within(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, 30)


async def test_a_program_says_hello_once_with_its_caller(setup: Setup) -> None:
    daemon = setup.daemon(recent={"result": {"content": {"jobs": []}}})
    assert (await within(setup.engine.recent(3))).jobs == ()
    assert (await within(setup.engine.recent())).jobs == ()
    (hello,) = daemon.control
    assert hello["hello"]["role"] == "engine"
    assert hello["hello"]["version"] == __version__
    assert hello["hello"]["caller"]["client"] == "cli"
    assert [message["params"] for message in daemon.asked] == [{"limit": 3}, {"limit": 10}]
    assert [message["id"] for message in daemon.asked] == [1, 2]
    assert setup.launcher.notes == ["attempt", "greeted", "answered", "answered"]


@pytest.mark.parametrize(
    ("call", "method", "params"),
    [
        (lambda engine: engine.detach("job_1"), "detach", {"job_id": "job_1"}),
        (lambda engine: engine.cancel("mine"), "cancel", {"any_id": "mine"}),
        (lambda engine: engine.cancel("mine", "1"), "cancel_member", {"any_id": "mine", "member": "1"}),
        (lambda engine: engine.status("mine"), "status", {"any_id": "mine", "full_history": False}),
        (
            lambda engine: engine.status("mine", full_history=True),
            "status",
            {"any_id": "mine", "full_history": True},
        ),
        (lambda engine: engine.accepted("job_1"), "accepted", {"job_id": "job_1"}),
        (lambda engine: engine.daemon_status(), "daemon_status", {}),
    ],
)
async def test_each_method_names_its_arguments(
    setup: Setup, call: Callable[[RemoteEngine], Awaitable[Any]], method: str, params: dict[str, Any]
) -> None:
    daemon = setup.daemon()
    daemon.answers[method] = {"result": {"content": {}}}
    await within(call(setup.engine))
    assert [(message["method"], message["params"]) for message in daemon.asked] == [(method, params)]


async def test_a_failure_of_the_engine_is_raised_as_it_is(setup: Setup) -> None:
    daemon = setup.daemon(status={"error": NotFound("There is none.").as_dict()})
    with pytest.raises(NotFound, match="There is none"):
        await within(setup.engine.status("x"))
    assert daemon.methods() == ["status"], "it has ended: nothing to drop"


async def test_a_request_that_is_no_longer_waited_for_is_dropped(setup: Setup) -> None:
    daemon = setup.daemon()
    daemon.silent.add("wait")
    waiting = asyncio.create_task(setup.engine.wait("job_1"))
    await within(_until(lambda: daemon.methods() == ["wait"]))
    waiting.cancel()
    await within(_until(lambda: daemon.methods() == ["wait", "drop"]))
    assert daemon.asked[1]["id"] == daemon.asked[0]["id"]
    assert setup.engine._waiting == {}


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


async def test_a_job_is_submitted_again_to_the_next_daemon_with_its_key(setup: Setup) -> None:
    first = setup.daemon(submit={"result": "job_1"})
    first.silent.add("wait")
    assert await within(setup.submit(key="k")) == "job_1"
    second = setup.daemon(submit={"result": "job_1"}, wait={"result": RESULT})
    waiting = asyncio.create_task(setup.engine.wait("job_1"))
    await within(_until(lambda: "wait" in first.methods()))
    first.die()
    assert (await within(waiting)).content == "Hello"
    assert second.methods() == ["submit", "wait"]
    assert second.asked[0]["params"] == first.asked[0]["params"]
    assert second.asked[0]["params"]["key"] == "k"
    assert "lost" in setup.launcher.notes
    assert list(setup.engine._submitted) == [pending_calls.job_id("k")], (
        "only the job that was waited for is forgotten"
    )
    assert setup.engine._lost_at == 0.0


async def test_a_background_job_is_not_submitted_again(setup: Setup) -> None:
    first = setup.daemon(submit={"result": "job_1"})
    first.silent.add("wait")
    assert await within(setup.submit(background=True)) == "job_1"
    assert first.asked[0]["params"]["background"] is True
    second = setup.daemon(wait={"result": RESULT})
    waiting = asyncio.create_task(setup.engine.wait("job_1"))
    await within(_until(lambda: "wait" in first.methods()))
    first.die()
    await within(waiting)
    assert second.methods() == ["wait"]


async def test_a_job_that_was_refused_or_detached_is_forgotten(setup: Setup) -> None:
    setup.daemon(submit={"error": InvalidArgument("No.").as_dict()})
    with pytest.raises(InvalidArgument):
        await within(setup.submit(key="k"))
    assert setup.engine._submitted == {}
    setup.engine._submitted["job_1"] = {}
    await within(setup.engine.detach("job_1"))
    assert setup.engine._submitted == {}


def event(seq: int, text: str, offset: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": 1.0,
        "kind": "text",
        "slot": "0",
        "data": {"text": text, "offset": offset, "phase": "answer"},
    }


async def test_events_continue_behind_the_last_one_in_the_next_daemon(setup: Setup) -> None:
    first = setup.daemon(follow={"events": [event(3, "Hel", 0)]})
    second = setup.daemon(follow={"events": [event(4, "lo", 3)], "result": None})
    seen = []
    async with asyncio.timeout(30):
        async for item in setup.engine.follow("job_1", after=2):
            seen.append(item.data["text"])
            first.die()
    assert seen == ["Hel", "lo"]
    assert [message["params"] for message in (*first.asked, *second.asked)] == [
        {"job_id": "job_1", "after": 2}, {"job_id": "job_1", "after": 3}
    ]  # fmt: skip


async def test_an_older_daemon_hands_over_as_soon_as_nobody_else_starts_one(setup: Setup) -> None:
    older, newer = setup.daemon("0.0.1"), setup.daemon("999.0")
    await within(setup.engine.open())
    assert [next(iter(message)) for message in older.control] == ["hello", "handover"]
    assert setup.launcher.notes.count("lock") == 2
    assert [next(iter(message)) for message in newer.control] == ["hello"]


async def test_whoever_only_looks_for_a_daemon_takes_an_older_one_and_starts_none(setup: Setup) -> None:
    older = setup.daemon("0.0.1")
    assert await within(setup.engine.open(start=False))
    assert [next(iter(message)) for message in older.control] == ["hello"]
    other = Setup(setup.home)
    assert await within(other.engine.open(start=False)) is False
    other.launcher.failure = OSError("no permission")
    with pytest.raises(Internal, match="The daemon cannot be reached: no permission") as excinfo:
        await other.engine.open(start=False)
    assert excinfo.value.hint == "Run `counsel doctor`."


async def test_a_daemon_that_refuses_says_why(setup: Setup) -> None:
    daemon = setup.daemon()
    daemon.silent.add("hello")
    opening = asyncio.create_task(setup.engine.open())
    await within(daemon.heard.wait())
    daemon.say(b'@{"refused":"too many connections"}')
    with pytest.raises(Internal, match="The daemon refused: too many connections"):
        await within(opening)


async def test_a_daemon_that_dies_before_its_hello_is_replaced(setup: Setup) -> None:
    first, second = setup.daemon(), setup.daemon()
    first.silent.add("hello")
    opening = asyncio.create_task(setup.engine.open())
    await within(first.heard.wait())
    first.die()
    assert await within(opening)
    assert len(second.control) == 1


async def test_a_daemon_without_a_hello_is_named(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_client, "START_TIMEOUT", 0.05)
    setup.daemon().silent.add("hello")
    with pytest.raises(Internal, match="process 5 does not answer") as excinfo:
        await within(setup.engine.open())
    assert excinfo.value.hint == "See /home/daemon.err."


async def test_a_first_start_is_given_up_sooner_than_a_daemon_that_was_lost(setup: Setup) -> None:
    setup.launcher.gives_up = True
    with pytest.raises(Internal, match="it has not started yet"):
        await within(setup.engine.open())
    assert setup.launcher.limits == [(rpc_client.START_TIMEOUT, rpc_client.FIRST_FAILING_LIMIT)]
    assert setup.launcher.notes[-1] == "release"
    daemon = setup.daemon()
    daemon.silent.add("wait")
    waiting = asyncio.create_task(setup.engine.wait("job_1"))
    await within(_until(lambda: "wait" in daemon.methods()))
    setup.launcher.problem = "the disk is full"
    daemon.die()
    with pytest.raises(Internal, match="the disk is full"):
        await within(waiting)
    assert setup.launcher.limits[-1] == (rpc_client.RECONNECT_TIMEOUT, FAILING_LIMIT)


@pytest.mark.parametrize("is_confirmed", [True, False])
async def test_jobs_that_nobody_can_continue_now_get_a_note_and_are_named(
    setup: Setup, is_confirmed: bool
) -> None:
    daemon = setup.daemon(submit={"result": pending_calls.job_id("k")})
    if not is_confirmed:
        daemon.silent.add("submit")
    daemon.silent.add("wait")
    work = asyncio.create_task(_answer(setup))
    await within(_until(lambda: ("wait" if is_confirmed else "submit") in daemon.methods()))
    setup.launcher.gives_up, setup.launcher.problem = True, "the disk is full"
    daemon.die()
    with pytest.raises(CounselError) as excinfo:
        await within(work)
    job = pending_calls.job_id("k")
    assert (excinfo.value.hint or "") == (
        f"{'' if is_confirmed else 'If it had started, '}{job} continues as soon as a daemon runs: `counsel jobs` shows it."
    )
    assert setup.notes() == {job}
    await setup.engine.close()
    assert setup.notes() == {job}, "its caller was told that it continues"


async def _answer(setup: Setup) -> Any:
    return await setup.engine.wait(await setup.submit(key="k"))


async def test_a_note_is_removed_when_the_answer_comes_after_all_or_nobody_waits(setup: Setup) -> None:
    setup.engine._submitted = {"job_1": {}, "job_2": {}}
    setup.engine._note_jobs()
    assert setup.notes() == {"job_1", "job_2"}
    setup.engine._forget("job_1")
    assert setup.notes() == {"job_2"}
    await setup.engine.close()
    assert setup.notes() == set()


async def test_daemons_that_die_again_and_again_are_given_up(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(at=100.0)
    monkeypatch.setattr(rpc_client, "time", SimpleNamespace(monotonic=lambda: now.at))
    daemons = [setup.daemon() for _ in range(3)]
    for daemon in daemons:
        daemon.silent.add("wait")
    waiting = asyncio.create_task(setup.engine.wait("job_1"))
    for number, seconds in ((0, rpc_client.RECONNECT_TIMEOUT), (1, 0.1), (2, 0.0)):
        await within(_until(lambda number=number: "wait" in daemons[number].methods()))  # type: ignore[misc]
        daemons[number].die()
        if number < 2:
            await within(_until(lambda number=number: "wait" in daemons[number + 1].methods()))  # type: ignore[misc]
        now.at += seconds
    with pytest.raises(Internal, match="it keeps dying"):
        await within(waiting)


async def test_stopping_returns_when_the_daemon_has_gone(setup: Setup) -> None:
    daemon = setup.daemon()
    await within(setup.engine.daemon_stop())
    assert daemon.methods() == ["daemon_stop"]
    assert setup.engine._pipe is None


async def test_what_cannot_be_sent_is_refused_before_it_is(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = setup.daemon()
    with pytest.raises(InvalidArgument, match="NaN and infinite numbers"):
        await within(setup.engine._ask("wait", job_id=float("nan")))
    monkeypatch.setattr(rpc_client, "LARGEST_MESSAGE", 100)
    with pytest.raises(FileTooLarge, match="This request is too large"):
        await within(setup.engine._ask("wait", job_id="x" * 100))
    assert await within(setup.engine._ask("wait", job_id="x")) == "job_of wait"
    assert daemon.methods() == ["wait"]
    assert setup.engine._waiting == {}


async def test_the_console_is_held_across_daemons(setup: Setup) -> None:
    first, second = setup.daemon(), setup.daemon()
    first.silent.add("console_hold")
    second.answers["daemon_status"] = {"result": {"pid": 7}}
    restarts: list[str] = []
    holding = asyncio.create_task(
        setup.engine.console_hold(setup.caller, 8080, lambda: restarts.append("again"))
    )
    await within(_until(lambda: "console_hold" in first.methods()))
    assert first.asked[0]["params"]["port"] == 8080
    assert first.asked[0]["params"]["caller"]["client"] == "cli"
    first.die()
    await within(holding)
    assert second.methods() == ["daemon_status", "console_hold"]
    assert restarts == ["again"]
    opened = await within(setup.engine.console_open(setup.caller))
    assert opened == {}
    assert second.asked[-1]["params"]["port"] == 0
