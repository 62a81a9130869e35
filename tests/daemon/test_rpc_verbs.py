"""Each method of the daemon's socket: its call of the engine, its answer, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.daemon import rpc_server
from counsel.daemon.rpc_server import RpcServer, caller_to_json, request_to_json
from counsel.errors import CounselError, NotFound
from counsel.job_events import JobDone, TextAdded
from counsel.requests import ChatRequest

CALLER = caller_to_json(Caller("test", cwd=Path("/")))


class Engine:
    """Records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.failure: CounselError | None = None
        self.hangs = False

    def _note(self, *call: object) -> Any:
        self.asked.append(call)
        if self.failure:
            raise self.failure
        return SimpleNamespace(to_json=lambda: {"did": call[0]}, with_outcomes=lambda: [{"job_id": "j"}])

    async def submit(self, request: object, caller: Any, *, background: bool, key: str) -> str:
        self._note("submit", type(request).__name__, caller.client, background, key)
        return "job_1"

    async def wait(self, job: str) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        return self._note("wait", job)

    async def accepted(self, job: str) -> Any:
        return self._note("accepted", job)

    async def status(self, any_id: str, *, full_history: bool) -> Any:
        return self._note("status", any_id, full_history)

    async def recent(self, limit: int) -> Any:
        return self._note("recent", limit)

    async def cancel(self, any_id: str, member: str | None = None) -> Any:
        return self._note("cancel", any_id, *([member] if member else []))

    async def detach(self, job: str) -> None:
        self._note("detach", job)

    async def follow(self, job: str, after: int) -> AsyncIterator[Any]:
        self._note("follow", job, after)
        yield TextAdded(4, 0.5, "0", "so", 0, "answer")
        yield JobDone(5, 0.5, "", "completed")


class Program:
    def __init__(self) -> None:
        self.engine, self.ends = Engine(), list[str]()
        self.replies: list[dict[str, Any]] = []
        some: Any = self.engine
        self.server = RpcServer(some, self._receive, lambda: {"pid": 7}, self.ends.append, self._drain)
        self.drained = 0

    def _receive(self, line: bytes) -> None:
        self.replies.append(json.loads(line))

    async def _drain(self) -> None:
        self.drained += 1

    async def ask(self, method: str, number: int = 1, **params: object) -> dict[str, Any]:
        self.server.line(json.dumps({"id": number, "method": method, "params": params}).encode())
        task = self.server._tasks.get(number)
        if task:
            await task
        return self.replies[-1]

    def is_busy(self) -> bool:
        return self.server.busy

    async def submitted(self, *, background: bool = False) -> None:
        request = request_to_json(ChatRequest(prompt="q"))
        reply = await self.ask("submit", request=request, caller=CALLER, background=background, key="k")
        assert reply == {"id": 1, "result": "job_1"}


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.mark.parametrize(
    ("method", "params", "engine_call", "result"),
    [
        ("wait", {"job_id": "j"}, ("wait", "j"), {"did": "wait"}),
        ("accepted", {"job_id": "j"}, ("accepted", "j"), {"did": "accepted"}),
        ("status", {"any_id": "j", "full_history": True}, ("status", "j", True), {"did": "status"}),
        ("recent", {"limit": 3}, ("recent", 3), {"content": {"jobs": [{"job_id": "j"}]}}),
        ("cancel", {"any_id": "j"}, ("cancel", "j"), {"did": "cancel"}),
        ("cancel_member", {"any_id": "j", "member": "1"}, ("cancel", "j", "1"), {"did": "cancel"}),
        ("detach", {"job_id": "j"}, ("detach", "j"), None),
    ],
)
async def test_a_method_asks_the_engine(
    program: Program, method: str, params: dict[str, Any], engine_call: tuple[object, ...], result: object
) -> None:
    assert await program.ask(method, 9, **params) == {"id": 9, "result": result}
    assert program.engine.asked == [engine_call]


async def test_a_daemon_reports_its_state_and_ends_on_request(program: Program) -> None:
    assert (await program.ask("daemon_status"))["result"] == {"pid": 7}
    assert (await program.ask("daemon_stop"))["result"] == {"stopped": True}
    await asyncio.sleep(0)
    assert program.ends == ["stop"]


async def test_events_of_a_job_come_one_by_one_as_fast_as_they_are_read(program: Program) -> None:
    await program.ask("follow", 3, job_id="j", after=2)
    assert program.engine.asked == [("follow", "j", 2)]
    assert [(reply["id"], reply.get("event", {}).get("kind")) for reply in program.replies] == [
        (3, "text"), (3, "done"), (3, None)
    ]  # fmt: skip
    assert program.replies[0]["event"]["seq"] == 4
    assert program.replies[-1] == {"id": 3, "result": None}
    assert program.drained == 2


async def test_a_program_waits_for_what_it_submitted_until_it_has_ended(program: Program) -> None:
    assert not program.is_busy()
    await program.submitted()
    assert program.is_busy()
    assert program.engine.asked == [("submit", "ChatRequest", "test", False, "k")]
    assert program.server.concerns_own_job(b'{"id":2,"method":"status","params":{"job_id":"job_1"}}')
    await program.ask("wait", job_id="job_1")
    assert not program.is_busy()
    assert not program.server.concerns_own_job(b'{"id":2,"method":"status","params":{"job_id":"job_1"}}')


@pytest.mark.parametrize(
    ("method", "params"),
    [("cancel", {"any_id": "job_1"}), ("detach", {"job_id": "job_1"}), ("wait", {"job_id": "job_1"})],
)
async def test_a_program_that_no_longer_waits_does_not_cancel_its_job(
    program: Program, method: str, params: dict[str, Any]
) -> None:
    await program.submitted()
    if method == "wait":
        program.engine.failure = NotFound("There is none.")
    await program.ask(method, **params)
    await program.server.close("gone")
    assert ("cancel", "job_1") not in program.engine.asked[2:]
    assert not program.is_busy()


async def test_nobody_waits_for_a_background_job(program: Program) -> None:
    await program.submitted(background=True)
    assert not program.is_busy()


@pytest.mark.parametrize(
    ("line", "concerns"),
    [
        (b'{"id":1,"method":"drop"}', True),
        (b'{"id":1,"method":"cancel","params":{"any_id":"x"}}', True),
        (b'{"id":1,"method":"cancel_member","params":{}}', True),
        (b'{"id":1,"method":"recent","params":null}', False),
    ],
)
def test_which_requests_concern_own_jobs(program: Program, line: bytes, concerns: bool) -> None:
    assert program.server.concerns_own_job(line) == concerns


async def test_a_failure_is_passed_on_unchanged(program: Program) -> None:
    program.engine.failure = NotFound("There is none.", hint="Look.")
    assert (await program.ask("status", any_id="j", full_history=False))["error"] == {
        "error": "There is none.", "code": "NOT_FOUND", "hint": "Look."
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("nonsense", {}, "There is no method"),
        ("wait", {}, "wait: job_id must be of type str"),
        ("recent", {"limit": -1}, "recent: limit must be of type int"),
        ("recent", {"limit": 2**62 + 1}, "recent: limit must be of type int"),
        ("status", {"any_id": "j", "full_history": "yes"}, "full_history must be of type bool"),
        ("submit", {"request": {}, "caller": {}, "background": False, "key": "k"}, "not a valid request"),
        ("console_open", {"caller": {}, "port": 0}, "no console"),
        ("console_hold", {"caller": CALLER, "port": 0}, "no console"),
    ],
)
async def test_what_is_refused(program: Program, method: str, params: dict[str, Any], message: str) -> None:
    error = (await program.ask(method, **params))["error"]
    assert (error["code"], message in error["error"]) == ("INVALID_ARGUMENT", True)
    assert program.engine.asked == []
    assert (await program.ask("recent", limit=2**62))["result"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"1","method":"recent","params":{}}',
        b'{"id":1,"method":3,"params":{}}',
        b'{"id":1,"method":"recent","params":[1]}',
        b'{"id":true,"method":"recent","params":{}}',
        b'{"id":36893488147419103232,"method":"recent","params":{}}',
        b'{"method":"recent"}',
    ],
)
async def test_what_is_no_request_ends_the_connection(program: Program, line: bytes) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        program.server.line(line)


async def test_a_request_can_be_dropped_and_its_number_is_free_again(program: Program) -> None:
    program.engine.hangs = True
    line = b'{"id":1,"method":"wait","params":{"job_id":"j"}}'
    program.server.line(line)
    await asyncio.sleep(0)
    assert program.is_busy()
    with pytest.raises(ValueError, match="in use"):
        program.server.line(line)
    task = program.server._tasks[1]
    program.server.line(b'{"id":1,"method":"drop"}')
    program.server.line(b'{"id":2,"method":"drop"}')
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert not program.is_busy()


async def test_too_many_requests_at_once_are_refused(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_server, "MOST_AT_ONCE", 1)
    program.engine.hangs = True
    program.server.line(b'{"id":1,"method":"wait","params":{"job_id":"j"}}')
    program.server.line(b'{"id":2,"method":"wait","params":{"job_id":"j"}}')
    assert (program.replies[-1]["id"], program.replies[-1]["error"]["code"]) == (2, "RATE_LIMIT_EXCEEDED")
    await program.server.close("gone")
