"""A request to OpenAI's Responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from counsel import json_reader as read
from counsel.engine.completions.compose import has_content
from counsel.http.v1 import opaque, reading, responses_tools
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.chat_request import AnswerFormat, effort_of, model_of, schema_of, user_turns, verbosity
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest
from counsel.types import Effort, Exact, Image, Native, Thought, ToolCall, ToolResult, Turn

WIRE = "openai_responses"
_OUR_ID = re.compile(r"(?:rs|msg|fc|ctc|item)_([0-9a-f-]{32,36})_i?[0-9]+").fullmatch
UNKNOWN = "Unknown parameter: '{}'."
IGNORED: dict[str, type] = {
    "user": str,
    "metadata": dict,
    "safety_identifier": str,
    "prompt_cache_key": str,
    "prompt_cache_options": dict,
    "prompt_cache_retention": str,
    "service_tier": str,
    "stream_options": dict,
    "client_metadata": dict,
}
_UNREPORTED = (
    "stream_options",
    "client_metadata",
)  # the stream's format, and data that only the client reads
_INCLUDED = "reasoning.encrypted_content"  # the only `include` that every vendor's answers have
_LOGPROBS = "message.output_text.logprobs"
REFUSED = {
    "top_logprobs": "most models have none",
    "prompt": "prompts are stored at OpenAI",
    "moderation": "counsel does not moderate",
    "image": "counsel answers with text",
    "access_programs": "they are OpenAI's",
}
# Fields that change the answer, and that only OpenAI's own models understand.
OWN: dict[str, type] = {"context_management": list, "max_tool_calls": int}
FIELDS = frozenset(
    {
        "model", "input", "instructions", "stream", "temperature", "top_p", "max_output_tokens", "tools", "tool_choice",
        "parallel_tool_calls", "text", "reasoning", "include", "store", "background", "previous_response_id",
        "conversation", "truncation", *IGNORED, *REFUSED, *OWN,
    }
)  # fmt: skip
_NOT_PASSED = ("previous_response_id", "conversation", "background", "store", "stream", "client_metadata")
# Repeated in the answer, with OpenAI's defaults.
_ECHO: dict[str, object] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


def parse(body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest:  # noqa: ARG001 (Api)
    reading.check_names(body, FIELDS, UNKNOWN)
    reading.check_supported(body, REFUSED)
    stream = bool(reading.optional(body, "stream", bool))
    background = bool(reading.optional(body, "background", bool))
    stored = reading.optional(body, "store", bool) is not False
    if background and not stored:
        raise BadRequest("Background responses require 'store' to be true.", "store", "invalid_value")
    if body.get("truncation") is not None:
        reading.choice(body["truncation"], ("auto", "disabled"), "truncation")
    reading.check_types(body, {**IGNORED, **OWN})
    reading.check_metadata(body)
    tool_set = responses_tools.read(body)
    return ApiRequest(
        completion=_completion(body, tool_set, stream=stream, stored=stored),
        stream=stream,
        background=background,
        ignored=("client_metadata",) if body.get("client_metadata") is not None else (),
        echo=echo(body, stored=stored, background=background),
        client_tools=tool_set.client_tools,
    )


def _completion(
    body: Mapping[str, object], tool_set: responses_tools.ToolSet, *, stream: bool, stored: bool
) -> CompletionRequest:
    untranslated = [name for name in OWN if body.get(name) is not None]
    untranslated += ["truncation: auto"] if body.get("truncation") == "auto" else []
    untranslated += tool_set.untranslated
    choice, tools = responses_tools.choice_and_tools(body, tool_set.specs)
    previous = _previous(body)
    left_out = [name for name in IGNORED if body.get(name) is not None and name not in _UNREPORTED]
    left_out += [*tool_set.optional, *_left_out_settings(body)]
    if tool_set.web_search and not tools and body.get("tool_choice") not in (None, "auto", "none"):
        left_out.append("tool_choice")
    items = _Items(untranslated, left_out, continues=previous is not None)
    system, turns = items.read(body.get("input"))
    instructions = reading.optional(body, "instructions", str)
    continues = previous is not None or body.get("conversation") is not None
    if not (continues or instructions or items.has_vendor_content or any(map(has_content, turns))):
        raise BadRequest("'input' must not be empty.", "input", "invalid_value")
    text = reading.optional(body, "text", dict) or {}
    effort, thinking_budget = _effort(body)
    schema, exact_format = _format(text)
    return CompletionRequest(
        model=model_of(body),
        turns=turns,
        system="\n\n".join(part for part in (instructions, system) if part) or None,
        tools=tools,
        temperature=reading.number(body, "temperature", 0, 2),
        reasoning_effort=effort,
        verbosity=verbosity(text.get("verbosity"), "text.verbosity"),
        max_output=reading.count(body, "max_output_tokens"),
        schema=schema,
        exact=Exact(
            top_p=reading.number(body, "top_p", 0, 1),
            tool_choice=responses_tools.choice(choice, body, tools, untranslated),
            parallel_tool_calls=reading.optional(body, "parallel_tool_calls", bool),
            thinking_budget=thinking_budget,
            native=Native(WIRE, _own_body(body)),
            **exact_format,
        ),
        untranslated=tuple(dict.fromkeys(untranslated)),
        offered=tuple(dict.fromkeys(left_out)),
        web_search=tool_set.web_search,
        is_streamed=stream,
        stored=stored,
        previous=previous,
        continuation_id=_conversation(body),
    )


def _left_out_settings(body: Mapping[str, object]) -> list[str]:
    """The parts of settings that only OpenAI's own models understand."""
    includes = [
        reading.checked(name, str, "include") for name in reading.optional(body, "include", list) or ()
    ]
    if _LOGPROBS in includes:
        reason = REFUSED["top_logprobs"]
        raise BadRequest(f"'{_LOGPROBS}' is not supported: {reason}.", "include", "unsupported_parameter")
    include_fields = [f"include.{name[:60]}" for name in includes if name != _INCLUDED]
    reasoning = reading.optional(body, "reasoning", dict) or {}
    text = reading.optional(body, "text", dict) or {}
    supported = {"effort", "summary", "generate_summary"}  # a summary is always asked for
    return [
        *include_fields,
        *(f"reasoning.{name[:60]}" for name in reasoning if name not in supported),
        *(f"text.{name[:60]}" for name in text if name not in {"format", "verbosity"}),
    ]


def echo(body: Mapping[str, object], *, stored: bool, background: bool) -> dict[str, object]:
    """The fields of the request that its response repeats."""
    fields = {name: body[name] if body.get(name) is not None else usual for name, usual in _ECHO.items()}
    conversation = _conversation(body)
    conversation_field = None if conversation is None else {"id": conversation}
    return {**fields, "conversation": conversation_field, "background": background, "store": stored}


def _previous(body: Mapping[str, object]) -> str | None:
    name: str | None = reading.optional(body, "previous_response_id", str)
    return None if name is None else job_of(name)


def job_of(response: str) -> str:
    """The job behind a response's id."""
    if not re.fullmatch(r"resp_[0-9A-Za-z-]{1,80}", response):
        raise BadRequest(f"Invalid response id '{response[:100]}'.", "previous_response_id", "invalid_value")
    return f"job_{response[5:]}"


def references(body: Mapping[str, object]) -> dict[str, str]:
    """The ids of stored items that the input refers to, each with its job."""
    items = body.get("input")
    rows = [item for item in items if _is_reference(item)] if isinstance(items, list) else []
    ids = (str(row.get("id")) for row in rows)
    return {name: f"job_{match[1]}" for name in ids if (match := _OUR_ID(name))}


def with_items(
    body: Mapping[str, object], stored_items: Mapping[str, dict[str, object]]
) -> dict[str, object]:
    """The body with stored items in place of their ids, without reasoning that was not stored: no answer needs it."""
    items: list[object] = []
    for item in read.values(body, "input"):
        name = str(item.get("id")) if _is_reference(item) else ""
        if name in stored_items:
            items.append(stored_items[name])
        elif not name.startswith("rs_"):
            items.append(item)
    return {**body, "input": items}


def input_items(body: Mapping[str, object], response: str) -> list[dict[str, object]]:
    """The input of a stored response, each item with an id."""
    rows = reading.blocks(body.get("input") or [], "input", "input_text")
    if isinstance(body.get("input"), str):
        rows = [{"role": "user", "content": rows}]
    return [_with_id(row, f"{response}_i{index}") for index, row in enumerate(rows)]


def _with_id(item: dict[str, object], name: str) -> dict[str, object]:
    kind = item.get("type") or "message"
    if kind != "message":
        prefix = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}.get(str(kind), "item")
        return {"id": f"{prefix}_{name}", **item}
    text = "output_text" if item.get("role") == "assistant" else "input_text"
    content = reading.blocks(item.get("content"), "content", text)
    return {"id": f"msg_{name}", "type": "message", "status": "completed", **item, "content": content}


def _is_reference(item: object) -> TypeGuard[dict[str, object]]:
    return isinstance(item, dict) and (item.get("type") == "item_reference" or item.keys() == {"id"})


def _conversation(body: Mapping[str, object]) -> str | None:
    value = body.get("conversation")
    if value is None:
        return None
    if body.get("previous_response_id") is not None:
        raise BadRequest("Use either 'conversation' or 'previous_response_id'.", "conversation")
    name = reading.text(value.get("id") if isinstance(value, dict) else value, "conversation")
    if not name.strip():
        raise BadRequest("'conversation' must not be empty.", "conversation", "invalid_value")
    return name


def _own_body(body: Mapping[str, object]) -> dict[str, object]:
    """The body for OpenAI: without fields that counsel handles itself, and without other vendors' reasoning."""
    own_body = {name: value for name, value in body.items() if name not in _NOT_PASSED}
    if isinstance(body.get("input"), list):
        own_body["input"] = [
            _without_our_id(item) for item in read.parts(body, "input") if not _is_foreign(item)
        ]
    return own_body


def _without_our_id(item: dict[str, object]) -> dict[str, object]:
    """The item without an id of ours, which the vendor does not know and does not need."""
    if _OUR_ID(str(item.get("id"))):
        return {name: value for name, value in item.items() if name != "id"}
    return item


def _is_foreign(item: Mapping[str, object]) -> bool:
    return item.get("type") == "reasoning" and (
        not item.get("encrypted_content") or opaque.is_ours(item["encrypted_content"])
    )


def _effort(body: Mapping[str, object]) -> tuple[Effort | None, int | None]:
    reasoning = reading.optional(body, "reasoning", dict) or {}
    return effort_of(reasoning.get("effort"), "reasoning.effort")


def _format(text: Mapping[str, object]) -> tuple[dict[str, object] | None, AnswerFormat]:
    answer_format = reading.optional(text, "format", dict, "text.format")
    if answer_format is None:
        return None, {}
    kind = reading.choice(
        answer_format.get("type"), ("text", "json_object", "json_schema"), "text.format.type"
    )
    if kind == "json_schema":
        return schema_of(answer_format, "text.format")
    return None, {"json_object": kind == "json_object"}


# ── input ────────────────────────────────────────────────────────────────────────────────────────────


class _Items:
    """The input as turns: items of one answer (reasoning, text, calls) are one turn again."""

    def __init__(self, untranslated: list[str], left_out: list[str], *, continues: bool) -> None:
        self._untranslated = untranslated
        self._left_out = left_out
        self.has_vendor_content = False  # items that only OpenAI's own models understand
        self._continues = continues  # calls of an earlier response are not in the input
        self._system: list[str] = []
        self._turns: list[Turn] = []
        self._calls: dict[str, str] = {}  # id → name
        # Of the assistant's turn that is being read:
        self._texts: list[str] = []
        self._turn_calls: list[ToolCall] = []
        self._thoughts: list[Thought] = []

    def read(self, value: object) -> tuple[str | None, tuple[Turn, ...]]:
        if value is None:
            raise BadRequest("Missing required parameter: 'input'.", "input", "missing_required_parameter")
        if isinstance(value, str):
            return None, (Turn("user", reading.text(value, "input")),)
        items = reading.objects(value, "input")
        if not items:
            raise BadRequest("'input' must not be empty.", "input", "empty_array")
        for index, item in enumerate(items):
            self._item(item, f"input[{index}]")
        self._close()
        unanswered_ids = set(self._calls) - self._answered()
        if unanswered_ids:
            raise BadRequest(
                f"No tool output found for function call {min(unanswered_ids)[:100]}.",
                "input",
                "invalid_value",
            )
        if not self._turns:
            self._turns.append(Turn("user", "\n\n".join(self._system)))
            self._system = []
        return "\n\n".join(self._system) or None, tuple(self._turns)

    def _answered(self) -> set[str]:
        return {result.call_id for turn in self._turns for result in turn.tool_results}

    def _item(self, item: dict[str, object], where: str) -> None:
        kind = reading.optional(item, "type", str, f"{where}.type") or "message"
        if kind == "message":
            self._message(item, where)
        elif kind in {"function_call", "custom_tool_call"}:
            call = responses_tools.call(item, where)
            if call.id in self._calls:
                raise BadRequest(f"Two calls have the call_id {call.id[:100]}.", where, "invalid_value")
            self._calls[call.id] = call.name
            self._turn_calls.append(call)
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            self._result(item, where)
        elif kind == "reasoning":
            self.has_vendor_content = True
            self._thoughts += _thought(item)
        elif kind == "item_reference":  # references to stored items have been replaced
            raise BadRequest(f"'{where}': this item is not stored; send the item itself.", where)
        elif kind.endswith("_call"):  # of a tool that OpenAI runs: the text after it contains the outcome
            self.has_vendor_content = True
            self._left_out.append(f"input.{kind[:60]}")
        else:
            self.has_vendor_content = True
            self._untranslated.append(kind[:60])

    def _message(self, item: Mapping[str, object], where: str) -> None:
        role = reading.choice(item.get("role"), ("user", "assistant", "system", "developer"), f"{where}.role")
        parts = reading.blocks(item.get("content"), f"{where}.content", "input_text")
        if role == "assistant":
            self._texts += [_own_text(part, f"{where}.content") for part in parts]
            return
        if role in {"system", "developer"}:
            self._system += [_input_text(part, f"{where}.content") for part in parts]
            return
        self._close()
        self._turns += user_turns(parts, f"{where}.content", self._part)

    def _part(self, part: Mapping[str, object], where: str) -> str | Image:
        kind = reading.choice(
            part.get("type"), ("input_text", "input_image", "input_file", "input_audio"), f"{where}.type"
        )
        if kind == "input_text":
            return reading.text(part.get("text"), f"{where}.text")
        if kind == "input_image" and part.get("image_url") is not None:
            if part.get("detail") not in (None, "auto"):
                self._left_out.append("input_image.detail")
            return reading.data_url(
                reading.checked(part["image_url"], str, f"{where}.image_url"), f"{where}.image_url"
            )
        self.has_vendor_content = True
        self._untranslated.append(kind)
        return ""

    def _result(self, item: Mapping[str, object], where: str) -> None:
        call = reading.required(item, "call_id", str, f"{where}.call_id")
        self._close()
        if call not in self._calls and not self._continues:
            raise BadRequest(
                f"No tool call found for function call output with call_id {call[:100]}.", "input"
            )
        if call in self._answered():
            raise BadRequest(f"Two outputs have the call_id {call[:100]}.", where, "invalid_value")
        place = f"{where}.output"
        parts = [
            self._part(part, f"{place}[{index}]")
            for index, part in enumerate(reading.blocks(item.get("output"), place, "input_text"))
        ]
        result = ToolResult(
            call,
            self._calls.get(call, ""),
            "\n\n".join(part for part in parts if isinstance(part, str)),
            images=tuple(part for part in parts if isinstance(part, Image)),
        )
        last = self._turns[-1] if self._turns else None
        if last is not None and last.role == "tool":
            self._turns[-1] = Turn("tool", tool_results=(*last.tool_results, result))
        else:
            self._turns.append(Turn("tool", tool_results=(result,)))

    def _close(self) -> None:
        """End the assistant's turn."""
        if self._texts or self._turn_calls or self._thoughts:
            text = "\n\n".join(self._texts)
            self._turns.append(
                Turn("assistant", text, tool_calls=tuple(self._turn_calls), thoughts=tuple(self._thoughts))
            )
            self._texts, self._turn_calls, self._thoughts = [], [], []


def _own_text(part: Mapping[str, object], where: str) -> str:
    kind = reading.choice(part.get("type"), ("output_text", "refusal", "input_text"), f"{where}.type")
    return reading.text(part.get("refusal" if kind == "refusal" else "text"), f"{where}.text")


def _input_text(part: Mapping[str, object], where: str) -> str:
    reading.choice(part.get("type"), ("input_text",), f"{where}.type")
    return reading.text(part.get("text"), f"{where}.text")


def _thought(item: dict[str, object]) -> list[Thought]:
    payload = item.get("encrypted_content")
    if not isinstance(payload, str) or not payload:
        return []
    if opaque.is_ours(payload):
        return [thought] if (thought := opaque.decode(payload)) else []
    own_item = {name: value for name, value in _without_our_id(item).items() if name != "status"}
    return [Thought(WIRE, own_item)]
