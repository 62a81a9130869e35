"""Serves the engine to programs on the daemon's socket. `rpc_client.RemoteEngine` is the other end.

One line per request, `{"id", "method", "params"}`; one per answer, `{"id", "result"}` or `{"id", "error"}`; while a job
is followed, `{"id", "event"}`. `{"id", "method": "drop"}`: the program no longer waits for this answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from counsel.caller import Caller
from counsel.daemon.console import DaemonConsole, OpenConsole
from counsel.errors import CounselError, Internal, InvalidArgument, RateLimited
from counsel.front import environment
from counsel.front.json_messages import parse, quoted
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.tool_call import LeaveReason
from counsel.requests import ChatRequest, ConsensusRequest, Engine, Request, ReviewRequest
from counsel.strict_json import encode_line
from counsel.types import Json

log = logging.getLogger("counsel.daemon")
MOST_AT_ONCE = 10_000  # requests of one program: a service sends two for each of its own
_HINT = "`counsel doctor` shows the log file. Check that client and daemon are of the same release."


# ── serialisation ─────────────────────────────────────────────────────────────────────────────────────


def request_to_json(request: Request) -> dict[str, object]:
    return {"kind": type(request).__name__, **asdict(request)}


def request_from_json(data: Mapping[str, object]) -> Request:
    kinds: dict[str, type[ChatRequest | ConsensusRequest | ReviewRequest]] = {
        "ChatRequest": ChatRequest,
        "ConsensusRequest": ConsensusRequest,
        "ReviewRequest": ReviewRequest,
    }
    fields: Json = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return kinds[fields.pop("kind")](**fields)


class CallerDocument(TypedDict):
    client: str
    agent: str | None
    cwd: str
    roots: list[str]
    chain: list[str]
    named: NotRequired[list[str]]  # missing from clients of older releases
    named_secrets: NotRequired[list[str]]
    env: dict[str, str]


def caller_to_json(caller: Caller) -> CallerDocument:
    return {
        "client": caller.client,
        "agent": caller.agent,
        "cwd": str(caller.cwd),
        "roots": [str(root) for root in caller.roots],
        "chain": list(caller.chain),
        "named": [str(path) for path in caller.consented_files],
        "named_secrets": [str(path) for path in caller.consented_secrets],
        # The daemon reads COUNSEL_HOME/.env itself: keys from there, if sent, would look like the caller's own.
        "env": environment.for_calls(caller.own_env),
    }


def caller_from_json(data: CallerDocument) -> Caller:
    identity = ClientIdentity(
        env=data["env"],
        cwd=Path(data["cwd"]),
        agent=data["agent"],
        roots=tuple(Path(root) for root in data["roots"]),
    )
    return replace(
        identity.caller(data["client"]),
        cwd=identity.cwd,
        chain=tuple(data["chain"]),
        consented_files=tuple(map(Path, data.get("named", ()))),
        consented_secrets=tuple(map(Path, data.get("named_secrets", ()))),
    )


class _Job(TypedDict):
    job_id: str


class _Follow(_Job):
    after: int


class _AnyId(TypedDict):
    any_id: str


class _Member(_AnyId):
    member: str


class _Status(_AnyId):
    full_history: bool


class _Recent(TypedDict):
    limit: int


class _Console(TypedDict):
    caller: CallerDocument
    port: int


class _Submit(TypedDict):
    request: dict[str, object]
    caller: CallerDocument
    background: bool
    key: str


_ANY_ID: dict[str, type] = {"any_id": str}
_JOB: dict[str, type] = {"job_id": str}
_PARAMS: dict[str, dict[str, type]] = {
    "submit": {"request": dict, "caller": dict, "background": bool, "key": str},
    "wait": _JOB,
    "follow": {**_JOB, "after": int},
    "accepted": _JOB,
    "detach": _JOB,
    "cancel": _ANY_ID,
    "cancel_member": {**_ANY_ID, "member": str},
    "status": {**_ANY_ID, "full_history": bool},
    "recent": {"limit": int},
    "console_open": {"caller": dict, "port": int},
    "console_hold": {"caller": dict, "port": int},
    "daemon_status": {},
    "daemon_stop": {},
}
_LARGEST_NUMBER = 2**62  # SQLite's integers have 64 bits


def _check(method: str, params: dict[str, object]) -> None:
    if method not in _PARAMS:
        raise InvalidArgument(f"There is no method {quoted(method)!r}.", hint=_HINT)
    for name, kind in _PARAMS[method].items():
        value = params.get(name)
        if not isinstance(value, kind) or (isinstance(value, int) and not 0 <= value <= _LARGEST_NUMBER):
            raise InvalidArgument(f"{method}: {name} must be of type {kind.__name__}.", hint=_HINT)


def _user(params: _Console) -> tuple[dict[str, str], Path]:
    """The variables and the folder of the user who opens the console."""
    try:
        caller_from_json(params["caller"])
        return params["caller"]["env"], Path(params["caller"]["cwd"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"This is not a valid request ({type(error).__name__}).", hint=_HINT) from error


# ── the server ────────────────────────────────────────────────────────────────────────────────


class RpcServer:
    """Serves one program. When that disconnects, its synchronous calls are stopped; its background jobs continue."""

    def __init__(
        self,
        engine: Engine,
        write: Callable[[bytes], None],
        status: Callable[[], Mapping[str, object]],
        end: Callable[[str], None],
        drain: Callable[[], Awaitable[None]] | None = None,
        *,
        console: DaemonConsole | None = None,
    ) -> None:
        self.engine = engine
        self._write = write
        self._drain = drain
        self._status = status
        self._end = end
        self._console = console
        self._holding: set[int] = set()  # requests that only keep the console open
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._awaited: dict[str, Caller] = {}  # synchronous jobs of this program that are not finished
        self._methods: dict[str, Callable[[int, Any], Awaitable[object]]] = {
            "submit": self._submit,
            "wait": self._wait,
            "follow": self._follow,
            "accepted": self._accepted,
            "detach": self._detach,
            "cancel": self._cancel,
            "cancel_member": self._cancel_member,
            "status": self._job_status,
            "recent": self._recent,
            "console_open": self._console_open,
            "console_hold": self._console_hold,
            "daemon_status": self._daemon_status,
            "daemon_stop": self._daemon_stop,
        }

    @property
    def busy(self) -> bool:
        """Whether the program waits for an answer, or will wait for a job that it has submitted."""
        return bool(self._tasks.keys() - self._holding or self._awaited)

    def concerns_own_job(self, data: bytes) -> bool:
        message = parse(data)
        job = (message.get("params") or {}).get("job_id")
        return message.get("method") in {"drop", "cancel", "cancel_member"} or job in self._awaited

    def line(self, data: bytes) -> None:
        message = parse(data)
        number, method, params = message["id"], message["method"], message.get("params") or {}
        if not isinstance(number, int) or not isinstance(method, str) or not isinstance(params, dict):
            raise TypeError("a request has a numeric id, a method and params")
        if method == "drop":
            if number in self._tasks:
                self._tasks[number].cancel()
            return
        if isinstance(number, bool) or number.bit_length() > 64:
            raise ValueError("an id has at most 64 bits")
        if number in self._tasks:
            raise ValueError("this id is in use")
        if len(self._tasks) >= MOST_AT_ONCE:
            busy = RateLimited(f"{MOST_AT_ONCE:,} requests are in progress.", hint="Wait for an answer.")
            self._write(encode_line({"id": number, "error": busy.as_dict()}))
            return
        task = asyncio.ensure_future(self._answer(number, method, params))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, method: str, params: dict[str, object]) -> None:
        try:
            _check(method, params)
            result = await self._methods[method](number, params)
        except CounselError as error:
            self._write(encode_line({"id": number, "error": error.as_dict()}))
        except Exception as error:  # whatever happens, the program gets an answer
            log.exception("%s failed", quoted(method))
            failure = Internal(f"{quoted(method)} failed in the daemon ({type(error).__name__}).", hint=_HINT)
            self._write(encode_line({"id": number, "error": failure.as_dict()}))
        else:
            self._write(encode_line({"id": number, "result": result}))

    async def _submit(self, _: int, params: _Submit) -> str:
        try:
            request, caller = request_from_json(params["request"]), caller_from_json(params["caller"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(
                f"This is not a valid request ({type(error).__name__}).", hint=_HINT
            ) from error
        background = params["background"]
        submitting = asyncio.ensure_future(
            self.engine.submit(request, caller, background=background, key=params["key"])
        )
        try:
            job = await asyncio.shield(submitting)
        finally:  # if the program disconnects now, its job can still be stopped
            if not background:
                self._awaited[await submitting] = caller
        return job

    async def _wait(self, _: int, params: _Job) -> dict[str, object]:
        job = params["job_id"]
        try:
            result = await self.engine.wait(job)
        except CounselError:
            self._awaited.pop(job, None)
            raise
        self._awaited.pop(job, None)
        return result.to_json()

    async def _accepted(self, _: int, params: _Job) -> dict[str, object]:
        return (await self.engine.accepted(params["job_id"])).to_json()

    async def _job_status(self, _: int, params: _Status) -> dict[str, object]:
        return (await self.engine.status(params["any_id"], full_history=params["full_history"])).to_json()

    async def _recent(self, _: int, params: _Recent) -> dict[str, object]:
        jobs = await self.engine.recent(params["limit"])
        return {"content": {"jobs": jobs.with_outcomes()}}

    async def _cancel(self, _: int, params: _AnyId) -> dict[str, object]:
        result = await self.engine.cancel(params["any_id"])
        self._awaited.pop(params["any_id"], None)
        return result.to_json()

    async def _cancel_member(self, _: int, params: _Member) -> dict[str, object]:
        return (await self.engine.cancel(params["any_id"], params["member"])).to_json()

    async def _detach(self, _: int, params: _Job) -> None:
        await self.engine.detach(params["job_id"])
        self._awaited.pop(params["job_id"], None)

    async def _follow(self, number: int, params: _Follow) -> None:
        async for event in self.engine.follow(params["job_id"], params["after"]):
            self._write(encode_line({"id": number, "event": event.to_json()}))
            if self._drain is not None:
                await self._drain()

    async def _console_open(self, _: int, params: _Console) -> OpenConsole:
        return await self._require_console().open(*_user(params), params["port"])

    async def _console_hold(self, number: int, params: _Console) -> None:
        self._holding.add(number)
        try:
            await self._require_console().hold(*_user(params), params["port"])
        finally:
            self._holding.discard(number)

    def _require_console(self) -> DaemonConsole:
        if self._console is None:
            raise InvalidArgument("This process has no console.", hint=_HINT)
        return self._console

    async def _daemon_status(self, _: int, __: Mapping[str, object]) -> Mapping[str, object]:
        return self._status()

    async def _daemon_stop(self, _: int, __: Mapping[str, object]) -> dict[str, object]:
        asyncio.get_running_loop().call_soon(self._end, "stop")
        return {"stopped": True}

    async def close(self, reason: LeaveReason) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        if reason != "handover":
            await self._abandon()

    async def _abandon(self) -> None:
        for job, caller in self._awaited.items():
            if not caller.settings.keep_abandoned:
                with suppress(CounselError):
                    await self.engine.cancel(job)
