"""The body and the headers of an MCP request over HTTP: their limits, and whether they agree."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from counsel.front import protocol
from counsel.front.json_messages import LARGEST_MESSAGE, Unreadable, parse
from counsel.front.protocol import META_VERSION, RpcError, check_message
from counsel.http.auth import Receive
from counsel.types import Json

LARGEST_BODY = LARGEST_MESSAGE
MOST_BODIES = 256 * 1024 * 1024  # bytes of all bodies that are being received

# The parameter that the header `Mcp-Name` repeats, by method.
_NAME_PARAMETERS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(protocol.TASK_METHODS, "taskId"),
}
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")


class RefusedRequest(Exception):
    """A refusal with an HTTP status, before the session sees the request."""

    def __init__(self, status: int, message: str, code: int = protocol.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.status = status
        self.error = RpcError(code, message)


class _TooLarge(RefusedRequest):
    def __init__(self, *, more: bool = False) -> None:
        super().__init__(413, f"The body is larger than {LARGEST_BODY // 2**20} MiB")
        self.more = more  # whether more of the body follows


class Bodies:
    """Receives bodies: each has a limit, and all together have one."""

    def __init__(self) -> None:
        self._bytes = 0

    async def raw(self, receive: Receive, limit: int) -> bytearray:
        """Receive a body without parsing it."""
        body = bytearray()
        try:
            while await self._more(body, receive, limit):
                pass
            return body
        finally:
            self._bytes -= len(body)

    async def raw_or_none(self, receive: Receive, limit: int) -> bytearray | None:
        """Receive a body; None if it exceeds the limit.

        It is received to its end: a client that sends reads no answer.
        """
        body, fits, more = bytearray(), True, True
        try:
            while more:
                if fits:
                    try:
                        more = await self._more(body, receive, limit)
                    except _TooLarge as error:
                        fits, more = False, error.more
                else:
                    more = bool((await receive()).get("more_body"))
            return body if fits else None
        finally:
            self._bytes -= len(body)

    async def message(self, headers: dict[bytes, str], receive: Receive) -> Any:
        length = headers.get(b"content-length", "0")
        if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:  # h11: digits only
            raise _TooLarge
        body = bytearray()
        try:
            while await self._more(body, receive, LARGEST_BODY):
                pass
            return parse(body)
        except Unreadable as error:
            unreadable = protocol.unreadable(error)
            raise RefusedRequest(400, unreadable.message, unreadable.code) from None
        finally:
            self._bytes -= len(body)

    async def _more(self, body: bytearray, receive: Receive, limit: int) -> bool:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedRequest(400, "The body did not arrive")
        part = message.get("body", b"")
        if len(body) + len(part) > limit:
            raise _TooLarge(more=bool(message.get("more_body")))
        if self._bytes + len(part) > MOST_BODIES:
            raise RefusedRequest(
                503, "The server is receiving too much at once: try again in a moment", protocol.BUSY
            )
        body += part
        self._bytes += len(part)
        return bool(message.get("more_body"))


def check_single(message: object) -> None:
    if isinstance(message, list):
        raise RpcError(protocol.INVALID_REQUEST, "The body must be one JSON-RPC message")
    check_message(message)


def has_envelope(message: object) -> bool:
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and META_VERSION in meta


def check_envelope(message: Json) -> None:
    meta = (message.get("params") or {}).get("_meta")
    keys = (META_VERSION, protocol.META_CAPABILITIES)
    missing = [key for key in keys if not isinstance(meta, dict) or key not in meta]
    if missing:
        raise RpcError(protocol.INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")


def check_removed(message: Json) -> None:
    """Refuse `initialize` in a stateless request: the version is supported, but no longer has this method."""
    if message["method"] == "initialize":
        protocol.check_version(message["params"]["_meta"][META_VERSION])
        raise RpcError(protocol.METHOD_NOT_FOUND, "Method not found", "initialize")


def check_headers(message: Json, raw: Iterable[tuple[bytes, bytes]], headers: dict[bytes, str]) -> None:
    """Check that the headers by which proxies route agree with the body."""
    names = [name for name, _ in raw if name in _ROUTING]
    for name in _ROUTING:
        if names.count(name) > 1:
            raise _mismatch(name, "appears more than once")
    params = message["params"]
    if headers.get(b"mcp-protocol-version") != params["_meta"][META_VERSION]:
        raise _mismatch(b"mcp-protocol-version", "is not the envelope's protocol version")
    if headers.get(b"mcp-method") != message["method"]:
        raise _mismatch(b"mcp-method", "is not the body's method")
    key = _NAME_PARAMETERS.get(message["method"])
    if key and params.get(key) is not None and _decoded(headers.get(b"mcp-name")) != params[key]:
        raise _mismatch(b"mcp-name", f"is not the body's {key}")


def _mismatch(header: bytes, problem: str) -> RpcError:
    return RpcError(protocol.HEADER_MISMATCH, f"The header {header.decode()} {problem}")


def _decoded(value: str | None) -> str | None:
    """Decode a header's value: `=?base64?…?=` encodes what a header cannot contain."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    payload = value[len("=?base64?") : -len("?=")]
    try:
        data = base64.b64decode(payload)
        return data.decode() if base64.b64encode(data).decode() == payload else None
    except (binascii.Error, UnicodeDecodeError):
        return None
