"""Requests of clients that speak a vendor's API to counsel: sent as they are, without our defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counsel.models.wires import WIRES
from counsel.models.wires.call_settings import fits_strict_mode
from counsel.models.wires.openai_shared import flat_name
from counsel.types import (
    Call,
    Endpoint,
    Exact,
    Image,
    Json,
    Model,
    ModelSettings,
    Native,
    Prepared,
    Provider,
    Thought,
    ToolCall,
    ToolSpec,
    Turn,
)

NO_SETTINGS = ModelSettings()
HELLO = (Turn("user", "hello"),)
LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}}
STRICT = {**LOOSE, "required": ["a"], "additionalProperties": False}
# a model that takes everything, and one that takes nothing
FULL_MODEL = Model(
    "m", "p", "m-1", output=4096, effort_style="level", efforts={"high": "high"}, verbosity=True, web_search=True
)  # fmt: skip
BARE_MODEL = Model("m", "p", "m-1", temperature=None)


def prepare(wire: str, call: Call, model: Model = FULL_MODEL, **options: Any) -> Prepared:
    provider = Provider(wire, wire, wire, "https://x", options=options, headers={"x-gateway": "1"})
    return WIRES[wire].prepare(call, model, Endpoint(provider, "https://x", "k"))


def body(wire: str, call: Call, model: Model = FULL_MODEL, **options: Any) -> Json:
    return prepare(wire, call, model, **options).body


def exactly(
    model_settings: ModelSettings = NO_SETTINGS,
    max_output: int | None = None,
    schema: Json | None = None,
    **fields: Any,
) -> Call:
    return Call(
        HELLO, model_settings=model_settings, max_output=max_output, schema=schema, exact=Exact(**fields)
    )


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES)
def test_a_client_gets_no_defaults_of_ours(wire: str) -> None:
    ours, theirs = prepare(wire, Call(HELLO)), prepare(wire, exactly())
    assert ours.body != theirs.body
    assert not theirs.left_out
    assert not theirs.adapted
    if wire == "openai_responses":
        assert "temperature" not in theirs.body
        assert "text" not in theirs.body
        assert "reasoning" not in theirs.body


def test_what_a_client_asks_for_is_sent() -> None:
    model_settings = ModelSettings(temperature=0.5, effort="high", verbosity="low", web_search=True)
    request_body = body("openai_responses", exactly(model_settings, top_p=0.25, parallel_tool_calls=False))
    assert request_body["temperature"] == 0.5
    assert request_body["top_p"] == 0.25
    assert request_body["reasoning"]["effort"] == "high"
    assert request_body["text"] == {"verbosity": "low"}
    assert request_body["parallel_tool_calls"] is False
    assert [tool["type"] for tool in request_body["tools"]] == ["web_search"]


def test_settings_that_the_model_does_not_take_are_left_out_and_named() -> None:
    model_settings = ModelSettings(temperature=0.5, effort="high", verbosity="low", web_search=True)
    request = prepare("openai_responses", exactly(model_settings, top_p=0.25, top_k=3), BARE_MODEL)
    assert set(request.left_out) == {
        "temperature", "reasoning_effort", "verbosity", "tools.web_search", "top_p", "top_k"
    }  # fmt: skip
    assert {"temperature", "reasoning", "text", "tools", "top_p", "top_k"}.isdisjoint(request.body)


def test_a_temperature_above_the_models_limit_is_lowered_with_a_notice() -> None:
    request = prepare("openai_responses", exactly(ModelSettings(temperature=1.8)))
    assert request.body["temperature"] == 1.0
    (change,) = request.adapted
    assert change.setting == "temperature"
    assert (change.asked, change.sent) == ("1.8", "1.0")
    assert not prepare("openai_responses", exactly(ModelSettings(temperature=1.0))).adapted


@pytest.mark.parametrize(
    ("wire", "names"),
    [
        ("openai_chat", {"top_p": "top_p", "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty"}),
        ("anthropic", {"top_p": "top_p", "top_k": "top_k"}),
        ("gemini", {"top_p": "topP", "top_k": "topK", "frequency_penalty": "frequencyPenalty", "presence_penalty": "presencePenalty"}),
        ("openai_responses", {"top_p": "top_p"}),
    ],
)  # fmt: skip
def test_each_wire_sends_the_sampling_settings_that_its_vendor_has(wire: str, names: dict[str, str]) -> None:
    settings: dict[str, Any] = {"top_p": 0.5, "top_k": 7, "frequency_penalty": 0.1, "presence_penalty": 0.2}
    request = prepare(wire, exactly(**settings))
    place = request.body["generationConfig"] if wire == "gemini" else request.body
    assert {name: place[name] for name in names.values()} == {names[name]: settings[name] for name in names}
    assert set(request.left_out) == set(settings) - set(names)
    assert not set(prepare(wire, exactly(top_p=None)).left_out)
    assert prepare(wire, exactly(left_out=("logprobs",))).left_out == ("logprobs",)


@pytest.mark.parametrize(
    ("wire", "choice", "expected"),
    [
        ("openai_chat", "=look", {"type": "function", "function": {"name": "look"}}),
        ("openai_chat", "required", "required"),
        ("openai_responses", "=look", {"type": "function", "name": "look"}),
        ("openai_responses", "none", "none"),
        ("anthropic", "=look", {"type": "tool", "name": "look"}),
        ("anthropic", "required", {"type": "any"}),
        ("anthropic", "none", {"type": "none"}),
        ("gemini", "required", {"functionCallingConfig": {"mode": "ANY"}}),
        ("gemini", "none", {"functionCallingConfig": {"mode": "NONE"}}),
        ("gemini", "=look", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}),
    ],
)
def test_the_choice_of_a_tool(wire: str, choice: str, expected: object) -> None:
    assert (
        body(wire, exactly(tool_choice=choice))["toolConfig" if wire == "gemini" else "tool_choice"]
        == expected
    )
    assert {"tool_choice", "toolConfig"}.isdisjoint(body(wire, exactly()))


def test_the_choice_of_a_tool_is_kept_together_with_googles_search() -> None:
    call = replace(
        exactly(ModelSettings(web_search=True), tool_choice="none"),
        tools=(ToolSpec("look", "Looks.", LOOSE),),
    )
    assert body("gemini", call, search_with_tools=True)["toolConfig"] == {
        "functionCallingConfig": {"mode": "NONE"},
        "includeServerSideToolInvocations": True,
    }


@pytest.mark.parametrize(
    ("call", "setting", "was"),
    [
        (exactly(ModelSettings(effort="minimal", web_search=True)), "reasoning_effort", "minimal"),
        (exactly(ModelSettings(web_search=True), thinking_budget=0), "thinking", "disabled"),
    ],
)
def test_a_clients_effort_is_one_with_which_the_model_searches(call: Call, setting: str, was: str) -> None:
    model = replace(
        FULL_MODEL,
        effort_style="reasoning",
        efforts={"minimal": "minimal", "low": "low"},
        options={"search_refuses": ["minimal"]},
    )
    request = prepare("openai_responses", call, model)
    assert request.body["reasoning"] == {"effort": "low"}
    (change,) = request.adapted
    assert (change.setting, change.asked, change.sent) == (setting, was, "low")
    alone = prepare(
        "openai_responses",
        replace(call, model_settings=replace(call.model_settings, web_search=False)),
        model,
    )
    assert alone.body["reasoning"] == {"effort": "minimal"}


@pytest.mark.parametrize(
    ("budget", "level"),
    [(1, "low"), (4_096, "low"), (4_097, "medium"), (16_384, "medium"), (16_385, "high")],
)
def test_a_budget_of_thinking_becomes_a_level_where_it_is_not_counted(budget: int, level: str) -> None:
    model = replace(
        FULL_MODEL,
        effort_style="reasoning",
        efforts={"low": "low", "medium": "medium", "high": "high"},
    )
    request = prepare("openai_responses", exactly(thinking_budget=budget), model)
    assert request.body["reasoning"] == {"effort": level}
    (change,) = request.adapted
    assert (change.setting, change.asked, change.sent) == ("thinking", f"{budget} tokens", level)


def test_anthropic_sends_parallel_tools_with_the_choice() -> None:
    assert body("anthropic", exactly(parallel_tool_calls=False))["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    both = exactly(tool_choice="required", parallel_tool_calls=True)
    assert body("anthropic", both)["tool_choice"] == {"type": "any", "disable_parallel_tool_use": False}
    none = exactly(tool_choice="none", parallel_tool_calls=False)
    assert body("anthropic", none)["tool_choice"] == {"type": "none"}


def test_gemini_has_no_switch_for_parallel_tools() -> None:
    assert prepare("gemini", exactly(parallel_tool_calls=False)).left_out == ("parallel_tool_calls",)
    assert prepare("gemini", exactly(parallel_tool_calls=True)).left_out == ()


def test_anthropics_clients_count_thinking_in_tokens() -> None:
    request_body = body("anthropic", exactly(thinking_budget=2048, max_output=3000, top_p=0.5))
    assert request_body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert request_body["max_tokens"] == 3000, "thinking is part of it"
    assert "temperature" not in request_body
    assert "top_p" not in request_body, "the vendor refuses it with thinking"
    assert (
        body("anthropic", exactly(thinking_budget=2048, max_output=90_000))["max_tokens"] == FULL_MODEL.output
    )
    assert body("anthropic", exactly(thinking_budget=2048))["max_tokens"] == FULL_MODEL.output
    assert "thinking" not in body("anthropic", exactly(thinking_budget=0))


@pytest.mark.parametrize(
    ("thinking", "limit", "expected"),
    [
        (3000, 3001, {"type": "enabled", "budget_tokens": 3000}),
        (3000, 3000, {"type": "enabled", "budget_tokens": 1500}),
        (3000, 2048, {"type": "enabled", "budget_tokens": 1024}),
        (3000, 2047, {"type": "disabled"}),
    ],
)
def test_a_budget_leaves_room_for_an_answer_after_the_thinking(
    thinking: int, limit: int, expected: Json
) -> None:
    call = replace(exactly(thinking_budget=thinking), output_limit=limit)
    request = body("anthropic", call)
    assert request["thinking"] == expected
    assert request["max_tokens"] == limit


@pytest.mark.parametrize(
    ("max_output", "limit", "expected"), [(500, 300, 300), (200, 300, 200), (None, 300, 300)]
)
@pytest.mark.parametrize(
    ("wire", "field"), [("openai_chat", "max_completion_tokens"), ("openai_responses", "max_output_tokens")]
)
def test_a_budget_bounds_the_output(
    wire: str, field: str, max_output: int | None, limit: int, expected: int
) -> None:
    call = replace(exactly(max_output=max_output), output_limit=limit)
    assert body(wire, call, max_tokens_field=field)[field] == expected


# ── structured output ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT, True),
        (LOOSE, False),
        ({**STRICT, "additionalProperties": True}, False),
        ({**STRICT, "required": []}, False),
        ({"type": "object"}, False),
        ({"type": "string"}, True),
        ({"anyOf": [STRICT, {"type": "null"}]}, True),
        ({"anyOf": [STRICT, LOOSE]}, False),
        ({"type": "array", "items": LOOSE}, False),
        ({**STRICT, "properties": {"a": LOOSE}}, False),
        ({**STRICT, "$defs": {"b": LOOSE}}, False),
        ({**STRICT, "properties": {"a": {"enum": ["x"]}}}, True),
    ],
)
def test_strict_mode_is_asked_for_where_openai_takes_the_schema(schema: Json, strict: bool) -> None:
    assert fits_strict_mode(schema) is strict
    form = body("openai_responses", Call(HELLO, schema=schema))["text"]["format"]
    assert form == {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def test_a_client_names_its_schema_and_decides_about_strict_mode() -> None:
    call = exactly(schema=LOOSE, schema_name="reply", schema_strict=True)
    assert body("openai_chat", call)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": LOOSE, "strict": True},
    }
    assert (
        body("openai_responses", exactly(schema=STRICT, schema_strict=False))["text"]["format"]["strict"]
        is False
    )


@pytest.mark.parametrize(
    ("style", "schema", "expected"),
    [
        ("json_object", STRICT, {"type": "json_object"}),
        ("json_schema", None, {"type": "json_object"}),
        ("none", STRICT, None),
    ],
)
def test_what_a_compatible_server_supports_of_json(style: str, schema: Json | None, expected: object) -> None:
    call = exactly(schema=schema, json_object=True)
    assert body("openai_chat", call, structured_output=style).get("response_format") == expected
    assert "response_format" not in body("openai_chat", exactly(), structured_output=style)


@pytest.mark.parametrize(
    ("schema", "sent"), [(STRICT, [("response_format", "json_schema", "json_object")]), (None, [])]
)
def test_a_schema_that_a_server_does_not_accept_is_reported_as_left_out(
    schema: Json | None, sent: object
) -> None:
    prepared = prepare(
        "openai_chat", exactly(schema=schema, json_object=True), structured_output="json_object"
    )
    assert [(each.setting, each.asked, each.sent) for each in prepared.adapted] == sent


def test_anthropic_gets_the_schema_in_its_output_settings() -> None:
    assert body("anthropic", Call(HELLO, schema=STRICT))["output_config"]["format"] == {
        "type": "json_schema",
        "schema": STRICT,
    }


# ── a body of the same vendor's API is passed on unchanged ─────────────────────────────────────────────────

NATIVE = {
    "model": "alias", "stream": False, "temperature": 0.5, "top_p": 0.1, "metadata": {"a": 1}, "max_tokens": 700,
    "max_output_tokens": 700, "messages": [{"role": "user", "content": "hi"}], "input": "hi", "store": True,
    "top_k": 5, "include": ["x"],
}  # fmt: skip


def native(wire: str, **changes: Any) -> Call:
    exact = Exact(native=Native(wire, {**NATIVE, **changes}, {"anthropic-beta": "b"}))
    return Call(HELLO, exact=exact)


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses"])
def test_a_clients_own_body_is_passed_on(wire: str) -> None:
    request = prepare(wire, native(wire), headers={"x-extra": "2"}, body={"service_tier": "flex"})
    assert request.body["model"] == "m-1"
    assert request.body["stream"] is True
    assert request.body["service_tier"] == "flex"
    assert request.body["metadata"] == {"a": 1}
    assert request.body["temperature"] == 0.5
    assert request.left_out == ()
    assert request.headers["anthropic-beta"] == "b"
    assert request.headers["x-extra"] == "2"
    assert request.headers["x-gateway"] == "1"


def test_a_body_of_another_vendors_api_is_translated() -> None:
    assert "metadata" not in body("anthropic", native("openai_responses"))
    assert "metadata" not in body("openai_responses", native("anthropic"))


@pytest.mark.parametrize(
    ("wire", "left_out"),
    [("anthropic", ("temperature", "top_p", "top_k")), ("openai_responses", ("temperature", "top_p"))],
)
def test_only_what_the_model_refuses_is_left_out(wire: str, left_out: tuple[str, ...]) -> None:
    request = prepare(wire, native(wire), BARE_MODEL)
    assert request.left_out == left_out
    assert set(left_out).isdisjoint(request.body)
    assert request.body["metadata"] == {"a": 1}


def test_null_is_not_a_setting() -> None:
    call = native("openai_responses", temperature=None, top_p=None)
    assert prepare("openai_responses", call, BARE_MODEL).left_out == ()


def test_openai_stores_nothing_and_sends_its_reasoning_encrypted() -> None:
    request_body = body("openai_responses", native("openai_responses"))
    assert request_body["store"] is False
    assert request_body["include"] == ["x", "reasoning.encrypted_content"]
    again = body("openai_responses", native("openai_responses", include=["reasoning.encrypted_content"]))
    assert again["include"] == ["reasoning.encrypted_content"]
    assert body("openai_responses", native("openai_responses", include=None), BARE_MODEL)["include"] is None
    assert body("openai_responses", native("openai_responses"), encrypted=False)["include"] == ["x"]


def test_a_clients_own_body_stays_within_the_budget() -> None:
    assert body("anthropic", replace(native("anthropic"), output_limit=300))["max_tokens"] == 300
    call = replace(native("openai_responses"), output_limit=300)
    assert body("openai_responses", call)["max_output_tokens"] == 300


def test_a_models_version_of_the_api_is_kept() -> None:
    request = prepare("anthropic", native("anthropic"), api_version="2030-01-01")
    assert request.headers["anthropic-version"] == "2030-01-01"
    plain = prepare("anthropic", native("anthropic")).headers["anthropic-version"]
    assert plain not in {"", "2030-01-01"}


def test_a_paused_answer_is_continued_behind_the_clients_messages() -> None:
    partial_turn = [{"type": "text", "text": "so far"}]
    call = replace(native("anthropic"), turns=(*HELLO, Turn("assistant", native=partial_turn)))
    assert body("anthropic", call)["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": partial_turn},
    ]


# ── parts of turns ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ("anthropic", {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}),
        ("openai_chat", {"type": "image_url", "image_url": {"url": "https://a/b.png"}}),
        ("openai_responses", {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"}),
    ],
)
def test_an_image_that_the_vendor_fetches(wire: str, expected: Json) -> None:
    call = Call((Turn("user", "look", images=(Image("image/png", b"", url="https://a/b.png"),)),))
    request = body(wire, call, replace(FULL_MODEL, vision=True))
    (turn,) = request["input" if wire == "openai_responses" else "messages"]
    assert expected in [{k: v for k, v in part.items() if k != "cache_control"} for part in turn["content"]]


def test_a_compatible_servers_reasoning_goes_back_to_it_alone() -> None:
    thoughts = (Thought("openai_chat", {"reasoning": "hm"}), Thought("anthropic", {"signature": "s"}))
    turn = Turn("assistant", "", tool_calls=(ToolCall("1", "look", {}),), thoughts=thoughts)
    message = body("openai_chat", Call((*HELLO, turn)))["messages"][1]
    assert message["reasoning"] == "hm"
    assert "signature" not in message


def test_a_tools_flat_name_fits_and_stays_apart_from_others() -> None:
    assert flat_name("files", "read") == "files__read"
    longest = flat_name("n" * 30, "t" * 32)
    assert longest == f"{'n' * 30}__{'t' * 32}"
    first, second = flat_name("n" * 30, "t" * 33), flat_name("n" * 30, "t" * 34)
    assert len(first) == len(second) == 64
    assert first != second
    assert first.startswith(f"{'n' * 30}__{'t' * 20}")
