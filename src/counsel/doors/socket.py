"""One connection on the daemon's socket: a stdio front that carries an agent's MCP, or a program that uses the engine.

Lines of JSON. A line that starts with `@` is between the front and us; all others are MCP, passed through as they are.

    front → daemon   @{"hello": {role, version, agent, cwd, env, initialize}}   first, and once
                     @{"initialize": params}       the client shook hands (the front has answered)
                     @{"key": k}                   names the call in the next line, also when it is sent again
                     @{"handover": true}           a newer release is here: write everything down and end
    daemon → front   @{"hello": {version, pid}}    or @{"refused": why}
                     @{"job": id, "id": n}         request n became this job
                     @{"done": n, "answered": b}   the next line answers request n; or nothing will: it was cancelled
                     @{"leaving": why}             we end, and it is no accident: no need to start another at once
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel import __version__
from counsel.doors.calls import Leaving
from counsel.doors.desk import Desk, caller_from_json
from counsel.doors.lines import LinePipe, McpLines, encode
from counsel.doors.mcp import Session
from counsel.doors.protocol import RpcError, is_request
from counsel.doors.visitor import Visitor
from counsel.types import Json

if TYPE_CHECKING:
    from counsel.doors.house import House

log = logging.getLogger("counsel.daemon")


class Visit:
    def __init__(self, house: House) -> None:
        self.house = house
        self.role = ""
        self.pipe = LinePipe(self._line, self._lost, lambda line: self._refuse(line.words))
        self._mcp: McpLines | None = None
        self._desk: Desk | None = None
        self._key: str | None = None
        self._hello: Json = {}
        self._leaving: asyncio.Task[None] | None = None
        house.enter(self)

    def about(self) -> Json:
        """For `counsel daemon status`: who, and nothing of what it said."""
        client = self._mcp.session.talk.client if self._mcp else self.role
        return {"client": client, "agent": self._hello.get("agent"), "version": self._hello.get("version")}

    def _line(self, data: bytes) -> None:
        try:
            self._take(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._refuse(f"a line could not be understood: {error!r}")

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer of ours."""
        return bool((self._mcp and self._mcp.busy) or (self._desk and self._desk.busy))

    def _take(self, data: bytes) -> None:
        if self.house.retired and self._is_new(data):
            return  # its front sends it to the next daemon, as soon as we have hung up
        if data.startswith(b"@"):
            self._control(json.loads(data[1:]))
        elif self._mcp is not None:
            key, self._key = self._key, None
            self._mcp.line(data, key)
        elif self._desk is not None:
            self._desk.line(data)
        else:
            self._refuse("the first line must be a hello")

    def _is_new(self, data: bytes) -> bool:
        """Whether a line asks for something that is not already on its way here."""
        if data.startswith(b"@"):
            return False
        if self._desk is not None:
            return not self._desk.concerns_own_job(data)
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return False
        return isinstance(message, list) or (isinstance(message, dict) and is_request(message))

    def _control(self, message: Json) -> None:
        if "hello" in message:
            self._greet(message["hello"])
        elif "key" in message:
            self._key = str(message["key"])
        elif "initialize" in message and self._mcp is not None:
            _shake(self._mcp.session, message["initialize"])
        elif "handover" in message:
            self.house.end("handover")
        else:
            raise ValueError("an unknown note")

    def _greet(self, hello: Json) -> None:
        if self.pipe.transport and peer_uid(self.pipe.transport.get_extra_info("socket")) != os.getuid():
            self._refuse("this daemon belongs to another user")
            return
        self.role, self._hello = str(hello.get("role")), hello
        if self.role == "mcp":
            self._mcp = self._open_mcp(hello)
        else:
            if hello.get("caller"):
                self.house.engine.meet(caller_from_json(hello["caller"]))
            self._desk = Desk(self.house.engine, self.pipe.write, self.house.status, self.house.end)
        self.pipe.write(_note({"hello": {"version": __version__, "pid": os.getpid()}}))

    def _open_mcp(self, hello: Json) -> McpLines:
        env = {**hello.get("env", {}), "COUNSEL_HOME": str(self.house.home)}
        visitor = Visitor(env=env, cwd=Path(str(hello.get("cwd") or "/")), agent=hello.get("agent"))
        session = Session(self.house.engine, visitor)
        self.house.engine.meet(visitor.caller("stdio"))
        lines = McpLines(session, self.pipe.write, is_full=lambda: self.pipe.full, announce=_note)
        if hello.get("initialize"):
            _shake(session, hello["initialize"])
        return lines

    def _refuse(self, why: str) -> None:
        self.pipe.write(_note({"refused": why}))
        self.pipe.close()

    def _lost(self) -> None:
        self._leaving = self._leaving or asyncio.ensure_future(self.close("gone"))

    async def close(self, why: Leaving) -> None:
        if self._mcp is not None:
            self.pipe.write(_note({"leaving": why}))
            await self._mcp.close(why)
        if self._desk is not None:
            await self._desk.close(why)
        self.pipe.close()
        self.house.leave(self)


def _note(message: Json) -> bytes:
    return b"@" + encode(message)


def _shake(session: Session, params: Json) -> None:
    """The front has answered `initialize`, with a refusal if it was one; here it is only known."""
    with suppress(RpcError):
        session.talk.initialize(params)


def peer_uid(connection: Any) -> int:
    """Who is at the other end of a unix socket."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    # macOS and the BSDs: struct xucred {version, uid, …} at SOL_LOCAL (0), LOCAL_PEERCRED (1)
    return int(struct.unpack_from("2I", connection.getsockopt(0, 1, 76))[1])
