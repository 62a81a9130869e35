"""One connection to the daemon's socket: a stdio front that relays a client's MCP, or a program that uses the engine.

Lines of JSON. Lines that start with `@` are between the front and the daemon; all others are MCP, passed on unchanged.

    front → daemon   @{"hello": {role, version, agent, cwd, env, initialize}}   the first line, once
                     @{"initialize": params}       the client has sent `initialize`, and the front has answered it
                     @{"key": k, "waited": s}      before a call: its key, the same each time the call is sent, and
                                                   the seconds that its client has waited; "new": true the first time
                     @{"handover": true}           from a newer release: store everything and exit
    daemon → front   @{"hello": {version, pid}}    or @{"refused": why}
                     @{"job": id, "id": n}         request n became this job
                     @{"done": n, "answered": b}   the next line answers request n; if b is false, there is no answer
                     @{"leaving": why}             an orderly exit: do not start another daemon at once
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from counsel import __version__
from counsel import json_reader as read
from counsel.daemon.rpc_server import CallerDocument, RpcServer, caller_from_json
from counsel.front.bounded_lines import TooLong
from counsel.front.json_messages import LARGEST_MESSAGE, parse, quoted
from counsel.front.protocol import RpcError, is_request
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import LinePipe, McpLines
from counsel.mcp.session import Session
from counsel.mcp.tool_call import LeaveReason
from counsel.requests import NewKey
from counsel.strict_json import encode_line

if TYPE_CHECKING:
    from counsel.daemon.server import DaemonServer

log = logging.getLogger("counsel.daemon")

HELLO_TIMEOUT = 10.0  # seconds
LARGEST_HELLO = 4 * 1024 * 1024  # bytes: it contains the caller's environment
LONGEST_KEY = 200  # characters
MOST_WAITED = 86_400  # seconds


# the line that a front writes before each call: parsing it as JSON takes five times as long
_CALL = re.compile(
    rb'@\{"key":"([0-9a-f]{4}\.[0-9a-f]{28})","waited":([0-9]{1,4}\.[0-9])(,"new":true)?\}'
).fullmatch


class ConnectedClient(TypedDict):
    client: object
    agent: object
    version: object


class Connection:
    def __init__(self, server: DaemonServer) -> None:
        self.server = server
        self.role = ""
        self.pipe = LinePipe(
            self._line, self._lost, on_made=self._connected, on_too_long=self._too_long, is_server=True
        )
        self.pipe.splitter.allow(LARGEST_HELLO)
        self._mcp: McpLines | None = None
        self._rpc: RpcServer | None = None
        self._key: str | None = None
        self._waited = 0.0
        self._hello: dict[str, object] = {}
        self._closing: asyncio.Task[None] | None = None
        self._hello_timer: asyncio.TimerHandle | None = None

    def about(self) -> ConnectedClient:
        """What `counsel daemon status` shows: the client, and nothing of what it sent."""
        client = self._mcp.session.protocol_state.client if self._mcp else self.role
        return {"client": client, "agent": self._hello.get("agent"), "version": self._hello.get("version")}

    def _connected(self) -> None:
        """Check the user and the number of connections, before any line is read."""
        assert self.pipe.transport is not None  # set just before this call
        if peer_uid(self.pipe.transport.get_extra_info("socket")) != os.getuid():
            self._refuse("this daemon belongs to another user")
        elif not self.server.admit(self):
            self.pipe.write(
                _control_line({"refused": "too many connections: close a client or raise `ulimit -n`"})
            )
            self.pipe.close()
        else:
            loop = asyncio.get_running_loop()
            self._hello_timer = loop.call_later(
                HELLO_TIMEOUT, self.close_if_silent, f"no hello within {HELLO_TIMEOUT:g} s"
            )

    def close_if_silent(self, why: str) -> None:
        """Close a connection that has not said hello."""
        if not self.role:
            self._refuse(why)

    def _too_long(self, line: TooLong) -> None:
        if self._mcp is not None:
            self._mcp.refuse(line)
        else:  # the request's number is lost, so it cannot be answered
            self._refuse(line.message if self.role else f"a hello may have at most {LARGEST_HELLO:,} bytes")

    def _line(self, data: bytes) -> None:
        try:
            self._take(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._refuse(f"cannot parse a line: {type(error).__name__} {quoted(str(error))}")

    @property
    def busy(self) -> bool:
        """Whether the client waits for an answer."""
        return bool((self._mcp and self._mcp.busy) or (self._rpc and self._rpc.busy))

    def _take(self, data: bytes) -> None:
        if self.server.retired and self._is_new(data):
            return  # the front sends it to the next daemon when this connection closes
        if (call := _CALL(data)) and self.role:
            key = call[1].decode()
            self._key, self._waited = NewKey(key) if call[3] else key, float(call[2])
        elif data.startswith(b"@"):
            self._control(parse(data[1:]))
        elif self._mcp is not None:
            key, self._key = self._key, None
            self._mcp.line(data, key, self._waited if key else 0.0)
        elif self._rpc is not None:
            self._rpc.line(data)
        else:
            self._refuse("the first line must be a hello")

    def _is_new(self, data: bytes) -> bool:
        """Whether a line is a new request, rather than about one that is in progress here."""
        if data.startswith(b"@"):
            return False
        if self._rpc is not None:
            return not self._rpc.concerns_own_job(data)
        try:
            message = parse(data)
        except ValueError:
            return False
        return isinstance(message, list) or (isinstance(message, dict) and is_request(message))

    def _control(self, message: dict[str, object]) -> None:
        if "hello" in message:
            if self.role:
                raise ValueError("a second hello")
            hello = message["hello"]
            if not isinstance(hello, dict):
                raise TypeError("a hello is an object")
            self._greet(hello)
        elif not self.role:
            self._refuse("the first line must be a hello")
        elif "key" in message:
            key = _key(message["key"])
            self._key = NewKey(key) if message.get("new") is True else key
            self._waited = _seconds(message.get("waited"))
        elif "initialize" in message and self._mcp is not None:
            _initialize(self._mcp.session, read.part(message, "initialize"))
        elif "handover" in message:
            self.server.end("handover")
        else:
            raise ValueError("an unknown control message")

    def _greet(self, hello: dict[str, object]) -> None:
        role = str(hello.get("role"))[:20]
        if role == "mcp":
            self._mcp = self._open_mcp(hello)
        else:
            if hello.get("caller"):
                self.server.engine.register_caller(caller_from_json(cast("CallerDocument", hello["caller"])))
            server = self.server
            self._rpc = RpcServer(
                server.engine,
                self.pipe.write,
                server.status,
                server.end,
                self.pipe.drain,
                console=server.console,
            )
        self.role, self._hello = role, {name: hello.get(name) for name in ("agent", "version")}
        self.pipe.splitter.allow(LARGEST_MESSAGE)
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self.server.greeted(self)
        self.pipe.write(_control_line({"hello": {"version": __version__, "pid": os.getpid()}}))

    def _open_mcp(self, hello: dict[str, object]) -> McpLines:
        variables = cast("dict[str, str]", read.part(hello, "env"))
        identity = ClientIdentity(
            env={**variables, "COUNSEL_HOME": str(self.server.home)},
            cwd=Path(str(hello.get("cwd") or "/")),
            agent=read.text_or_none(hello, "agent"),
        )
        if self.pipe.transport is not None:
            identity.front = peer_pid(self.pipe.transport.get_extra_info("socket"))
        session = Session(self.server.engine, identity)
        self.server.engine.register_caller(identity.caller("stdio"))
        lines = McpLines(session, self.pipe.write, is_full=lambda: self.pipe.full, announce=_control_line)
        if hello.get("initialize"):
            _initialize(session, read.part(hello, "initialize"))
        return lines

    def _refuse(self, why: str) -> None:
        self.pipe.refuse(_control_line({"refused": why}))

    def _lost(self) -> None:
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._begin_close("gone")

    async def close(self, why: LeaveReason) -> None:
        await asyncio.shield(self._begin_close(why))

    def _begin_close(self, why: LeaveReason) -> asyncio.Task[None]:
        """Close once, for the first reason: a handover closes the socket, which looks as if the client had left."""
        self._closing = self._closing or asyncio.ensure_future(self._close(why))
        return self._closing

    async def _close(self, why: LeaveReason) -> None:
        if self._mcp is not None:
            self.pipe.write(_control_line({"leaving": why}))
            await self._mcp.close(why)
        if self._rpc is not None:
            await self._rpc.close(why)
        self.pipe.close()
        self.server.remove(self)


def _control_line(message: Mapping[str, object]) -> bytes:
    return b"@" + encode_line(message)


def _key(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_KEY:
        raise ValueError(f"a key is a string of at most {LONGEST_KEY} characters")
    return value


def _seconds(value: object) -> float:
    """The value as seconds; 0 from an older front, which does not send it."""
    return float(value) if isinstance(value, int | float) and 0 <= value < MOST_WAITED else 0.0


def _initialize(session: Session, params: dict[str, object]) -> None:
    """Record `initialize` in the session. The front has already answered it, perhaps with an error."""
    with suppress(RpcError):
        session.protocol_state.initialize(params)


def peer_pid(connection: socket.socket) -> int | None:
    """The process at the other end, where the kernel reports it (Linux)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0]) or None


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a unix socket."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    # macOS and the BSDs: struct xucred {version, uid, …} at SOL_LOCAL (0), LOCAL_PEERCRED (1)
    return int(struct.unpack_from("2I", connection.getsockopt(0, 1, 76))[1])
