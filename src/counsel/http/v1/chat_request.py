"""A request to OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypedDict

from counsel import strict_json
from counsel.http.v1 import opaque, reading
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest
from counsel.types import Effort, Exact, Image, Thought, ToolCall, ToolResult, ToolSpec, Turn, Verbosity

UNKNOWN = "Unrecognized request argument supplied: {}"
# Fields that do not change the answer, or not reliably: reported, not refused.
IGNORED: dict[str, type] = {
    "user": str,
    "metadata": dict,
    "safety_identifier": str,
    "prompt_cache_key": str,
    "prompt_cache_options": dict,
    "prompt_cache_retention": str,
    "service_tier": str,
    "prediction": dict,
}
REFUSED = {
    "seed": "no model behind it promises repeatable answers",
    "logprobs": "most models have none",
    "top_logprobs": "most models have none",
    "logit_bias": "tokens differ between models",
    "audio": "counsel answers with text",
    "functions": "use 'tools'",
    "function_call": "use 'tool_choice'",
    "web_search_options": "ask an agent, or use counsel's own API",
    "moderation": "counsel does not moderate",
}
_NEVER_NEUTRAL = ("seed", "web_search_options")  # 0 is a valid seed, and {} turns the search on
FIELDS = frozenset(
    {
        "model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "stop", "tools", "n",
        "max_completion_tokens", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "store",
        "verbosity", "frequency_penalty", "presence_penalty", "modalities", *IGNORED, *REFUSED,
    }
)  # fmt: skip
# Of a message. The first five are read; the others belong to answers that clients send back, and are for people.
_MESSAGE_FIELDS = frozenset(
    {
        "role", "content", "tool_calls", "tool_call_id", "reasoning_details",
        "refusal", "annotations", "reasoning_content", "reasoning", "parsed", "id",
    }
)  # fmt: skip
ROLES = ("system", "developer", "user", "assistant", "tool")
# counsel's levels by OpenAI's; `none` turns reasoning off.
EFFORTS: dict[str, Effort | None] = {
    "none": None,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}
VERBOSITY: tuple[Verbosity, ...] = ("low", "medium", "high")


class AnswerFormat(TypedDict, total=False):
    """Fields of `Exact`."""

    json_object: bool
    schema_name: str
    schema_strict: bool | None


def parse(body: Mapping[str, object]) -> ApiRequest:
    reading.check_names(body, FIELDS, UNKNOWN)
    reading.check_supported(body, REFUSED, never_neutral=_NEVER_NEUTRAL)
    reading.check_types(body, IGNORED)
    reading.check_metadata(body)
    if reading.count(body, "n") not in {None, 1}:
        raise BadRequest("'n' must be 1: one answer for each request.", "n", "unsupported_value")
    if body.get("modalities") not in (None, ["text"]):
        raise BadRequest("'modalities' must be [\"text\"].", "modalities", "unsupported_value")
    stream = bool(reading.optional(body, "stream", bool))
    options = reading.optional(body, "stream_options", dict) or {}
    messages = _Messages()
    system, turns = messages.read(reading.required(body, "messages", list))
    choice, tools = _choice_and_tools(body.get("tool_choice"), tools_of(body))
    schema, exact_format = _format(body)
    effort, thinking_budget = effort_of(body.get("reasoning_effort"), "reasoning_effort")
    completion = CompletionRequest(
        model=model_of(body),
        turns=turns,
        system=system,
        tools=tools,
        temperature=reading.number(body, "temperature", 0, 2),
        reasoning_effort=effort,
        verbosity=verbosity(body.get("verbosity"), "verbosity"),
        max_output=reading.count(body, "max_completion_tokens") or reading.count(body, "max_tokens"),
        schema=schema,
        exact=Exact(
            top_p=reading.number(body, "top_p", 0, 1),
            stop=_stop(body.get("stop")),
            frequency_penalty=reading.number(body, "frequency_penalty", -2, 2),
            presence_penalty=reading.number(body, "presence_penalty", -2, 2),
            tool_choice=tool_choice(choice, tools, nested=True),
            parallel_tool_calls=reading.optional(body, "parallel_tool_calls", bool),
            thinking_budget=thinking_budget,
            **exact_format,
        ),
        offered=tuple(dict.fromkeys(messages.left_out)),
        is_streamed=stream,
        stored=bool(reading.optional(body, "store", bool)),
    )
    return ApiRequest(
        completion=completion,
        stream=stream,
        wants_usage=bool(reading.optional(options, "include_usage", bool, "stream_options.include_usage")),
        ignored=tuple(name for name in IGNORED if body.get(name) is not None),
    )


def effort_of(value: object, where: str) -> tuple[Effort | None, int | None]:
    """counsel's level, and the thinking budget: `none` is a budget of 0."""
    if value is None:
        return None, None
    effort = EFFORTS[reading.choice(value, EFFORTS, where)]
    return effort, None if effort else 0


def model_of(body: Mapping[str, object]) -> str:
    name = reading.text(reading.required(body, "model", str), "model").strip()
    if not name:
        raise BadRequest("you must provide a model parameter", "model", "missing_required_parameter")
    return name


class _Messages:
    """The messages as turns. Every tool result must answer a call of the assistant's message before it."""

    def __init__(self) -> None:
        self._system: list[str] = []
        self._turns: list[Turn] = []
        self._open: dict[str, str] = {}  # calls of the last assistant message without a result: id → name
        self.left_out: list[str] = []

    def read(self, messages: list[object]) -> tuple[str | None, tuple[Turn, ...]]:
        if not messages:
            raise BadRequest("[] is too short - 'messages'", "messages", "empty_array")
        for index, value in enumerate(messages):
            where = f"messages[{index}]"
            message = reading.checked(value, dict, where)
            role = reading.choice(message.get("role"), ROLES, f"{where}.role")
            if role != "tool":
                self._check_answered(where)
            reading.optional(message, "name", str, f"{where}.name")
            self.left_out += [
                f"messages.{name[:60]}"
                for name, value in message.items()
                if value and name not in _MESSAGE_FIELDS
            ]
            _READERS[role](self, message, where)
        self._check_answered("messages")
        if not self._turns:
            self._turns.append(Turn("user", "\n\n".join(self._system)))
            self._system = []
        return "\n\n".join(self._system) or None, tuple(self._turns)

    def instruction(self, message: Mapping[str, object], where: str) -> None:
        """Other vendors' models have one system prompt: later instructions are appended to it."""
        self._system.append(_only_text(message.get("content"), f"{where}.content"))

    def user(self, message: Mapping[str, object], where: str) -> None:
        content = message.get("content")
        if isinstance(content, str):
            self._turns.append(Turn("user", reading.text(content, where)))
            return
        where = f"{where}.content"
        self._turns += user_turns(reading.blocks(content, where), where, self._part)

    def _part(self, part: Mapping[str, object], where: str) -> str | Image:
        image_url = part.get("image_url")
        if isinstance(image_url, dict) and image_url.get("detail") not in (None, "auto"):
            self.left_out.append("image_url.detail")
        return _part(part, where)

    def assistant(self, message: Mapping[str, object], where: str) -> None:
        content = message.get("content")
        text = "" if content is None else _only_text(content, f"{where}.content")
        text = text or reading.optional(message, "refusal", str, f"{where}.refusal") or ""
        calls = tuple(
            _read_call(call, f"{where}.tool_calls[{index}]")
            for index, call in enumerate(reading.rows(message, "tool_calls", f"{where}.tool_calls"))
        )
        if message.get("function_call") is not None:
            raise BadRequest("'function_call' is not supported: use 'tool_calls'.", f"{where}.function_call")
        if not text and not calls and content is None:
            raise BadRequest(f"'{where}' needs content or tool_calls.", f"{where}.content", "invalid_value")
        self._open = {call.id: call.name for call in calls}
        if len(self._open) < len(calls):
            raise BadRequest(
                f"Two calls of '{where}' have the same id.", f"{where}.tool_calls", "invalid_value"
            )
        self._turns.append(Turn("assistant", text, tool_calls=calls, thoughts=_thoughts(message)))

    def tool(self, message: Mapping[str, object], where: str) -> None:
        call = reading.required(message, "tool_call_id", str, f"{where}.tool_call_id")
        if call not in self._open:
            raise BadRequest(
                "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                f"'tool_calls' ('{call[:100]}' is none of its ids).",
                f"{where}.tool_call_id",
            )
        result = ToolResult(
            call, self._open.pop(call), _only_text(message.get("content"), f"{where}.content")
        )
        last = self._turns[-1]
        if last.role == "tool":
            self._turns[-1] = Turn("tool", tool_results=(*last.tool_results, result))
        else:
            self._turns.append(Turn("tool", tool_results=(result,)))

    def _check_answered(self, where: str) -> None:
        if self._open:
            raise BadRequest(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. No response: {', '.join(self._open)}",
                where,
            )


_READERS: dict[str, Callable[[_Messages, dict[str, object], str], None]] = {
    "system": _Messages.instruction,
    "developer": _Messages.instruction,
    "user": _Messages.user,
    "assistant": _Messages.assistant,
    "tool": _Messages.tool,
}


def _only_text(content: object, where: str) -> str:
    """The content of a system, assistant or tool message: a string or text parts."""
    if isinstance(content, str):
        return reading.text(content, where)
    texts = []
    for index, part in enumerate(reading.blocks(content, where)):
        kind = reading.choice(part.get("type"), ("text", "refusal"), f"{where}[{index}].type")
        texts.append(reading.text(part.get(kind), f"{where}[{index}].{kind}"))
    return "\n\n".join(texts)


ReadPart: TypeAlias = Callable[[Mapping[str, object], str], str | Image]


def user_turns(
    parts: Sequence[Mapping[str, object]],
    where: str,
    read_part: ReadPart,
    place: reading.Place = reading.in_brackets,
) -> list[Turn]:
    """Text and images in order. A turn has its text before its images, so text after an image begins a new turn."""
    turns: list[Turn] = []
    texts: list[str] = []
    images: list[Image] = []

    def close() -> None:
        nonlocal texts, images
        if texts or images:
            turns.append(Turn("user", "\n\n".join(texts), tuple(images)))
            texts, images = [], []

    for index, part in enumerate(parts):
        value = read_part(part, place(where, index))
        if isinstance(value, Image):
            images.append(value)
            continue
        if images:
            close()
        texts.append(value)
    close()
    return turns


def _part(part: Mapping[str, object], where: str) -> str | Image:
    kind = reading.choice(
        part.get("type"), ("text", "image_url", "input_audio", "file", "refusal"), f"{where}.type"
    )
    if kind == "text":
        return reading.text(part.get("text"), f"{where}.text")
    if kind == "image_url":
        image_url = reading.checked(part.get("image_url"), dict, f"{where}.image_url")
        return reading.data_url(
            reading.checked(image_url.get("url"), str, f"{where}.image_url.url"), f"{where}.image_url.url"
        )
    raise BadRequest(
        f"Content of type '{kind}' is not supported here.", f"{where}.type", "unsupported_content"
    )


def _read_call(call: Mapping[str, object], where: str) -> ToolCall:
    reading.choice(call.get("type", "function"), ("function",), f"{where}.type")
    function = reading.checked(call.get("function"), dict, f"{where}.function")
    return ToolCall(
        reading.required(call, "id", str, f"{where}.id"),
        reading.tool_name(function.get("name"), f"{where}.function.name"),
        arguments(function.get("arguments"), f"{where}.function.arguments"),
    )


def arguments(value: object, where: str) -> dict[str, object]:
    raw = reading.checked(value, str, where)
    try:
        document = strict_json.loads(raw or "{}")
    except ValueError:
        raise BadRequest(f"'{where}' is not JSON.", where, "invalid_value") from None
    return reading.checked(document, dict, where)


def _thoughts(message: Mapping[str, object]) -> tuple[Thought, ...]:
    """counsel's own blocks. Anything else that a client kept of a model's reasoning is for people."""
    details = message.get("reasoning_details")
    rows = [row for row in details if isinstance(row, dict)] if isinstance(details, list) else []
    thoughts = (opaque.decode(str(row.get("data"))) for row in rows)
    return tuple(item for item in thoughts if item)


def tools_of(body: Mapping[str, object]) -> tuple[ToolSpec, ...]:
    rows = reading.rows(body, "tools")
    if len(rows) > reading.MOST_TOOLS:
        raise BadRequest(f"'tools' has {len(rows)} entries; at most {reading.MOST_TOOLS}.", "tools")
    return tuple(_tool(row, f"tools[{index}]") for index, row in enumerate(rows))


def _tool(row: Mapping[str, object], where: str) -> ToolSpec:
    reading.choice(row.get("type"), ("function",), f"{where}.type")
    return function_tool(reading.checked(row.get("function"), dict, f"{where}.function"), f"{where}.function")


def function_tool(function: Mapping[str, object], where: str) -> ToolSpec:
    return ToolSpec(
        reading.tool_name(function.get("name"), f"{where}.name"),
        reading.optional(function, "description", str, f"{where}.description") or "",
        reading.optional(function, "parameters", dict, f"{where}.parameters")
        or {"type": "object", "properties": {}},
        reading.optional(function, "strict", bool, f"{where}.strict"),
    )


def _choice_and_tools(choice: object, tools: tuple[ToolSpec, ...]) -> tuple[object, tuple[ToolSpec, ...]]:
    """The choice and the tools; for `allowed_tools`, its mode and the tools that it allows."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return choice, tools
    where = "tool_choice.allowed_tools"
    allowed_tools = reading.checked(choice.get("allowed_tools"), dict, where)
    rows = reading.objects(allowed_tools.get("tools"), f"{where}.tools")
    functions = [reading.checked(row.get("function"), dict, f"{where}.tools") for row in rows]
    return restrict_tools(allowed_tools.get("mode"), [row.get("name") for row in functions], tools, where)


def restrict_tools(
    mode: object, names: Sequence[object], tools: tuple[ToolSpec, ...], where: str
) -> tuple[str, tuple[ToolSpec, ...]]:
    """The mode, and the tools with these names: only OpenAI's API can be sent tools that the model must not call."""
    tool_names = [tool.name for tool in tools]
    if not names:
        raise BadRequest(f"'{where}.tools' must not be empty.", f"{where}.tools", "empty_array")
    allowed_names = [reading.choice(name, tool_names, f"{where}.tools") for name in names]
    choice: str = reading.choice(mode, ("auto", "required"), f"{where}.mode")
    return choice, tuple(tool for tool in tools if tool.name in allowed_names)


def tool_choice(value: object, tools: tuple[ToolSpec, ...], *, nested: bool) -> str | None:
    if value is None:
        return None
    if not tools:
        if value in ("none", "auto"):
            return None
        raise BadRequest("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
    if isinstance(value, str):
        return reading.choice(value, ("none", "auto", "required"), "tool_choice")
    choice = reading.checked(value, dict, "tool_choice")
    reading.choice(choice.get("type"), ("function",), "tool_choice.type")
    if nested:
        choice = reading.checked(choice.get("function"), dict, "tool_choice.function")
    name = reading.checked(choice.get("name"), str, "tool_choice.name")
    if name not in {tool.name for tool in tools}:
        raise BadRequest(f"Tool choice '{name[:100]}' not found in 'tools'.", "tool_choice", "invalid_value")
    return f"={name}"


def _format(body: Mapping[str, object]) -> tuple[dict[str, object] | None, AnswerFormat]:
    response_format = reading.optional(body, "response_format", dict)
    if response_format is None:
        return None, {}
    kind = reading.choice(
        response_format.get("type"), ("text", "json_object", "json_schema"), "response_format.type"
    )
    if kind == "json_schema":
        json_schema = reading.checked(response_format.get("json_schema"), dict, "response_format.json_schema")
        return schema_of(json_schema, "response_format.json_schema")
    return None, {"json_object": kind == "json_object"}


def schema_of(json_schema: Mapping[str, object], where: str) -> tuple[dict[str, object], AnswerFormat]:
    schema = reading.checked(json_schema.get("schema"), dict, f"{where}.schema")
    name = reading.tool_name(json_schema.get("name"), f"{where}.name")
    strict = reading.optional(json_schema, "strict", bool, f"{where}.strict")
    return schema, {"schema_name": name, "schema_strict": strict}


def verbosity(value: object, where: str) -> Verbosity | None:
    return None if value is None else reading.choice(value, VERBOSITY, where)


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else reading.checked(value, list, "stop")
    if len(values) > 4:
        raise BadRequest("'stop' may have at most 4 sequences.", "stop", "array_above_max_length")
    return tuple(text for entry in values if (text := reading.text(entry, "stop")))
