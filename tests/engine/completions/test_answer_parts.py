"""The parts of a completion's answer, stop sequences, and what is refused before anything is sent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from counsel import answer_parts
from counsel.engine.completions import compose, history, stop_sequences
from counsel.engine.completions.parts import Parts
from counsel.engine.consult.routes import Route
from counsel.errors import ContextLengthExceeded, InvalidArgument
from counsel.requests import CompletionRequest
from counsel.types import (
    Call,
    Event,
    Exact,
    Finished,
    Image,
    Model,
    Native,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolResult,
    ToolSpec,
    Turn,
    VendorBlock,
)

# ── parts ────────────────────────────────────────────────────────────────────────────────────────────


def test_pieces_of_one_kind_are_one_part() -> None:
    parts = Parts()
    assert parts.all() == ()
    for delta in ("h", "m"):
        parts.thinking(delta)
    parts.text("so ")
    parts.text("far")
    assert parts.all() == ({"type": "thinking", "text": "hm"}, {"type": "text", "text": "so far"})
    parts.text(", and on")
    assert parts.all()[1] == {"type": "text", "text": "so far, and on"}
    assert not parts.has_calls


def test_a_vendors_block_belongs_to_the_thinking_before_it() -> None:
    parts = Parts()
    parts.thinking("hm")
    parts.text("so")
    part = parts.thought(Thought("anthropic", {"signature": "s"}))
    assert part == {"type": "thinking", "wire": "anthropic", "item": {"signature": "s"}}
    parts.thought(Thought("anthropic", {"signature": "t"}))
    parts.thinking("again")
    assert parts.all() == (
        {"type": "thinking", "text": "hm", "wire": "anthropic", "item": {"signature": "s"}},
        {"type": "text", "text": "so"},
        {"type": "thinking", "text": "", "wire": "anthropic", "item": {"signature": "t"}},
        {"type": "thinking", "text": "again"},
    )


def test_geminis_signature_stands_alone_and_names_its_call() -> None:
    parts = Parts()
    parts.thinking("hm")
    call = parts.call(ToolCall("gemini_call_0", "look", {"a": 1}))
    parts.thought(Thought("gemini", {"call": "gemini_call_0", "signature": "s"}))
    parts.thought(Thought("gemini", {"call": None}))
    thinking, call_part, signature, nameless = parts.all()
    assert thinking == {"type": "thinking", "text": "hm"}
    assert call_part == call
    about = {"type": "thinking", "text": "", "wire": "gemini"}
    assert signature == {**about, "item": {"call": call["id"], "signature": "s"}}
    assert nameless == {**about, "item": {"call": None}}


def test_ids_that_a_wire_counts_differ_between_answers() -> None:
    first, second = Parts(), Parts()
    ids = [parts.call(ToolCall(f"call_{n}", "look", {}))["id"] for parts in (first, second) for n in (0, 1)]
    assert len(set(ids)) == 4
    assert ids[0].rpartition("_")[2] == ids[1].rpartition("_")[2], "one suffix for one answer"
    assert first.call(ToolCall("toolu_1", "look", {}))["id"] == "toolu_1"
    assert first.call(ToolCall("call_1x", "look", {}))["id"] == "call_1x"
    assert first.has_calls is True


def test_a_namespace_is_reported_if_there_is_one() -> None:
    parts = Parts()
    assert "namespace" not in parts.call(ToolCall("a", "look", {"x": 1}))
    assert parts.call(ToolCall("b", "look", {}, "files"))["namespace"] == "files"
    assert parts.all()[0] == {"type": "tool_call", "id": "a", "name": "look", "arguments": {"x": 1}}


def test_citations_belong_to_the_text_before_them() -> None:
    parts = Parts()
    note = VendorBlock("openai_chat", {"type": "citations", "citations": [{"url": "u"}], "length": 2})
    assert parts.vendor(note) == {"type": "vendor", "wire": "openai_chat", "item": note.item}
    assert parts.all() == (), "there is no text yet"
    parts.text("so")
    parts.vendor(note)
    parts.text("more")
    assert parts.all() == (
        {"type": "text", "text": "so", "wire": "openai_chat", "citations": [{"url": "u"}], "length": 2},
        {"type": "text", "text": "more"},
    )
    assert not parts.has_calls
    search = VendorBlock("openai_responses", {"type": "web_search_call"})
    parts.vendor(search)
    assert parts.all()[-1] == {"type": "vendor", "wire": "openai_responses", "item": search.item}
    assert parts.has_calls is True


def test_an_answer_as_the_turn_that_is_sent_back() -> None:
    parts = Parts()
    parts.thinking("hm")
    parts.thought(Thought("anthropic", {"signature": "s"}))
    parts.thinking("unsigned")
    parts.text("so")
    parts.call(ToolCall("a", "look", {"x": 1}))
    turn = history.turn("so", parts.all())
    assert (turn.role, turn.text) == ("assistant", "so")
    assert turn.tool_calls == (ToolCall("a", "look", {"x": 1}),)
    assert turn.thoughts == (Thought("anthropic", {"signature": "s"}),)


# ── stop sequences ───────────────────────────────────────────────────────────────────────────────────


async def cut(pieces: list[str], *sequences: str) -> tuple[str, Finished, bool]:
    """The text, the end, and whether all of the answer was read."""
    is_read = False

    async def answer() -> AsyncGenerator[Event]:
        nonlocal is_read
        for piece in pieces:
            yield Text(piece)
        is_read = True
        yield Finished("length")

    events = [event async for event in stop_sequences.cut(answer(), sequences)]
    assert isinstance(events[-1], Finished)
    texts = [event.delta for event in events[:-1] if isinstance(event, Text)]
    assert all(texts), "no empty piece"
    return "".join(texts), events[-1], is_read


@pytest.mark.parametrize(
    ("pieces", "sequences", "text", "match"),
    [
        (["one ENDtwo"], ("END",), "one ", "END"),
        (["one E", "N", "D two"], ("END",), "one ", "END"),
        (["one E", "N"], ("END",), "one EN", ""),
        (["one E", "X END"], ("END",), "one EX ", "END"),
        (["END"], ("END",), "", "END"),
        (["a", "b"], ("c",), "ab", ""),
        (["xab"], ("b", "ab"), "x", "ab"),
        (["a##b##"], ("##", "b"), "a", "##"),
        (["aab"], ("ab",), "a", "ab"),
        (["a", "a", "b"], ("aab", "q"), "", "aab"),
    ],
)
async def test_an_answer_is_cut_where_a_sequence_begins(
    pieces: list[str], sequences: tuple[str, ...], text: str, match: str
) -> None:
    answer, end, is_read = await cut([*pieces, "." if match else ""], *sequences)
    assert answer == text
    assert end.reason == ("stop" if match else "length")
    assert end.vendor.get("stop_sequence", "") == match
    assert is_read is not bool(match), "the rest is neither read nor paid for"


async def test_text_is_passed_on_as_soon_as_it_cannot_begin_a_sequence() -> None:
    async def answer() -> AsyncGenerator[Event]:
        for piece in ("abc", "xE", "q"):
            yield Text(piece)
        yield Thinking("hm")
        yield Finished()

    events = [event async for event in stop_sequences.cut(answer(), ("END",))]
    assert events == [Text("abc"), Text("x"), Text("Eq"), Thinking("hm"), Finished()]


# ── what a model cannot take ─────────────────────────────────────────────────────────────────────────

PLAIN = Model("m", "p", "m", tools=False)
CAPABLE_MODEL = Model("m", "p", "m", tools=True, vision=True, web_search=True)
LOOK_TOOL = ToolSpec("look", "", {"type": "object"})
IMAGE = Image("image/png", b"x")
FETCHED = Image("image/png", b"", url="https://a/b.png")
ASKED = CompletionRequest(model="m", turns=(Turn("user", "hi"),))


def route(model: Model | None = CAPABLE_MODEL, wire: str = "openai_chat") -> Route:
    def answer(_: Call) -> Any:
        raise AssertionError

    return Route("m", "p", answer, lambda _: None, model, wire)


def completion_request(**fields: Any) -> CompletionRequest:
    return replace(ASKED, **fields)


def pictures(*images: Image) -> CompletionRequest:
    return completion_request(turns=(Turn("user", "hi", images=images),))


RETURNED = completion_request(
    turns=(Turn("tool", tool_results=(ToolResult("1", "look", "ok", images=(IMAGE,)),)),)
)


@pytest.mark.parametrize(
    ("request_", "route_", "problem"),
    [
        (ASKED, route(PLAIN), ""),
        (completion_request(tools=(LOOK_TOOL,)), route(), ""),
        (completion_request(tools=(LOOK_TOOL,)), route(PLAIN), "it cannot use tools"),
        (completion_request(tools=(LOOK_TOOL,)), route(None), "does not call a client's tools"),
        (completion_request(web_search=True), route(None), "does not call a client's tools"),
        (completion_request(web_search=True), route(), ""),
        (completion_request(web_search=True), route(PLAIN), "it cannot search the web"),
        (completion_request(web_search=True, as_counsel=True), route(PLAIN), ""),
        (completion_request(web_search=True, tools=(LOOK_TOOL,)), route(replace(PLAIN, tools=True)), ""),
        (
            completion_request(web_search=True, exact=Exact(native=Native("anthropic", {}))),
            route(PLAIN, "anthropic"),
            "",
        ),
        (pictures(IMAGE), route(), ""),
        (pictures(IMAGE), route(PLAIN), "it cannot see images"),
        (pictures(IMAGE), route(None), "an agent does not take images"),
        (RETURNED, route(PLAIN), "it cannot see images"),
        (pictures(FETCHED), route(), ""),
        (pictures(FETCHED), route(wire="gemini"), "it does not fetch images from URLs"),
        (pictures(IMAGE), route(wire="gemini"), ""),
        (completion_request(untranslated=("document",)), route(), "it does not take document"),
        (
            completion_request(untranslated=("document",), exact=Exact(native=Native("anthropic", {}))),
            route(wire="anthropic"),
            "",
        ),
        (
            completion_request(untranslated=("document",), exact=Exact(native=Native("anthropic", {}))),
            route(wire="gemini"),
            "it does not take document",
        ),
    ],
)
def test_a_request_that_the_model_cannot_take_is_refused(
    request_: CompletionRequest, route_: Route, problem: str
) -> None:
    if not problem:
        compose.check(request_, route_)
        return
    with pytest.raises(InvalidArgument, match=problem) as excinfo:
        compose.check(request_, route_)
    assert excinfo.value.fields["model"] == "m"


def test_all_problems_are_reported_at_once() -> None:
    request = replace(pictures(IMAGE), tools=(LOOK_TOOL,), untranslated=("document", "audio"))
    with pytest.raises(InvalidArgument, match="document, audio; it cannot use tools; it cannot see images"):
        compose.check(request, route(PLAIN))


def test_what_auto_looks_for() -> None:
    assert compose.needs(ASKED).tokens > 0
    assert not compose.needs(ASKED).vision
    assert not compose.needs(ASKED).tools
    assert compose.needs(RETURNED).vision
    assert compose.needs(completion_request(tools=(LOOK_TOOL,))).tools
    long = "word " * 1000
    alone = compose.needs(completion_request(turns=(Turn("user", long),))).tokens
    result = Turn("tool", tool_results=(ToolResult("1", "look", long),))
    assert (
        compose.needs(completion_request(turns=(Turn("user", long), result), system=long)).tokens == 3 * alone
    )


def test_the_call_for_a_model() -> None:
    request = completion_request(
        system="s", temperature=0.5, reasoning_effort="high", verbosity="low", web_search=True, max_output=9,
        tools=(LOOK_TOOL,), schema={"type": "object"}, output_limit=8, offered=("the tool x",), exact=Exact(top_p=0.5),
    )  # fmt: skip
    call = compose.compose(request, route())
    assert (call.system, call.max_output, call.output_limit) == ("s", 9, 8)
    assert (call.tools, call.schema) == ((LOOK_TOOL,), {"type": "object"})
    model_settings = call.model_settings
    assert (
        model_settings.temperature,
        model_settings.effort,
        model_settings.verbosity,
        model_settings.web_search,
    ) == (0.5, "high", "low", True)
    assert call.tokens > 0
    assert call.exact == Exact(top_p=0.5, left_out=("the tool x",)), "the vendor does not have that tool"
    assert compose.compose(replace(request, as_counsel=True), route()).exact is None
    own = replace(request, exact=Exact(native=Native("openai_chat", {"a": 1})))
    assert compose.compose(own, route()).exact == own.exact, "it is in the client's own body"


def test_no_call_is_made_of_what_the_model_cannot_take() -> None:
    with pytest.raises(InvalidArgument, match="it cannot see images") as refusal:
        compose.compose(pictures(IMAGE), route(PLAIN))
    assert refusal.value.fields["model"] == "m"


def test_what_certainly_does_not_fit_is_refused_and_near_the_limit_the_vendor_decides() -> None:
    small = replace(CAPABLE_MODEL, context=1_000)
    words = "word " * 1_000_000  # 1.25 million tokens
    fits = completion_request(turns=(Turn("user", words),))
    assert compose.compose(fits, route(small)).tokens > 1_000_000, "a client's header may allow a million"
    with pytest.raises(ContextLengthExceeded):
        compose.compose(completion_request(turns=(Turn("user", words + words),)), route(small))
    large = replace(CAPABLE_MODEL, context=2_000_000)
    assert compose.compose(completion_request(turns=(Turn("user", words + words),)), route(large)).tokens


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ((Turn("assistant", "a"), Turn("user", "b")), ""),
        ((Turn("user", "a"), Turn("assistant", "b")), "its last message must be the user's"),
        ((Turn("user", "a"), Turn("user", " ")), "its last message is empty"),
        ((Turn("user", " "), Turn("user", "b")), ""),
        ((), ""),
    ],
)
def test_an_agent_answers_the_last_message_which_must_be_a_question(
    turns: tuple[Turn, ...], problem: str
) -> None:
    assert "; ".join(compose._problems_of_agent(completion_request(turns=turns))) == problem


@pytest.mark.parametrize(
    ("text", "is_error", "expected"),
    [
        ("no such file", True, "Error: no such file"),
        ("ERROR: no such file", True, "ERROR: no such file"),
        ("Errors were found", True, "Errors were found"),
        ("no such file", False, "no such file"),
    ],
)
def test_where_an_api_has_no_field_for_it_a_tools_failure_is_in_its_text(
    text: str, is_error: bool, expected: str
) -> None:
    results = (ToolResult("1", "look", text, is_error=is_error), ToolResult("2", "look", "fine"))
    request = completion_request(turns=(Turn("user", "hi"), Turn("tool", tool_results=results)))
    for wire, shown in (("openai_chat", expected), ("openai_responses", expected), ("anthropic", text)):
        sent = compose.compose(request, route(wire=wire)).turns[1].tool_results
        assert [result.text for result in sent] == [shown, "fine"]
        assert sent[0].is_error is is_error


@pytest.mark.parametrize("turn", [Turn("user", ""), Turn("user", " \n"), Turn("assistant")])
def test_messages_without_anything_in_them_are_refused(turn: Turn) -> None:
    with pytest.raises(InvalidArgument, match="its messages are empty"):
        compose.check(completion_request(turns=(turn,)), route())
    compose.check(completion_request(turns=(turn, Turn("user", "hi"))), route())
    native = Exact(native=Native("openai_chat", {}))
    compose.check(completion_request(turns=(turn,), exact=native), route())


def test_an_agent_gets_earlier_turns_before_the_question() -> None:
    turns = (Turn("user", "one"), Turn("assistant", "two"), Turn("tool", "three"), Turn("user", "four"))
    call = compose.compose(completion_request(turns=turns), route(None))
    (turn,) = call.turns
    assert turn.role == "user"
    assert turn.text.endswith("four")
    assert turn.text.index("one") < turn.text.index("two")
    assert "three" not in turn.text
    loop = (*turns[:2], Turn("tool", tool_results=(ToolResult("1", "look", "three"),)), turns[-1])
    exact = compose.compose(completion_request(turns=loop), route(None)).exact
    assert exact is not None
    assert exact.left_out == ("messages.tool_calls",), "it is reported"
    exact = compose.compose(completion_request(turns=loop), route()).exact
    assert exact is not None
    assert exact.left_out == (), "a model's API takes them"
    assert compose.compose(ASKED, route(None)).turns == (Turn("user", "hi"),)


def test_stored_parts_are_read_as_they_were_written() -> None:
    parts = Parts()
    parts.thinking("hm")
    parts.thought(Thought("anthropic", {"signature": "s"}))
    parts.text("so")
    parts.vendor(VendorBlock("anthropic", {"type": "citations", "citations": [{"url": "u"}], "length": 2}))
    parts.call(ToolCall("call_9", "look", {"a": 1}, namespace="n"))
    original = parts.all()
    assert tuple(answer_parts.from_json(json.loads(json.dumps(part))) for part in original) == original


def test_a_part_of_a_newer_release_becomes_an_empty_vendor_part() -> None:
    assert answer_parts.from_json({"type": "video", "frames": 3}) == {
        "type": "vendor",
        "wire": "",
        "item": {},
    }
