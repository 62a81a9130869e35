"""The turns before a completion's own: chains of responses, and tool results that belong to their calls."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.answer_parts import AnswerPart
from counsel.engine.completions import history
from counsel.errors import Conflict, InvalidArgument
from counsel.requests import CompletionRequest
from counsel.types import ToolCall, ToolResult, Turn


def called(*ids: str) -> Turn:
    return Turn("assistant", tool_calls=tuple(ToolCall(name, f"tool of {name}", {}) for name in ids))


def returned(*ids: str) -> Turn:
    return Turn("tool", tool_results=tuple(ToolResult(name, "", "output") for name in ids))


def test_a_tools_result_gets_the_name_of_its_call() -> None:
    turns = (Turn("user", "hi"), called("a", "b"), returned("b", "a"))
    first, second, third = history.with_tool_names(turns)
    assert (first, second) == turns[:2]
    assert [(result.call_id, result.name, result.text) for result in third.tool_results] == [
        ("b", "tool of b", "output"), ("a", "tool of a", "output")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ((called("a"), returned("a", "b")), r"No tool call found for function call output with call_id b\."),
        ((called("a"), returned("a"), returned("a")), r"Two outputs have the call_id a\."),
        ((called("a", "c", "b"), returned("a")), r"No tool output found for function call b\."),
        ((returned("x" * 300),), r"call_id x{100}\."),
        ((called("y" * 300), returned("y" * 300, "y" * 300)), r"call_id y{100}\."),
        ((called("z" * 300),), r"function call z{100}\."),
    ],
)
def test_calls_and_results_that_do_not_match_are_refused(turns: tuple[Turn, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as excinfo:
        history.with_tool_names(turns)
    assert excinfo.value.fields["param"] == "input"
    assert "one output for each call" in (excinfo.value.hint or "")


@pytest.mark.parametrize(("namespace", "name"), [("", "draw"), ("art", "art__draw")])
def test_a_call_of_a_free_text_tool_is_sent_back_as_a_call(namespace: str, name: str) -> None:
    item: dict[str, object] = {"type": "custom_tool_call", "call_id": "c1", "name": "draw", "input": "a cat"}
    part: AnswerPart = {
        "type": "vendor",
        "wire": "openai_responses",
        "item": {**item, "namespace": namespace},
    }
    assert history.turn("so", (part,)).tool_calls == (ToolCall("c1", name, {"input": "a cat"}),)


def test_what_a_vendors_own_tool_did_is_no_call_of_the_client() -> None:
    item: dict[str, object] = {"type": "web_search_call", "call_id": "c1", "name": "search"}
    turn = history.turn("so", ({"type": "vendor", "wire": "openai_responses", "item": item},))
    assert (turn.text, turn.tool_calls, turn.thoughts) == ("so", (), ())


@pytest.mark.parametrize("length", [1, 2, 3])
async def test_a_chain_of_responses_has_a_longest_length(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Response 3 continues 2, which continues 1."""
    monkeypatch.setattr(history, "MOST_STEPS", 2)

    async def stored(name: str, _: object) -> tuple[CompletionRequest, Turn]:
        number = int(name)
        request = CompletionRequest(
            model="m",
            turns=(Turn("user", f"question {name}"),),
            previous=str(number - 1) if number > 1 else None,
        )
        return request, Turn("assistant", f"answer {name}")

    monkeypatch.setattr(history, "_request_and_answer", stored)
    store: Any = None
    if length > 2:
        with pytest.raises(Conflict, match="This chain has more than 2 responses"):
            await history.earlier(str(length), store)
        return
    turns = await history.earlier(str(length), store)
    assert [turn.text for turn in turns] == [
        f"{kind} {number}" for number in range(1, length + 1) for kind in ("question", "answer")
    ]
