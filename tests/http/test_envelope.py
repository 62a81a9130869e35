"""The body and the headers of an MCP request over HTTP: what is refused before a session sees it."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from counsel.front.protocol import META_CAPABILITIES, META_VERSION, RpcError
from counsel.http import envelope
from counsel.http.envelope import Bodies, RefusedRequest

META = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}


def receiving(*parts: bytes, disconnect: bool = False) -> Callable[[], Awaitable[dict[str, Any]]]:
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1 or disconnect}
        for number, part in enumerate(parts)
    ]
    if disconnect:
        messages.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    receive.left = messages  # type: ignore[attr-defined]
    return receive


async def test_a_body_is_received_in_parts() -> None:
    bodies = Bodies()
    assert await bodies.message({}, receiving(b'{"a"', b": 1}")) == {"a": 1}
    assert await bodies.raw(receiving(b"12", b"345"), 5) == b"12345"
    assert bytes(await bodies.raw_or_none(receiving(b"12", b"345"), 5) or b"") == b"12345"
    assert bodies._bytes == 0


async def test_a_body_beyond_its_limit_is_refused_or_received_to_its_end() -> None:
    bodies = Bodies()
    with pytest.raises(RefusedRequest) as error:
        await bodies.raw(receiving(b"12", b"345"), 4)
    assert error.value.status == 413
    long = receiving(b"12", b"345", b"6", b"7")
    assert await bodies.raw_or_none(long, 4) is None
    assert long.left == []  # type: ignore[attr-defined]
    assert await bodies.raw_or_none(receiving(b"12345"), 4) is None
    assert bodies._bytes == 0


@pytest.mark.parametrize(
    ("length", "is_refused"), [(64 * 2**20, False), (64 * 2**20 + 1, True), (10**30, True)]
)
async def test_a_declared_length_is_refused_before_anything_is_read(length: int, is_refused: bool) -> None:
    headers = {b"content-length": str(length)}
    if not is_refused:
        assert await Bodies().message(headers, receiving(b"{}")) == {}
        return
    with pytest.raises(RefusedRequest) as error:
        await Bodies().message(headers, receiving())
    assert (error.value.status, str(error.value)) == (413, "The body is larger than 64 MiB")


async def test_all_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "MOST_BODIES", 10)
    bodies = Bodies()
    assert await bodies.raw(receiving(b"x" * 10), 100) == b"x" * 10
    with pytest.raises(RefusedRequest) as error:
        await bodies.raw(receiving(b"x" * 6, b"y" * 5), 100)
    assert (error.value.status, error.value.error.code) == (503, -32000)
    assert await bodies.raw(receiving(b"x" * 10), 100)  # what was refused no longer counts


async def test_a_body_that_does_not_arrive_or_is_no_json_is_refused() -> None:
    with pytest.raises(RefusedRequest) as error:
        await Bodies().message({}, receiving(b"{", disconnect=True))
    assert (error.value.status, error.value.error.code) == (400, -32600)
    with pytest.raises(RefusedRequest) as error:
        await Bodies().message({}, receiving(b"{"))
    assert (error.value.status, error.value.error.code) == (400, -32700)


def test_a_body_is_one_message() -> None:
    envelope.check_single({"jsonrpc": "2.0", "method": "ping", "id": 1})
    for wrong in ([], [{"jsonrpc": "2.0", "method": "ping"}], {"method": "ping"}):
        with pytest.raises(RpcError) as error:
            envelope.check_single(wrong)
        assert error.value.code == -32600


@pytest.mark.parametrize(
    ("message", "has"),
    [
        ({"params": {"_meta": META}}, True),
        ({"params": {"_meta": {META_VERSION: 5}}}, True),
        ({"params": {"_meta": {}}}, False),
        ({"params": {"_meta": [META_VERSION]}}, False),
        ({"params": []}, False),
        ({}, False),
        ([], False),
    ],
)
def test_an_envelope_is_recognized(message: object, has: bool) -> None:
    assert envelope.has_envelope(message) is has


@pytest.mark.parametrize(
    ("params", "missing"),
    [
        ({"_meta": META}, []),
        ({"_meta": {META_VERSION: "x"}}, [META_CAPABILITIES]),
        ({"_meta": {META_CAPABILITIES: {}}}, [META_VERSION]),
        ({"_meta": 5}, [META_VERSION, META_CAPABILITIES]),
        (None, [META_VERSION, META_CAPABILITIES]),
    ],
)
def test_what_an_envelope_lacks_is_named(params: Any, missing: list[str]) -> None:
    if not missing:
        envelope.check_envelope({"params": params})
        return
    with pytest.raises(RpcError) as error:
        envelope.check_envelope({"params": params})
    assert (error.value.code, error.value.message) == (-32602, f"params._meta lacks {', '.join(missing)}")


@pytest.mark.parametrize(("version", "code"), [("2026-07-28", -32601), ("1999-01-01", -32022), (5, -32602)])
def test_initialize_has_no_place_in_a_stateless_request(version: object, code: int) -> None:
    envelope.check_removed({"method": "tools/list", "params": {"_meta": META}})
    with pytest.raises(RpcError) as error:
        envelope.check_removed({"method": "initialize", "params": {"_meta": {META_VERSION: version}}})
    assert error.value.code == code


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize(
    ("method", "params", "changes", "header"),
    [
        ("tools/call", {"name": "chat"}, {}, None),
        ("tools/call", {"name": "chat"}, {"mcp-name": encoded("chat")}, None),
        ("tools/call", {}, {"mcp-name": None}, None),
        ("tools/list", {"name": "chat"}, {"mcp-name": "other"}, None),
        ("prompts/get", {"name": "chat"}, {"mcp-name": "other"}, "mcp-name is not the body's name"),
        ("tools/call", {"name": "chat"}, {"mcp-name": "other"}, "mcp-name is not the body's name"),
        ("tools/call", {"name": "chat"}, {"mcp-name": None}, "mcp-name is not the body's name"),
        ("tools/call", {"name": "chat"}, {"mcp-name": "=?base64?%%?="}, "mcp-name is not the body's name"),
        (
            "tools/call",
            {"name": "\ufffd"},
            {"mcp-name": "=?base64?/w==?="},
            "mcp-name is not the body's name",
        ),
        ("tools/call", {"name": "a"}, {"mcp-name": "=?base64?YR==?="}, "mcp-name is not the body's name"),
        ("resources/read", {"uri": "counsel://x"}, {"mcp-name": "counsel://x"}, None),
        ("resources/read", {"uri": "counsel://x"}, {"mcp-name": "y"}, "mcp-name is not the body's uri"),
        ("tasks/get", {"taskId": "1"}, {"mcp-name": "2"}, "mcp-name is not the body's taskId"),
        ("tools/call", {"name": "chat"}, {"mcp-method": "tools/list"}, "mcp-method is not the body's method"),
        ("tools/call", {"name": "chat"}, {"mcp-method": None}, "mcp-method is not the body's method"),
        (
            "tools/call",
            {"name": "chat"},
            {"mcp-protocol-version": "2025-06-18"},
            "mcp-protocol-version is not the envelope's protocol version",
        ),
    ],
)
def test_headers_for_proxies_agree_with_the_body(
    method: str, params: dict[str, Any], changes: dict[str, str | None], header: str | None
) -> None:
    values = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": "chat"} | changes
    headers = {name.encode(): value for name, value in values.items() if value is not None}
    raw = [(name, value.encode()) for name, value in headers.items()]
    message = {"method": method, "params": {**params, "_meta": META}}
    if header is None:
        envelope.check_headers(message, raw, headers)
        return
    with pytest.raises(RpcError) as error:
        envelope.check_headers(message, raw, headers)
    assert (error.value.code, error.value.message) == (-32020, f"The header {header}")


@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_a_header_for_proxies_appears_once(name: bytes) -> None:
    headers = {b"mcp-protocol-version": "2026-07-28", b"mcp-method": "tools/call", b"mcp-name": "chat"}
    raw = [(key, value.encode()) for key, value in headers.items()]
    message = {"method": "tools/call", "params": {"name": "chat", "_meta": META}}
    envelope.check_headers(message, [*raw, (b"x-other", b"1"), (b"x-other", b"1")], headers)
    with pytest.raises(RpcError, match="appears more than once"):
        envelope.check_headers(message, [*raw, (name, headers[name].encode())], headers)
