"""What a provider may send: limits on size and time, which also hold for endless streams, and invalid JSON."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counsel import strict_json
from counsel.errors import CounselError, TimedOut, UpstreamError
from counsel.models import answer_limit
from counsel.models.connections import compression
from counsel.models.transport import Transport
from counsel.models.vendor_errors import LONGEST_WAIT, parse_error
from counsel.models.wires.openai_shared import parsed_arguments
from counsel.text import TextBuffer
from counsel.types import Call, Endpoint, Event, Finished, Limits, Model, Notice, Provider, Text, Turn
from fake.raw import RawServer, bomb, event

ACME = Provider("acme", "Acme", "openai_chat", "")
MODEL = Model("m", "acme", "m")
HELLO = Call((Turn("user", "hello"),))
LIMIT = 100_000


async def ask(server: RawServer, **limits: Any) -> list[Event]:
    transport = Transport(backoff=0.001)
    all_limits = Limits(**{"answer": LIMIT, "total": 20.0, "attempts": 1, **limits})
    try:
        stream = transport.stream(HELLO, MODEL, Endpoint(ACME, server.url, "sk-x"), all_limits)
        return [event async for event in stream]
    finally:
        await transport.close()


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("piece", ["ab ", "x" * 30_000, "日本" * 500], ids=["small", "large", "wide"])
async def test_an_endless_answer_is_cut_at_the_limit_and_says_so(piece: str) -> None:
    async with RawServer(itertools.repeat(event(content=piece) * 20)) as server:
        events = await ask(server)
        async with asyncio.timeout(10):
            await server.closed.wait()
    reply = text_of(events)
    assert LIMIT - 3 <= len(reply.encode()) <= LIMIT
    assert reply == (piece * (LIMIT // len(piece) + 1))[: len(reply)]
    notice, finished = events[-2:]
    assert isinstance(notice, Notice)
    assert "0.09537 MB" in notice.text
    assert "COUNSEL_MAX_ANSWER_BYTES" in notice.text
    assert isinstance(finished, Finished)
    assert finished.reason == "length"


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": "hm " * 100},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "x" * 300}}]},
    ],
    ids=["thinking", "arguments"],
)
async def test_endless_thinking_or_arguments_are_not_an_answer(delta: dict[str, Any]) -> None:
    async with RawServer(itertools.repeat(event(**delta) * 20)) as server:
        with pytest.raises(UpstreamError, match="without any text of an answer"):
            await ask(server)
        async with asyncio.timeout(10):
            await server.closed.wait()


async def test_text_before_endless_thinking_is_kept() -> None:
    endless = itertools.repeat(event(reasoning="hm " * 1000))
    async with RawServer(endless, first=event(content="The answer.")) as server:
        assert text_of(await ask(server)) == "The answer."


async def test_a_compressed_answer_is_read_and_a_bomb_is_cut() -> None:
    block = event(content="x" * 10_000)
    small = zlib.compressobj(wbits=31)
    compressed = small.compress(event(content="hello") + b"data: [DONE]\n\n") + small.flush()
    async with RawServer(first=compressed, head="content-encoding: gzip\r\n") as server:
        assert text_of(await ask(server)) == "hello"
    async with RawServer(bomb(block), head="content-encoding: gzip\r\n") as server:
        assert len(text_of(await ask(server))) == LIMIT


async def test_an_unsupported_encoding_is_named() -> None:
    async with RawServer(first=b"\x8b", head="content-encoding: br\r\n") as server:
        with pytest.raises(UpstreamError, match=r"Acme compressed its answer \(br\)"):
            await ask(server)
    async with RawServer(first=b"no gzip", head="content-encoding: gzip\r\n") as server:
        with pytest.raises(UpstreamError, match="not compressed as its header says"):
            await ask(server)


async def test_an_endless_event_is_refused() -> None:
    for endless in (b"x" * 10_000, b"data: " + b"x" * 1000 + b"\n", b"data\n" * 1000):
        async with RawServer(itertools.repeat(endless), first=b"data: ") as server:
            with pytest.raises(UpstreamError, match="an event of more than"):
                await ask(server)


async def test_a_500_with_an_endless_body_is_answered_at_once() -> None:
    for head, blocks in (
        ("", itertools.repeat(b"x" * 10_000)),
        ("content-encoding: gzip\r\n", bomb(b"x" * 10_000)),
    ):
        async with RawServer(blocks, status="500 Oops", kind="application/json", head=head) as server:
            with pytest.raises(UpstreamError, match="Acme failed") as excinfo:
                await ask(server)
            assert server.sent < 10_000_000
        assert excinfo.value.fields["status"] == 500


async def test_an_error_whose_body_comes_in_pieces_is_read_whole() -> None:
    body = json.dumps({"error": {"message": "no such thing, sorry"}}).encode()
    pieces = iter([body[:10], body[10:]])
    async with RawServer(pieces, status="400 Bad", kind="application/json", until_closed=True) as server:
        with pytest.raises(UpstreamError, match="no such thing, sorry"):
            await ask(server)


async def test_a_list_of_models_is_limited() -> None:
    async with RawServer(
        itertools.repeat(b'{"a":1},' * 1000), first=b'{"data":[', kind="application/json"
    ) as server:
        transport = Transport()
        with pytest.raises(UpstreamError, match="Acme answered with more than 8 MB"):
            await transport.get_json(Endpoint(ACME, server.url, "sk-x"), "/models")
        await transport.close()


async def test_a_compressed_list_of_models_is_read_and_a_damaged_one_is_refused() -> None:
    packed = gzip.compress(b'{"data":[]}')
    for body, is_whole in ((packed, True), (packed + b"damaged", False)):
        head = "content-encoding: gzip\r\n"
        async with RawServer(first=body, kind="application/json", head=head) as server:
            transport = Transport()
            reading = transport.get_json(Endpoint(ACME, server.url, "sk-x"), "/models")
            if is_whole:
                assert await reading == {"data": []}
            else:
                with pytest.raises(UpstreamError, match="Acme answered with something that is not JSON"):
                    await reading
            await transport.close()


async def test_a_head_that_is_too_large_is_the_providers_fault() -> None:
    async with RawServer(first=b"", head=f"x-large: {'x' * 100_000}\r\n") as server:
        with pytest.raises(UpstreamError, match="Acme sent a response that is not valid HTTP"):
            await ask(server)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "block",
    [b": still here\n" * 2000, event(content="") * 500, event(content="a") * 500],
    ids=["pings", "empty", "words"],
)
async def test_the_time_limit_holds_against_data_that_never_pauses(block: bytes) -> None:
    async with RawServer(itertools.repeat(block)) as server:
        with pytest.raises(TimedOut) as excinfo:
            await ask(server, total=0.5, answer=2**30)
        assert excinfo.value.fields["limit"] == "total"


async def test_other_tasks_run_while_a_bomb_is_read() -> None:
    """Other tasks run between two pieces of a compressed chunk."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with RawServer(bomb(event(content="x" * 1000)), head="content-encoding: gzip\r\n") as server:
        await ask(server, answer=2_000_000)
    counting.cancel()
    assert turns > 2_000_000 / compression.PIECE / 2  # pieces that wait at the start share a turn


# ── invalid JSON ─────────────────────────────────────────────────────────────────────────────────────

DEEP = b'{"a":' * 200_000
INVALID_DATA = {
    "deep": DEEP,
    "nan": b'{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":NaN}}',
    "infinite": b'{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1e999}}',
    "digits": b'{"choices":' + b"9" * 5000 + b"}",
    "not_utf8": b'{"choices":"\xff\xfe',
    "list": b"[1,2]",
    "number": b"7",
    "shape": b'{"choices":[[]]}',
    "empty_list": b'{"choices":{"delta":1}}',
}


async def test_an_error_in_plain_text_is_quoted_up_to_a_limit() -> None:
    """llama.cpp, TGI and proxies send no JSON."""
    async with RawServer(
        first=b"no such flag " * 40_000, status="400 Bad Request", kind="text/plain"
    ) as server:
        with pytest.raises(UpstreamError, match="no such flag") as excinfo:
            await ask(server)
    assert len(excinfo.value.message) < 500


async def test_a_page_is_not_quoted() -> None:
    page = b"<html><body>Bad gateway</body></html>"
    for kind in ("text/html", "text/plain"):
        async with RawServer(first=page, status="400 Bad Request", kind=kind) as server:
            with pytest.raises(UpstreamError, match="refused the request") as excinfo:
                await ask(server)
        assert "gateway" not in excinfo.value.message


@pytest.mark.parametrize("data", INVALID_DATA.values(), ids=INVALID_DATA.keys())
async def test_an_invalid_event_is_an_upstream_error_that_names_the_provider(data: bytes) -> None:
    async with RawServer(first=event(content="so far") + b"data: " + data + b"\n\n") as server:
        with pytest.raises(UpstreamError, match="Acme sent an event that cannot be read") as excinfo:
            await ask(server, answer=2**24)
    assert excinfo.value.fields["partial"] == "so far"


@pytest.mark.parametrize(
    "data", [DEEP, INVALID_DATA["nan"], INVALID_DATA["digits"], INVALID_DATA["not_utf8"]]
)
async def test_an_invalid_error_body_or_listing_is_an_upstream_error(data: bytes) -> None:
    async with RawServer(first=data[:60_000], status="400 Bad", kind="application/json") as server:
        with pytest.raises(UpstreamError, match="Acme refused"):
            await ask(server)
    async with RawServer(first=data, kind="application/json") as server:
        transport = Transport()
        with pytest.raises(UpstreamError, match="Acme answered with something that is not JSON"):
            await transport.get_json(Endpoint(ACME, server.url, "sk-x"), "/models")
        await transport.close()


def test_invalid_arguments_of_a_tool_count_as_none() -> None:
    for raw in ('{"a":' * 200_000, '{"a": NaN}', "[1]", "", "9" * 5000):
        assert parsed_arguments(raw) == {}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_json_is_read_as_the_library_does(value: Any) -> None:
    for text in (json.dumps(value), f"  {json.dumps(value, ensure_ascii=False)} \n"):
        assert strict_json.loads(text) == json.loads(text)


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────

PAST = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": PAST}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, LONGEST_WAIT),
        ({"retry-after": "9" * 300}, LONGEST_WAIT),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST_WAIT),
        ({"retry-after": "Fri, 99 Dec 99999 99:99:99 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "later", "retry-after": "9"}, 9),
        ({"retry-after-ms": "-1"}, 0),
    ],
)
def test_every_form_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_error(429, {}, headers).retry_after == seconds


@pytest.mark.parametrize("retry_after", ["0", "-1", PAST, "nan", "0.001"])
async def test_there_is_always_a_pause_between_two_attempts(retry_after: str, fake_api: Any) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    transport = Transport(sleep=sleep)
    fake_api.script(status=429, retry_after=retry_after, times=None)
    with pytest.raises(CounselError):
        async for _ in transport.stream(HELLO, MODEL, Endpoint(ACME, fake_api.v1, "sk-x")):
            pass
    await transport.close()
    assert len(waits) == 2
    assert 0.37 < waits[0] < 0.63
    assert 0.75 <= waits[1] <= 1.25


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.integers(0, 30), st.text(max_size=5)), max_size=60))
def test_a_buffer_equals_its_text(steps: list[tuple[int, str]]) -> None:
    buffer, text = TextBuffer(), ""
    for offset, piece in steps:
        if offset < len(text) and offset % 3 == 0:
            buffer.put(offset, piece)
            text = text[:offset] + piece
        else:
            buffer.append(piece)
            text += piece
        assert buffer.since(offset) == text[offset:]
        assert buffer.length == len(text)
    assert buffer.text() == text


def test_small_pieces_do_not_cost_an_object_each() -> None:
    buffer = TextBuffer()
    for _ in range(10_000):
        buffer.append("ab")
    assert len(buffer._blocks) + len(buffer._pieces) < 1_100


@given(st.binary(max_size=5000), st.integers(1, 700), st.sampled_from(["gzip", "deflate", "raw", ""]))
def test_compressed_bytes_come_out_as_they_went_in(data: bytes, cut: int, encoding: str) -> None:
    packer = {"gzip": 31, "deflate": 15, "raw": -15}
    compressed = data
    if encoding:
        stream = zlib.compressobj(wbits=packer[encoding])
        compressed = stream.compress(data) + stream.flush()
    opener = compression.decoder("deflate" if encoding == "raw" else encoding)
    pieces: Iterator[bytes] = (
        piece for at in range(0, len(compressed), cut) for piece in opener.feed(compressed[at : at + cut])
    )
    assert b"".join(pieces) == data


def test_a_text_is_cut_between_characters() -> None:
    assert answer_limit.first_bytes("aé😀", 2) == "a"
    assert answer_limit.first_bytes("aé😀", 3) == "aé"
    assert answer_limit.first_bytes("aé😀", 6) == "aé"
    assert answer_limit.first_bytes("aé😀", 7) == "aé😀"
