"""Behaviour that only one wire has. oracles/ compares the bodies of requests, conformance/ tests what all share."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from counsel.models.wires import WIRES
from counsel.types import (
    Call,
    Endpoint,
    Finished,
    Json,
    Model,
    ModelSettings,
    Notice,
    Prepared,
    Provider,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
)

CLAUDE = Model(
    "claude",
    "anthropic",
    "claude",
    output=32_000,
    effort_style="budget",
    efforts={"minimal": 0, "low": 1024, "medium": 10_000, "high": 16_000, "max": 40_000},
)
HELLO = Call((Turn("user", "hello"),))


def prepare(
    wire: str, call: Call = HELLO, model: Model | None = None, base: str = "https://x", **options: Any
) -> Prepared:
    provider = Provider(wire, wire, wire, base, options=options)
    return WIRES[wire].prepare(call, model or Model("m", wire, "m"), Endpoint(provider, base, "k"))


def asking(**model_settings: Any) -> Call:
    return replace(HELLO, model_settings=ModelSettings(**model_settings))


def test_the_wires_that_a_providers_row_may_name() -> None:
    assert list(WIRES) == ["openai_responses", "openai_chat", "anthropic", "gemini"]


@pytest.mark.parametrize("wire", WIRES)
def test_the_key_and_the_prompt_are_in_no_repr(wire: str) -> None:
    text = repr(prepare(wire, Call((Turn("user", "secret words"),))))
    assert "secret words" not in text
    assert "'k'" not in text


@pytest.mark.parametrize(
    ("wire", "base", "url"),
    [
        ("openai_chat", "https://a/v1/", "https://a/v1/chat/completions"),
        ("openai_responses", "https://a/v1", "https://a/v1/responses"),
        ("anthropic", "https://a", "https://a/v1/messages"),
        ("anthropic", "https://a/v1/", "https://a/v1/messages"),
        ("gemini", "https://a", "https://a/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "https://a/v1beta", "https://a/v1beta/models/m:streamGenerateContent?alt=sse"),
    ],
)
def test_where_each_wire_sends_its_request(wire: str, base: str, url: str) -> None:
    assert prepare(wire, base=base).url == url


@pytest.mark.parametrize("wire", WIRES)
def test_rows_may_add_fields_and_headers(wire: str) -> None:
    request = prepare(wire, headers={"x-team": "blue"}, body={"extra": 1})
    assert request.headers["x-team"] == "blue"
    assert request.body["extra"] == 1


@pytest.mark.parametrize(("wish", "expected"), [(None, 0.5), (0.0, 0.0), (1.9, 1.0)])
def test_temperature_is_clamped(wish: float | None, expected: float) -> None:
    assert prepare("openai_chat", asking(temperature=wish)).body["temperature"] == expected


# ── Anthropic ──


@pytest.mark.parametrize(
    ("effort", "max_output", "budget", "limit"),
    [
        ("medium", None, 10_000, 32_000),
        ("medium", 5_000, 10_000, 15_000),  # the limit is the answer's, thinking comes on top
        ("high", 30_000, 16_000, 32_000),  # never more than the model's own limit
        ("max", None, 16_000, 32_000),  # a budget that leaves no room is halved
        ("minimal", 5_000, None, 5_000),
    ],
)
def test_a_thinking_budget_leaves_room(
    effort: Any, max_output: int | None, budget: int | None, limit: int
) -> None:
    body = prepare("anthropic", replace(asking(effort=effort), max_output=max_output), CLAUDE).body
    assert body["max_tokens"] == limit
    assert body.get("thinking", {}).get("budget_tokens") == budget


def test_a_budget_as_large_as_the_output_is_halved() -> None:
    body = prepare("anthropic", asking(effort="medium"), replace(CLAUDE, output=10_000)).body
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (10_000, 5_000)


def test_no_temperature_while_thinking() -> None:
    thinking = prepare("anthropic", asking(temperature=0.2), CLAUDE)
    assert "temperature" not in thinking.body
    assert thinking.left_out == ("temperature",)
    assert thinking.headers["anthropic-version"] == "2026-10-21"
    plain = prepare("anthropic", asking(temperature=0.2, effort="minimal"), CLAUDE)
    assert plain.body["temperature"] == 0.2
    assert plain.left_out == ()
    assert plain.headers["anthropic-version"] == "2023-06-01"


def marks(body: Json) -> list[str]:
    blocks = [
        *body.get("system", []),
        *(block for message in body["messages"] for block in message["content"]),
    ]
    return [block.get("text", block["type"]) for block in blocks if "cache_control" in block]


def test_caching() -> None:
    """The system prompt and a conversation's earlier part are cached, never the newest question or a verbatim turn."""
    turns = (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three"))
    assert marks(prepare("anthropic", Call(turns, system="be brief")).body) == ["be brief", "one"]
    assert marks(prepare("anthropic", Call(turns[:1], system="be brief")).body) == ["be brief"]
    native = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    tool_loop = (
        turns[0],
        Turn("assistant", native=native),
        Turn("tool", tool_results=(ToolResult("1", "t", "r"),)),
    )
    body = prepare("anthropic", Call(tool_loop)).body
    assert marks(body) == ["one"]
    assert body["messages"][1]["content"] == native
    assert native == [{"type": "thinking", "thinking": "hm", "signature": "s"}]


# ── Gemini ──


def test_search_and_tools_exclude_each_other_until_a_row_says_otherwise() -> None:
    model = Model("m", "gemini", "m", web_search=True)
    call = replace(asking(web_search=True), tools=(ToolSpec("t", "d", {"type": "object"}),))
    alone = prepare("gemini", call, model)
    assert [list(tool) for tool in alone.body["tools"]] == [["functionDeclarations"]]
    assert alone.left_out == ("use_websearch",)
    both = prepare("gemini", call, model, search_with_tools=True)
    assert [list(tool) for tool in both.body["tools"]] == [["googleSearch"], ["functionDeclarations"]]


def test_our_own_ids_of_calls_are_not_sent_to_google() -> None:
    reader = WIRES["gemini"].reader()
    chunk = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"t"}}]},"finishReason":"STOP"}]}'
    (tool_use,) = reader.feed("", chunk)
    assert isinstance(tool_use, ToolUse)
    result = ToolResult(tool_use.call.id, "t", "no", is_error=True)
    turn = Turn("tool", tool_calls=(ToolCall(tool_use.call.id, "t", {}),), tool_results=(result,))
    parts = prepare("gemini", Call((turn,))).body["contents"][0]["parts"]
    assert parts[0] == {"functionResponse": {"name": "t", "response": {"error": "no"}}}
    assert "id" not in parts[1]["functionCall"]


def test_a_blocked_prompt_is_filtered_and_says_why() -> None:
    reader = WIRES["gemini"].reader()
    assert not reader.feed("", '{"promptFeedback":{"blockReason":"SAFETY"}}')
    (finished,) = reader.finish()
    assert isinstance(finished, Finished)
    assert finished.reason == "filtered"
    assert finished.vendor == {"reason": "SAFETY"}


# ── OpenAI Chat dialects ──


def test_mistrals_parts_are_thinking_and_text() -> None:
    reader = WIRES["openai_chat"].reader()
    part = '{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}'
    events = reader.feed(
        "", f'{{"choices":[{{"delta":{{"content":[{part},{{"type":"text","text":"so"}}]}}}}]}}'
    )
    assert [type(event).__name__ for event in events] == ["Thinking", "Text"]


def test_reasoning_goes_back_under_its_own_name() -> None:
    for field in ("reasoning_content", "reasoning"):
        reader = WIRES["openai_chat"].reader()
        assert reader.feed("", f'{{"choices":[{{"delta":{{"{field}":"hm"}}}}]}}') == [Thinking("hm")]
        reader.feed("", '{"choices":[{"delta":{"content":"so"},"finish_reason":"stop"}]}')
        finished = reader.finish()[-1]
        assert isinstance(finished, Finished)
        assert finished.native == {"role": "assistant", "content": "so", field: "hm"}


def test_stop_with_calls_means_calls() -> None:
    reader = WIRES["openai_chat"].reader()
    call = '{"function":{"name":"t","arguments":"{broken"}}'
    reader.feed("", f'{{"choices":[{{"delta":{{"tool_calls":[{call}]}},"finish_reason":"stop"}}]}}')
    tool_use, finished = reader.finish()
    assert isinstance(tool_use, ToolUse)
    assert (tool_use.call.id, tool_use.call.arguments) == ("call_0", {})
    assert isinstance(finished, Finished)
    assert finished.reason == "tool_calls"


def test_text_before_and_after_a_search_is_two_paragraphs() -> None:
    reader = WIRES["openai_responses"].reader()
    reply = [(0, "I "), (0, "search."), (2, "It is "), (2, "sunny.")]
    events = [
        event
        for index, words in reply
        for event in reader.feed(
            "", json.dumps({"type": "response.output_text.delta", "output_index": index, "delta": words})
        )
    ]
    assert "".join(event.delta for event in events if isinstance(event, Text)) == "I search.\n\nIt is sunny."


def pieces_of(wire: str, *chunks: Any) -> tuple[str, str, Finished]:
    """Text, thinking and end of a stream of these documents."""
    reader = WIRES[wire].reader()
    events = [event for chunk in chunks for event in reader.feed("", json.dumps(chunk))] + reader.finish()
    text = "".join(event.delta for event in events if isinstance(event, Text))
    thinking = "".join(event.delta for event in events if isinstance(event, Thinking))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return text, thinking, finished


# ── never white space alone ──

BLANKS = ("", " ", "\n\n", "\u200b\u2060")


def texts(value: Any) -> list[str]:
    """Every text anywhere in a body."""
    if isinstance(value, dict):
        result = [value[name] for name in ("text", "content") if isinstance(value.get(name), str)]
        return result + [text for inner in value.values() for text in texts(inner)]
    return [text for inner in value for text in texts(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("wire", WIRES)
def test_text_without_a_word_is_never_sent(wire: str, blank: str) -> None:
    call = ToolCall("call_1", "t", {})
    turns = (
        Turn("user", "one"),
        Turn("assistant", blank),
        Turn("user", "two"),
        Turn("assistant", blank, tool_calls=(call,)),
        Turn("tool", tool_results=(ToolResult("call_1", "t", "found"),)),
    )
    body = prepare(wire, Call(turns, system=blank)).body
    assert all(text.strip(" \n\u200b\u2060") for text in texts(body))
    assert '"one"' in json.dumps(body)
    assert '"found"' in json.dumps(body)


@pytest.mark.parametrize("wire", WIRES)
def test_blank_blocks_of_a_verbatim_turn_are_not_sent_back(wire: str) -> None:
    """Claude may open with a block of two line breaks, and refuses it when it comes back."""
    natives: dict[str, Any] = {
        "anthropic": [
            {"type": "text", "text": "\n\n"},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "1", "name": "t", "input": {}},
        ],
        "gemini": {"role": "model", "parts": [{"text": " "}, {"functionCall": {"name": "t", "args": {}}}]},
        "openai_chat": {"role": "assistant", "content": " ", "tool_calls": [{"id": "1"}]},
        "openai_responses": [
            {"type": "message", "content": [{"type": "output_text", "text": " "}]},
            {"type": "function_call", "call_id": "1", "name": "t", "arguments": "{}"},
        ],
    }
    turns = (Turn("user", "one"), Turn("assistant", native=natives[wire]), Turn("user", "two"))
    body = prepare(wire, Call(turns)).body
    assert all(text.strip() for text in texts(body))
    assert '"t"' in json.dumps(body) or '"tool_calls"' in json.dumps(body)


# ── tags ──


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize(
    ("raw", "text", "thinking"),
    [
        ("<think>hm</think>\n\nyes", "yes", "hm"),
        (" \n<think>a < b </ c</think>yes", "yes", "a < b </ c"),
        ("<think></think>yes", "yes", ""),
        ("<think>never closed", "", "never closed"),
        ("<think>cut </thin", "", "cut </thin"),
        ("<thinker> is no tag", "<thinker> is no tag", ""),
        ("<", "<", ""),
        ("  yes", "  yes", ""),
        ("a <think>b</think>", "a <think>b</think>", ""),
        ("<think>x</think>y <think>z</think>", "y <think>z</think>", "x"),
        ("\n\n", "\n\n", ""),
    ],
)
def test_thinking_tags_at_any_cut(raw: str, text: str, thinking: str, size: int) -> None:
    deltas = [raw[start : start + size] for start in range(0, len(raw), size)]
    chunks = [{"choices": [{"delta": {"content": delta}}]} for delta in deltas]
    answer = pieces_of("openai_chat", *chunks, {"choices": [{"finish_reason": "stop"}]})
    assert answer[:2] == (text, thinking)


def test_the_turn_goes_back_with_its_tags() -> None:
    chunk = {"choices": [{"delta": {"content": "<think>hm</think>yes"}, "finish_reason": "stop"}]}
    assert pieces_of("openai_chat", chunk)[2].native["content"] == "<think>hm</think>yes"


# ── settings that the vendors refuse together ──

GPT5 = Model(
    "gpt-5",
    "openai",
    "gpt-5",
    web_search=True,
    effort_style="reasoning",
    efforts={"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "max": "high"},
    options={"search_refuses": ["minimal"]},
)


def test_minimal_effort_is_raised_for_a_search_with_a_notice() -> None:
    request = prepare("openai_responses", asking(effort="minimal", web_search=True), GPT5)
    assert request.body["reasoning"]["effort"] == "low"
    (change,) = request.adapted
    assert (change.setting, change.asked, change.sent) == ("reasoning_effort", "minimal", "low")
    for model_settings in (
        {"effort": "minimal"},
        {"effort": "low", "web_search": True},
        {"web_search": True},
    ):
        assert not prepare("openai_responses", asking(**model_settings), GPT5).adapted


def test_gemini_searches_together_with_tools_as_google_demands() -> None:
    model = Model("g", "google", "g", web_search=True)
    both = replace(HELLO, tools=(ToolSpec("t", "T.", {}),), model_settings=ModelSettings(web_search=True))
    assert prepare("gemini", both, model, search_with_tools=True).body["toolConfig"] == {
        "includeServerSideToolInvocations": True
    }
    for call in (replace(both, model_settings=ModelSettings()), replace(both, tools=())):
        assert "toolConfig" not in prepare("gemini", call, model, search_with_tools=True).body


@pytest.mark.parametrize(("wish", "expected"), [(0, 0), (128, 512), (2_048, 2_048), (99_999, 24_576)])
def test_a_thinking_budget_is_one_that_the_model_takes(wish: int, expected: int) -> None:
    model = Model(
        "lite",
        "google",
        "lite",
        effort_style="thinking_budget",
        efforts={"medium": wish},
        options={"thinking_range": [512, 24_576]},
    )
    body = prepare("gemini", HELLO, model).body
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == expected


def test_an_answer_is_not_repeated_when_a_gateway_counts_otherwise() -> None:
    """The deltas' indexes count the reasoning before them, the last event's do not."""
    message = {"type": "message", "id": "x", "content": [{"type": "output_text", "text": "Berlin."}]}
    text, _, finished = pieces_of(
        "openai_responses",
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Ber"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "lin."},
        {"type": "response.completed", "response": {"output": [message]}},
    )
    assert text == "Berlin."
    assert finished.native == [message]


def test_an_item_to_which_a_gateway_gives_another_id_at_the_end_is_kept_once() -> None:
    message = {"type": "message", "id": "x", "content": [{"type": "output_text", "text": "Berlin."}]}
    search = {"type": "web_search_call", "id": "s"}
    text, _, finished = pieces_of(
        "openai_responses",
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": {"output": [{**message, "id": "y"}, search]}},
    )
    assert text == "Berlin."
    assert finished.native == [message, search]


@pytest.mark.parametrize("arrived_ids", [["first"], ["second"], ["first", "second"], []])
def test_messages_in_the_last_event_alone_are_not_mistaken_for_others(arrived_ids: list[str]) -> None:
    """A gateway leaves out the events of some items; the text of other items is not mistaken for theirs."""

    def message(name: str, text: str) -> Json:
        return {"type": "message", "id": name, "content": [{"type": "output_text", "text": text}]}

    reasoning: Json = {"type": "reasoning", "id": "rs", "summary": []}
    search: Json = {"type": "web_search_call", "id": "ws"}
    output = [reasoning, message("first", "One."), search, message("second", "Two.")]
    events: list[Json] = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(output)
        if item["id"] in {"ws", *arrived_ids}
    ]
    events.append({"type": "response.completed", "response": {"output": output}})
    text, _, finished = pieces_of("openai_responses", *events)
    assert sorted(text.split("\n\n")) == ["One.", "Two."]
    assert len(finished.native) == 4


def test_a_call_that_only_the_last_event_has_is_made_once() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": "{}"}
    second = {**call, "id": "g", "call_id": "d"}
    reader = WIRES["openai_responses"].reader()
    events = reader.feed(
        "", json.dumps({"type": "response.output_item.done", "output_index": 0, "item": call})
    )
    events += reader.feed(
        "", json.dumps({"type": "response.completed", "response": {"output": [call, second]}})
    )
    assert [event.call.id for event in events if isinstance(event, ToolUse)] == ["c", "d"]


@pytest.mark.parametrize(
    ("title", "expected"), [("1", "https://x"), (None, "https://x"), ("A page", "A page")]
)
def test_a_source_without_a_title_is_shown_by_its_address(title: str | None, expected: str) -> None:
    note = {"type": "url_citation", "url": "https://x", "title": title}
    (notice,) = (
        WIRES["openai_responses"]
        .reader()
        .feed("", json.dumps({"type": "response.output_text.annotation.added", "annotation": note}))
    )
    assert isinstance(notice, Notice)
    assert notice.text == expected


@pytest.mark.parametrize(
    ("wire", "counts", "event"),
    [
        ("openai_chat", "prompt_tokens completion_tokens total_tokens", "{'usage': COUNTS}"),
        (
            "openai_responses",
            "input_tokens output_tokens total_tokens",
            "{'type': 'response.completed', 'response': {'usage': COUNTS}}",
        ),
        (
            "anthropic",
            "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens",
            "{'type': 'message_start', 'message': {'usage': COUNTS}}",
        ),
        (
            "gemini",
            "promptTokenCount candidatesTokenCount thoughtsTokenCount cachedContentTokenCount",
            "{'usageMetadata': COUNTS}",
        ),
    ],
    ids=["openai_chat", "openai_responses", "anthropic", "gemini"],
)
@pytest.mark.parametrize("is_stated", [True, False], ids=["null", "left_out"])
def test_counts_that_a_server_does_not_state_are_zero(
    wire: str, counts: str, event: str, is_stated: bool
) -> None:
    usage = json.dumps({"other": 7, **dict.fromkeys(counts.split() if is_stated else ())})
    message = event.replace("'", '"').replace("COUNTS", usage)
    (report,) = WIRES[wire].reader().feed(json.loads(message).get("type", ""), message)
    assert report == UsageReport(Usage())


def test_the_usage_at_the_end_counts_without_a_message_start() -> None:
    """Some gateways leave the first event out."""
    last_event = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 3, "output_tokens": 2}}
    (report,) = WIRES["anthropic"].reader().feed("", json.dumps(last_event))
    assert report == UsageReport(Usage(input=3, output=2))


def test_text_that_googles_own_tools_add_to_the_prompt_is_input() -> None:
    counts = {"promptTokenCount": 10, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 2}
    (report,) = WIRES["gemini"].reader().feed("", json.dumps({"usageMetadata": counts}))
    assert report == UsageReport(Usage(input=14, output=2))
