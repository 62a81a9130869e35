"""Inputs: valid messages with an error in them, and random bytes."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

LONG = st.sampled_from([1_000, 70_000, 300_000]).map("x".__mul__)
ANY_CHARACTER = st.characters(exclude_categories=())  # halves of surrogate pairs, too
TEXT = st.one_of(
    st.text(ANY_CHARACTER, max_size=20),
    st.sampled_from(
        ["", " ", "\0", "\ud800", "\u2028", "..", "a\r\nb", "%00", "NaN", "-0", "1e999", "٣", "007", "\ufeff"]
    ),
    LONG,
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([2**63, 2**64, -(2**63), 10**399, 10**401, 1e308, float("nan"), float("inf"), -0.0]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
DEEP = st.sampled_from([50, 99, 101, 500, 3_000]).map(lambda depth: b"[" * depth + b"]" * depth)
WIDE = st.sampled_from([1_000, 120_000]).map(lambda width: b"[" + b"{}," * width + b"0]")


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
    return {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}


def method(name: str, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 6, "method": name, "params": params}


INFO = {
    "protocolVersion": "2025-03-26",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "f", "version": "1"},
}
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MESSAGES: list[Any] = [
    method("initialize", **INFO),
    method("ping"),
    method("tools/list", cursor="c"),
    method("tools/list", _meta=STATELESS),
    method("resources/list"),
    method("resources/read", uri="counsel://jobs/conv_1/text?page=2"),
    method("resources/templates/list"),
    method("prompts/get", name="n"),
    method("logging/setLevel", level="info"),
    method("server/discover", _meta=STATELESS),
    call("chat", prompt="hello", model="gpt-5", files=["a.txt:1-2"], images=["data:image/png;base64,AA"]),
    call("chat", prompt="hello", model="gpt-5", temperature=0.5, continuation_id="conv_1"),
    call("chat", prompt="hello", model="gpt-5", reasoning_effort="low", **{"async": True}),
    call("consensus", prompt="hello", models=["gpt-5", "gpt-5-mini"], enable_cross_feedback=False),
    call("check_status", continuation_id="conv_1"),
    call("cancel_job", continuation_id="conv_1"),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}},
    {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    {"jsonrpc": "2.0", "id": "counsel-roots-1", "result": {"roots": [{"uri": "file:///tmp"}]}},
    [method("ping"), method("resources/list"), {}, 1],
]


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for name, items in inner for place in _places(items, (*at, name)))]


def _put(message: Any, place: tuple[Any, ...], value: Any, how: str) -> Any:
    if not place:
        return value
    holder = message
    for name in place[:-1]:
        holder = holder[name]
    if how == "remove":
        del holder[place[-1]]
    elif how == "add" and isinstance(holder, dict):
        holder[str(value)[:1_000]] = value
    else:
        holder[place[-1]] = value
    return message


@st.composite
def mutated(draw: st.DrawFn, messages: list[Any]) -> Any:
    message = copy.deepcopy(draw(st.sampled_from(messages)))
    for _ in range(draw(st.integers(0, 2))):
        places = _places(message)[1:]
        if places:
            how = draw(st.sampled_from(["replace", "remove", "add"]))
            message = _put(message, draw(st.sampled_from(places)), draw(VALUES), how)
    return message


def encode(message: Any, *, ascii_only: bool) -> bytes:
    return json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


@st.composite
def documents(draw: st.DrawFn, messages: list[Any] = MESSAGES) -> bytes:
    """JSON, valid or damaged."""
    data = draw(
        st.one_of(
            st.builds(encode, mutated(messages), ascii_only=st.booleans()),
            st.builds(encode, mutated(messages), ascii_only=st.booleans()),
            st.builds(encode, VALUES, ascii_only=st.booleans()),
            DEEP,
            WIDE,
            st.binary(max_size=50),
        )
    )
    mutation = draw(st.sampled_from(["", "", "", "bom", "cut", "nul", "twice", "spaces", "repeated key"]))
    at = draw(st.integers(0, max(0, len(data) - 1)))
    mutations: dict[str, bytes] = {
        "": data,
        "bom": b"\xef\xbb\xbf" + data,
        "cut": data[:at],
        "nul": data[:at] + b"\0" + data[at:],
        "twice": data + data,
        "spaces": b" \t\r " + data + b"\r",
        "repeated key": data.replace(b'"id"', b'"method": 1, "id"', 1),
    }
    return mutations[mutation]


LINES = st.lists(documents(), min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 400), max_size=4)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]
