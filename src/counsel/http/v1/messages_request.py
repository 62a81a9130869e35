"""A request to Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counsel.http.v1 import opaque, reading
from counsel.http.v1.api import Asked
from counsel.http.v1.chat_request import user_turns
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest
from counsel.types import Effort, Exact, Image, Json, Native, Thought, ToolCall, ToolResult, ToolSpec, Turn

WIRE = "anthropic"
UNKNOWN = "{}: Extra inputs are not permitted"
# Fields that only Anthropic's own models understand, and that change nothing an answer depends on.
IGNORED = (
    "metadata",
    "service_tier",
    "cache_control",
    "diagnostics",
    "inference_geo",
    "speed",
    "user_profile_id",
    "workspace_id",
    "context_management",
    "betas",
)
# Fields that change the answer, and that no other vendor has.
OWN = ("container", "mcp_servers", "compaction", "fallbacks", "fallback_credit_token", "thread")
FIELDS = frozenset(
    {
        "model", "messages", "max_tokens", "stream", "system", "temperature", "top_p", "top_k", "stop_sequences", "tools",
        "tool_choice", "thinking", "output_config", "output_format", *IGNORED, *OWN,
    }
)  # fmt: skip
COUNTED = FIELDS - {"max_tokens", "stream"}
EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}
_RESTRICTIONS = ("allowed_domains", "blocked_domains")  # of a search: no other vendor has them
_HEADERS = (b"anthropic-version", b"anthropic-beta")


def parse(body: Json, headers: Mapping[bytes, str], *, counts: bool = False) -> Asked:
    """`counts`: only the tokens are counted."""
    reading.known(body, COUNTED if counts else FIELDS, UNKNOWN)
    untranslated = [name for name in OWN if body.get(name)]
    hosted: list[str] = []
    tools, searches = _tools(body, hosted)
    offered = [f"tools.{kind}" for kind in hosted]
    choice = reading.optional(body, "tool_choice", dict) or {}
    if hosted and (not tools or choice.get("type", "auto") != "auto"):
        untranslated += [f"the tool {kind}" for kind in hosted]
    messages = _Messages(untranslated, offered)
    turns = messages.read(reading.required(body, "messages", list))
    stream = bool(reading.optional(body, "stream", bool))
    thinking, effort = _thinking(body), _effort(body)
    if thinking is None and effort is None and (body.get("thinking") or {}).get("type") == "adaptive":
        effort = "high"  # what the vendor does without one
    request = CompletionRequest(
        model=reading.text(reading.required(body, "model", str), "model").strip(),
        turns=turns,
        system=_system(body),
        tools=tools,
        temperature=reading.number(body, "temperature", 0, 1),
        reasoning_effort=effort,
        max_output=None if counts else _max_tokens(body),
        schema=_schema(body),
        exact=Exact(
            top_p=reading.number(body, "top_p", 0, 1),
            top_k=reading.count(body, "top_k", 0),
            stop=_stop(body),
            **_choice(body, tools),
            thinking_budget=thinking,
            native=Native(WIRE, _own_body(body, turns), _passed_headers(headers)),
        ),
        untranslated=tuple(dict.fromkeys(untranslated)),
        offered=tuple(dict.fromkeys(offered)),
        web_search=searches,
        is_streamed=stream,
    )
    ignored = tuple(name for name in IGNORED if body.get(name) is not None)
    return Asked(request=request, stream=stream, ignored=ignored)


def _max_tokens(body: Json) -> int:
    if body.get("max_tokens") is None:
        raise BadRequest("max_tokens: Field required", "max_tokens")
    most: int = reading.checked(body["max_tokens"], int, "max_tokens")
    if most < 1:
        raise BadRequest("max_tokens: Input should be greater than or equal to 1", "max_tokens")
    return most


def _passed_headers(headers: Mapping[bytes, str]) -> dict[str, str]:
    return {name.decode(): headers[name] for name in _HEADERS if name in headers}


def _own_body(body: Json, turns: tuple[Turn, ...]) -> Json:
    """The body as it came, without reasoning that other vendors gave: the vendor would refuse its signature."""
    foreign = any(thought.wire != WIRE for turn in turns for thought in turn.thoughts)
    if not foreign and not _has_unsigned(body):
        return body
    messages = [
        {**message, "content": [block for block in message["content"] if not _is_foreign(block)]}
        if isinstance(message.get("content"), list)
        else message
        for message in body["messages"]
    ]
    return {**body, "messages": [message for message in messages if message["content"]]}


def _has_unsigned(body: Json) -> bool:
    return any(
        _is_foreign(block)
        for message in body["messages"]
        if isinstance(message.get("content"), list)
        for block in message["content"]
    )


def _is_foreign(block: Json) -> bool:
    if block.get("type") == "redacted_thinking":
        return opaque.is_ours(block.get("data"))
    if block.get("type") != "thinking":
        return False
    return not block.get("signature") or opaque.is_ours(block["signature"])


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────


def _system(body: Json) -> str | None:
    value = body.get("system")
    if value is None or isinstance(value, str):
        return reading.text(value, "system") if value else None
    texts = []
    for index, block in enumerate(reading.objects(value, "system")):
        reading.choice(block.get("type"), ("text",), f"system.{index}.type")
        texts.append(reading.text(block.get("text"), f"system.{index}.text"))
    return "\n\n".join(texts) or None


def _thinking(body: Json) -> int | None:
    about = reading.optional(body, "thinking", dict)
    if about is None:
        return None
    kind = reading.choice(about.get("type"), ("enabled", "disabled", "adaptive"), "thinking.type")
    if kind == "adaptive":
        return None
    if kind == "disabled":
        return 0
    budget: int = reading.checked(about.get("budget_tokens"), int, "thinking.budget_tokens")
    if budget < 1024:
        raise BadRequest(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024", "thinking"
        )
    return budget


def _effort(body: Json) -> Effort | None:
    level = (reading.optional(body, "output_config", dict) or {}).get("effort")
    return None if level is None else EFFORTS[reading.choice(level, EFFORTS, "output_config.effort")]


def _schema(body: Json) -> Json | None:
    config = reading.optional(body, "output_config", dict) or {}
    about = config.get("format") or body.get("output_format")
    if about is None:
        return None
    reading.checked(about, dict, "output_config.format")
    reading.choice(about.get("type"), ("json_schema",), "output_config.format.type")
    schema: Json = reading.checked(about.get("schema"), dict, "output_config.format.schema")
    return schema


def _stop(body: Json) -> tuple[str, ...]:
    values = reading.optional(body, "stop_sequences", list) or []
    texts = tuple(reading.text(value, f"stop_sequences.{index}") for index, value in enumerate(values))
    if any(not text.strip() for text in texts):
        raise BadRequest("stop_sequences: each stop sequence must contain non-whitespace", "stop_sequences")
    return texts


def _tools(body: Json, hosted: list[str]) -> tuple[tuple[ToolSpec, ...], bool]:
    """The client's own tools, and whether the vendor may search the web. `hosted`: the vendor's other tools."""
    rows = reading.objects(body.get("tools") or [], "tools")
    if len(rows) > reading.MOST_TOOLS:
        raise BadRequest(f"tools: at most {reading.MOST_TOOLS} are accepted, not {len(rows)}", "tools")
    specs = []
    searches = False
    for index, row in enumerate(rows):
        where = f"tools.{index}"
        kind = reading.optional(row, "type", str, f"{where}.type")
        if kind not in {None, "custom"}:  # a tool that the vendor runs itself
            if kind.startswith("web_search") and not any(row.get(name) for name in _RESTRICTIONS):
                searches = True
            else:
                hosted.append(kind[:60])
            continue
        specs.append(
            ToolSpec(
                reading.tool_name(row.get("name"), f"{where}.name"),
                reading.optional(row, "description", str, f"{where}.description") or "",
                reading.required(row, "input_schema", dict, f"{where}.input_schema"),
                reading.optional(row, "strict", bool, f"{where}.strict"),
            )
        )
    return tuple(specs), searches


def _choice(body: Json, tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
    about = reading.optional(body, "tool_choice", dict)
    if about is None:
        return {}
    kind = reading.choice(about.get("type"), ("auto", "any", "tool", "none"), "tool_choice.type")
    alone = reading.optional(about, "disable_parallel_tool_use", bool)
    more = {} if alone is None else {"parallel_tool_calls": not alone}
    if not tools:
        return {}
    if kind == "tool":
        return {"tool_choice": f"={reading.checked(about.get('name'), str, 'tool_choice.name')}", **more}
    return {"tool_choice": {"any": "required"}.get(kind, kind), **more}


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────

_USER_BLOCKS = ("text", "image", "tool_result", "document", "search_result", "container_upload")
_OWN_BLOCKS = frozenset({"document", "search_result", "container_upload"})


class _Messages:
    """The messages as turns. Every tool result must answer a tool call of the message before it."""

    def __init__(self, untranslated: list[str], left_out: list[str]) -> None:
        self._untranslated = untranslated
        self._left_out = left_out
        self._turns: list[Turn] = []
        self._open: dict[str, str] = {}  # tool calls of the last assistant message: id → name

    def read(self, messages: list[Any]) -> tuple[Turn, ...]:
        if not messages:
            raise BadRequest("messages: at least one message is required", "messages")
        for index, message in enumerate(messages):
            where = f"messages.{index}"
            reading.checked(message, dict, where)
            reading.known(message, ("role", "content"), f"{where}.{{}}: Extra inputs are not permitted")
            role = reading.choice(message.get("role"), ("user", "assistant", "system"), f"{where}.role")
            content = message.get("content")
            blocks = (
                [{"type": "text", "text": content}]
                if isinstance(content, str)
                else reading.objects(content, f"{where}.content")
            )
            if not blocks and not (role == "assistant" and index == len(messages) - 1):
                raise BadRequest(f"{where}: all messages must have non-empty content", where)
            (self._assistant if role == "assistant" else self._user)(blocks, f"{where}.content", where)
        if self._open:
            raise _unanswered("messages", self._open)
        return tuple(self._turns)

    def _user(self, blocks: list[Json], where: str, message: str) -> None:
        results, others = [], []
        for index, block in enumerate(blocks):
            place = f"{where}.{index}"
            kind = reading.choice(block.get("type"), _USER_BLOCKS, f"{place}.type")
            if kind == "tool_result":
                results.append(self._result(block, place))
            else:
                others.append(block)
        if self._open:
            raise _unanswered(message, self._open)
        if results:
            self._turns.append(Turn("tool", tool_results=tuple(results)))
        self._turns += user_turns(others, where, self._part)

    def _part(self, block: Json, where: str) -> str | Image:
        kind = block["type"]
        if kind in _OWN_BLOCKS:
            self._untranslated.append(kind)
            return ""
        return _text_or_image(block, where)

    def _result(self, block: Json, where: str) -> ToolResult:
        call = reading.required(block, "tool_use_id", str, f"{where}.tool_use_id")
        if call not in self._open:
            raise BadRequest(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call[:100]}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message.",
                where,
            )
        content = block.get("content")
        blocks = (
            [{"type": "text", "text": content}]
            if isinstance(content, str)
            else reading.objects(content or [], f"{where}.content")
        )
        texts: list[str] = []
        images: list[Image] = []
        for index, part in enumerate(blocks):
            place = f"{where}.content.{index}"
            if part.get("type") in ("document", "search_result", "tool_reference"):
                self._untranslated.append(str(part["type"]))
                continue
            reading.choice(part.get("type"), ("text", "image"), f"{place}.type")
            value = _text_or_image(part, place)
            if isinstance(value, Image):
                images.append(value)
            else:
                texts.append(value)
        return ToolResult(
            call,
            self._open.pop(call),
            "\n\n".join(texts),
            is_error=bool(reading.optional(block, "is_error", bool, f"{where}.is_error")),
            images=tuple(images),
        )

    def _assistant(self, blocks: list[Json], where: str, message: str) -> None:
        if self._open:
            raise _unanswered(message, self._open)
        texts: list[str] = []
        calls: list[ToolCall] = []
        thoughts: list[Thought] = []
        for index, block in enumerate(blocks):
            place, kind = f"{where}.{index}", block.get("type")
            if kind == "text":
                texts.append(reading.text(block.get("text"), f"{place}.text"))
            elif kind == "tool_use":
                calls.append(
                    ToolCall(
                        reading.required(block, "id", str, f"{place}.id"),
                        reading.tool_name(block.get("name"), f"{place}.name"),
                        reading.checked(block.get("input"), dict, f"{place}.input"),
                    )
                )
            elif kind in ("thinking", "redacted_thinking"):
                thoughts += _thought(block)
            else:  # what the vendor's own tools did
                name = reading.checked(kind, str, f"{place}.type")
                if name.endswith(("_tool_use", "_tool_result")):
                    self._left_out.append(f"messages.{name[:60]}")  # the text behind it has what came of it
                    continue
                if not name.endswith(("_use", "compaction", "fallback")):
                    reading.choice(
                        name, ("text", "tool_use", "thinking", "redacted_thinking"), f"{place}.type"
                    )
                self._untranslated.append(name[:60])
        self._open = {call.id: call.name for call in calls}
        if len(self._open) < len(calls):
            raise BadRequest(f"{where}: `tool_use` ids must be unique", where)
        self._turns.append(
            Turn("assistant", "\n\n".join(texts), tool_calls=tuple(calls), thoughts=tuple(thoughts))
        )


def _thought(block: Json) -> list[Thought]:
    packed = block.get("data") if block["type"] == "redacted_thinking" else block.get("signature")
    if not isinstance(packed, str) or not packed:
        return []  # without a signature no vendor takes it back
    if opaque.is_ours(packed):
        return [thought] if (thought := opaque.decode(packed)) else []
    return [Thought(WIRE, block)]


def _text_or_image(block: Json, where: str) -> str | Image:
    if block["type"] == "text":
        return reading.text(block.get("text"), f"{where}.text")
    source = reading.checked(block.get("source"), dict, f"{where}.source")
    kind = reading.choice(source.get("type"), ("base64", "url", "file"), f"{where}.source.type")
    if kind == "url":
        url = reading.checked(source.get("url"), str, f"{where}.source.url")
        if not url.startswith(("https://", "http://")):
            raise BadRequest(f"{where}.source.url: only http and https URLs are supported", where)
        return Image("", b"", url=url)
    if kind == "file":
        raise BadRequest(f"{where}.source: files are not supported; send the image itself", where)
    data = reading.checked(source.get("data"), str, f"{where}.source.data")
    media_type = reading.checked(source.get("media_type"), str, f"{where}.source.media_type")
    return reading.image(data, media_type, f"{where}.source.data")


def _unanswered(where: str, calls: Mapping[str, str]) -> BadRequest:
    return BadRequest(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(calls)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        where,
    )
