"""Every method in each era of MCP, with right and wrong parameters (tests/golden/protocol.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file, for intentional changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel import __version__
from counsel.front import protocol
from counsel.front.protocol import ProtocolState, RpcError

GOLDEN = Path(__file__).parent.parent / "golden" / "protocol.txt"
VERSION = protocol.META_VERSION
CAPABILITIES = protocol.META_CAPABILITIES
TOOLS: list[dict[str, object]] = [{"name": "chat"}]
META: dict[str, Any] = {VERSION: "2026-07-28", CAPABILITIES: {}}
WITH_TASKS: dict[str, Any] = {**META, CAPABILITIES: {"extensions": {protocol.TASKS: {}}}}
HELLO = {"protocolVersion": "2025-06-18", "clientInfo": {"name": "one"}, "capabilities": {}}
METHODS: dict[str, list[dict[str, Any] | None]] = {
    "initialize": [
        HELLO,
        None,
        {**HELLO, "protocolVersion": "2024-11-05", "capabilities": {"roots": {}}},
        {**HELLO, "protocolVersion": "1999-01-01", "clientInfo": {"name": "x" * 300}},
        {**HELLO, "protocolVersion": 5},
        {**HELLO, "clientInfo": "one"},
        {**HELLO, "clientInfo": {"name": ""}, "capabilities": {"roots": True}},
        {**HELLO, "clientInfo": {"name": 5}, "capabilities": []},
    ],
    "server/discover": [{}],
    "ping": [{}, None],
    "logging/setLevel": [{"level": "debug"}, {"level": "loud"}, {}],
    "tools/list": [{}, {"cursor": "2"}, {"cursor": None}, None],
    "prompts/list": [{}, {"cursor": ""}],
    "prompts/get": [{}, {"name": "no such"}, {"name": "x" * 300}, {"name": "consensus", "arguments": 5}],
    "resources/templates/list": [{}, {"cursor": "2"}],
    "resources/list": [{}],
    "resources/read": [{}],
    "tools/call": [{}],
    "tasks/get": [{}],
    "tasks/update": [{}],
    "tasks/cancel": [{}],
    "subscriptions/listen": [{}, {"notifications": {"taskIds": ["1"]}}, {"notifications": {"taskIds": []}}],
    "no/such": [{}],
    "x" * 300: [{}],
}
OPENERS: dict[str, dict[str, Any] | None] = {
    "first": None,
    "after initialize": {"method": "initialize", "id": 0, "params": HELLO},
    "after a stateless one": {"method": "tools/list", "id": 0, "params": {"_meta": META}},
}
METAS: dict[str, Any] = {
    "no envelope": None,
    "stateless": META,
    "with tasks": WITH_TASKS,
    "no capabilities": {VERSION: "2026-07-28"},
    "another version": {**META, VERSION: "2027-01-01"},
    "no text as version": {**META, VERSION: 5},
    "a client": {**META, protocol.META_CLIENT: {"name": "two"}, CAPABILITIES: {"roots": {}}},
    "no object": [],
}


def outcome(opener: dict[str, Any] | None, request: dict[str, Any]) -> str:
    state = ProtocolState(TOOLS)
    if opener:
        state.open(opener)
        state.static(opener)
    try:
        state.open(request)
        result: object = state.static(request)
    except RpcError as error:
        result = error.response(request["id"])
    text = json.dumps(result, sort_keys=True).replace(__version__, "VERSION")
    return f"{text} | {state.era} {state.version} {state.client[:250]} {state.capabilities}"


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    for method, parameters in METHODS.items():
        for number, params in enumerate(parameters):
            for name, meta in METAS.items():
                if number and name not in {"no envelope", "stateless"}:
                    continue
                full = params if meta is None else {**(params or {}), "_meta": meta}
                request: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method}
                yield (
                    f"{method[:40]} {number} {name}",
                    request if full is None else {**request, "params": full},
                )


def report() -> Iterator[str]:
    for opening, opener in OPENERS.items():
        lines: dict[str, list[str]] = {}
        for name, request in requests():
            lines.setdefault(outcome(opener, request), []).append(name)
        for text, names in lines.items():
            yield f"## {opening}: {'; '.join(names)}\n{text}"


def test_every_request_is_answered_like_this() -> None:
    text = "\n".join(report()) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("", True), ("x" * 1000, True), ("x" * 1001, False), (0, True), (True, False), (1.5, False), (None, False),
        (2**64 - 1, True), (2**64, False), (-(2**64) + 1, True), ([], False),
    ],
)  # fmt: skip
def test_what_an_id_may_be(value: object, valid: bool) -> None:
    assert protocol.is_id(value) is valid
    assert protocol.reply_id({"id": value}) == (value if valid else None)
    token: dict[str, Any] = {"params": {"_meta": {"progressToken": value}}}
    assert protocol.progress_token(token) == (value if valid else None)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ([], -32600),
        ({"method": "ping"}, -32600),
        ({"jsonrpc": "1.0", "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "result": {}}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {}}, None),
        ({"jsonrpc": "2.0", "method": "note"}, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}, None),
    ],
)
def test_what_a_message_may_be(message: object, code: int | None) -> None:
    if code is None:
        protocol.check_message(message)
        return
    with pytest.raises(RpcError) as excinfo:
        protocol.check_message(message)
    assert excinfo.value.code == code


def test_batches_exist_in_the_oldest_revisions_only() -> None:
    protocol.check_batch([1], "2025-03-26")
    protocol.check_batch([1] * 100, "2024-11-05")
    for messages, version in (([], "2025-03-26"), ([1], "2025-06-18"), ([1] * 101, "2025-03-26")):
        with pytest.raises(RpcError):
            protocol.check_batch(messages, version)
    assert protocol.batch_ids([{"id": 1}, {}, 5, {"id": True}]) == [1, None, None, None]


def test_an_error_has_data_only_when_there_are_some() -> None:
    assert "data" not in RpcError(-1, "x").response(1)["error"]
    assert RpcError(-1, "x", 0).response(None) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -1, "message": "x", "data": 0},
    }
    assert "1,000 requests" in protocol.busy().message


def test_a_resource_that_is_missing_has_the_eras_code() -> None:
    state = ProtocolState(TOOLS)
    assert state.missing_resource("counsel://x").code == -32002
    state.era = "stateless"
    assert state.missing_resource("counsel://x").code == -32602
    assert state.missing_resource("x" * 300).data == {"uri": "x" * 200 + "…"}


def test_a_result_keeps_its_own_meta() -> None:
    state = ProtocolState(TOOLS)
    assert state.stamped("tools/call", {"a": 1}) == {"a": 1}
    state.era = "stateless"
    result = state.stamped("tools/call", {"a": 1, "_meta": {"mine": 2}})
    assert result["_meta"] == {"mine": 2, protocol.META_SERVER: protocol.SERVER}
    assert (result["resultType"], "ttlMs" in result) == ("complete", False)
    assert state.stamped("resources/read", {})["cacheScope"] == "private"
    assert state.stamped("tools/list", {})["ttlMs"] == 3_600_000
