"""Tool calls while they arrive, for clients that speak OpenAI's or Anthropic's API, and pieces of reasoning."""

from __future__ import annotations

import json

import pytest

from counsel.models.wires import ALL_WIRES, WIRES
from counsel.models.wires.openai_shared import flat_name
from counsel.types import Event, Finished, Json, Notice, Thinking, Thought, ToolCall, ToolInput, ToolUse


def chat_pieces(*deltas: Json, streams_tools: bool = True) -> list[Event]:
    reader = WIRES["openai_chat"].reader(streams_tools=streams_tools)
    events: list[Event] = []
    for delta in deltas:
        events += reader.feed("", json.dumps({"choices": [{"delta": delta}]}))
    events += reader.feed("", '{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}')
    return [event for event in events + reader.finish() if not isinstance(event, Finished | Thought)]


def call_piece(index: int, arguments: str, **more: str) -> Json:
    function = {"arguments": arguments, **({"name": more["name"]} if "name" in more else {})}
    return {
        "tool_calls": [{"index": index, "function": function, **({"id": more["id"]} if "id" in more else {})}]
    }


def test_chat_passes_arguments_on_while_they_arrive_and_a_whole_call_when_the_next_begins() -> None:
    events = chat_pieces(
        call_piece(0, "", id="c1", name="look"),
        call_piece(0, '{"a":'),
        call_piece(0, "1}"),
        call_piece(0, ""),
        call_piece(1, '{"b"', id="c2", name="find"),
        call_piece(1, ":2}"),
    )
    assert events == [
        ToolInput("c1", "look", ""),
        ToolInput("c1", "look", '{"a":'),
        ToolInput("c1", "look", "1}"),
        ToolUse(ToolCall("c1", "look", {"a": 1})),
        ToolInput("c2", "find", '{"b"'),
        ToolInput("c2", "find", ":2}"),
        ToolUse(ToolCall("c2", "find", {"b": 2})),
    ]


def test_chat_arguments_are_kept_back_when_calls_need_not_arrive_in_pieces() -> None:
    events = chat_pieces(
        call_piece(0, '{"a":', id="c1", name="look"), call_piece(0, "1}"), streams_tools=False
    )
    assert events == [ToolUse(ToolCall("c1", "look", {"a": 1}))]


def test_interleaved_chat_calls_end_once_and_an_incomplete_one_is_not_ended_early() -> None:
    events = chat_pieces(
        call_piece(0, "[1", id="c1", name="look"),
        call_piece(1, "{}", id="c2", name="find"),
        call_piece(0, "]"),
        call_piece(2, "{}", id="c3", name="end"),
        call_piece(1, " "),
    )
    ends = [event.call.id for event in events if isinstance(event, ToolUse)]
    assert sorted(ends) == ["c1", "c2", "c3"]
    assert ends[0] == "c2"
    assert ToolInput("c1", "look", "]") in events
    assert ToolInput("c2", "find", " ") not in events  # it was passed on as whole


def test_a_chat_call_whose_name_comes_late_is_not_passed_on_in_pieces() -> None:
    events = chat_pieces(call_piece(0, '{"a"', id="c1"), call_piece(0, ":1}", name="look"))
    assert events == [ToolUse(ToolCall("c1", "look", {"a": 1}))]


def test_a_chat_answers_sources_are_named_once() -> None:
    note = {"url_citation": {"url": "https://x", "title": "X"}}
    events = chat_pieces({"annotations": [note, note, {"url_citation": {}}, {}]})
    assert events == [Notice("source", "X", {"url": "https://x"})]


def test_chat_passes_on_thoughts_under_either_name_and_not_twice() -> None:
    assert chat_pieces({"reasoning_content": "", "reasoning": "hm"}) == [Thinking("hm")]
    assert chat_pieces({"reasoning_content": "hm", "reasoning": "hm"}) == [Thinking("hm")]
    assert chat_pieces({"reasoning": [{"text": "hm"}]}) == []


def responses_events(*payloads: Json, streams_tools: bool = True) -> list[Event]:
    reader = WIRES["openai_responses"].reader(streams_tools=streams_tools)
    return [event for payload in payloads for event in reader.feed("", json.dumps(payload))]


@pytest.mark.parametrize(
    ("item", "name", "delta"),
    [
        ({"type": "function_call", "name": "look"}, "look", "response.function_call_arguments.delta"),
        ({"type": "function_call", "name": "look", "namespace": "files"}, flat_name("files", "look"),
         "response.function_call_arguments.delta"),
        ({"type": "custom_tool_call", "name": "patch"}, "patch", "response.custom_tool_call_input.delta"),
    ],
)  # fmt: skip
def test_responses_pass_arguments_on_while_they_arrive(item: Json, name: str, delta: str) -> None:
    item = {**item, "call_id": "c"}
    payloads: list[Json] = [
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        {"type": delta, "output_index": 1, "delta": "{"},
        {"type": delta, "output_index": 1, "delta": ""},
        {"type": delta, "output_index": 2, "delta": "of another"},
        {"type": delta, "output_index": 1, "delta": "}"},
    ]
    own = item if item["type"] == "custom_tool_call" else None
    namespace = item.get("namespace", "")
    assert responses_events(*payloads) == [
        ToolInput("c", name, piece, namespace, own) for piece in ("", "{", "}")
    ]
    assert responses_events(*payloads, streams_tools=False) == []


def test_responses_items_that_are_not_calls_open_none() -> None:
    for item in ({"type": "message", "call_id": "c", "name": "x"}, {"type": "function_call", "name": "x"}):
        assert responses_events({"type": "response.output_item.added", "item": item}) == []


def test_a_summary_of_several_parts_is_several_paragraphs() -> None:
    def delta(part: int, text: str) -> Json:
        return {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": part,
            "delta": text,
        }

    events = responses_events(delta(0, "a"), delta(0, "b"), delta(1, "c"), delta(1, "d"))
    assert "".join(event.delta for event in events if isinstance(event, Thinking)) == "ab\n\ncd"


@pytest.mark.parametrize("streams_tools", [True, False])
def test_anthropic_passes_arguments_on_while_they_arrive_if_somebody_reads_them(streams_tools: bool) -> None:
    reader = WIRES["anthropic"].reader(streams_tools=streams_tools)
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    payloads: list[Json] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
          for piece in ("", '{"a":', "1}")),
        {"type": "content_block_stop", "index": 0},
    ]  # fmt: skip
    events = [event for payload in payloads for event in reader.feed(payload["type"], json.dumps(payload))]
    pieces = [ToolInput("c", "look", piece) for piece in ("", '{"a":', "1}")] if streams_tools else []
    assert events == [*pieces, ToolUse(ToolCall("c", "look", {"a": 1}))]


def test_a_signature_in_several_pieces_is_one() -> None:
    reader = WIRES["anthropic"].reader()
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    deltas = ({"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "ab"},
              {"type": "signature_delta", "signature": "cd"})  # fmt: skip
    payloads: list[Json] = [
        start,
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]
    events = [event for payload in payloads for event in reader.feed(payload["type"], json.dumps(payload))]
    assert events == [
        Thinking("hm"), Thought("anthropic", {"type": "thinking", "thinking": "hm", "signature": "abcd"})
    ]  # fmt: skip


@pytest.mark.parametrize("streams_tools", [True, False])
def test_a_teams_server_passes_calls_on_in_the_pieces_that_it_received(streams_tools: bool) -> None:
    reader = ALL_WIRES["counsel"].reader(streams_tools=streams_tools)
    pieces = [
        {"id": "c", "name": "look", "delta": "{"},
        {"id": "d", "name": "find", "delta": "", "namespace": "files"},
    ]
    events = [event for piece in pieces for event in reader.feed("tool_input", json.dumps(piece))]
    inputs = [ToolInput("c", "look", "{"), ToolInput("d", "find", "", "files")]
    assert events == (inputs if streams_tools else [])


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([{"finish_reason": "stop", "native_finish_reason": "SAFETY"}, {}], "SAFETY"),
        (
            [{"native_finish_reason": "SAFETY"}, {"finish_reason": "stop", "native_finish_reason": None}],
            "SAFETY",
        ),
        ([{"finish_reason": "stop"}], "stop"),
    ],
)
def test_the_vendors_own_reason_behind_a_gateway_is_kept(chunks: list[Json], reason: str) -> None:
    reader = WIRES["openai_chat"].reader()
    for chunk in ({"delta": {"content": "so"}}, *chunks):
        reader.feed("", json.dumps({"choices": [chunk]}))
    finished = reader.finish()[-1]
    assert isinstance(finished, Finished)
    assert finished.vendor == {"reason": reason}
