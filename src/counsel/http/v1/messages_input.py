"""The messages of a request to Anthropic's Messages as turns."""

from __future__ import annotations

from collections.abc import Mapping

from counsel.engine.completions.compose import has_content
from counsel.http.v1 import opaque, reading
from counsel.http.v1.chat_request import user_turns
from counsel.http.v1.errors import BadRequest
from counsel.types import Image, Thought, ToolCall, ToolResult, Turn

WIRE = "anthropic"

_USER_BLOCKS = ("text", "image", "tool_result", "document", "search_result", "container_upload")
_OWN_BLOCKS = frozenset({"document", "search_result", "container_upload"})
_FILE = "an image by its file id"
_OWN_RESULTS = ("document", "search_result", "tool_reference", "browser_state")


class Messages:
    """The messages as turns. Every tool result must answer a tool call of the message before it."""

    def __init__(self, untranslated: list[str], left_out: list[str]) -> None:
        self._untranslated = untranslated
        self._left_out = left_out
        self._turns: list[Turn] = []
        self._has_vendor_content = False  # content that only the vendor's own models understand
        self._open: dict[str, str] = {}  # tool calls of the last assistant message: id → name
        self.system: list[str] = []  # appended to the system prompt: other vendors' models have only one

    def read(self, messages: list[object]) -> tuple[Turn, ...]:
        if not messages:
            raise BadRequest("messages: at least one message is required", "messages")
        for index, value in enumerate(messages):
            where = f"messages.{index}"
            message = reading.checked(value, dict, where)
            reading.check_names(message, ("role", "content"), f"{where}.{{}}: Extra inputs are not permitted")
            role = reading.choice(message.get("role"), ("user", "assistant", "system"), f"{where}.role")
            blocks = reading.blocks(message.get("content"), f"{where}.content", place=reading.dotted)
            if not blocks and not (role == "assistant" and index == len(messages) - 1):
                raise BadRequest(f"{where}: all messages must have non-empty content", where)
            _READERS[role](self, blocks, f"{where}.content", where)
        if self._open:
            raise _unanswered("messages", self._open)
        if not self._turns:
            raise BadRequest("messages: at least one message of the user is required", "messages")
        if not (self._has_vendor_content or any(map(has_content, self._turns))):
            raise BadRequest("messages: text content blocks must contain non-whitespace text", "messages")
        return tuple(self._turns)

    def instruction(self, blocks: list[dict[str, object]], where: str, message: str) -> None:  # noqa: ARG002 (readers)
        for index, block in enumerate(blocks):
            reading.choice(block.get("type"), ("text",), f"{where}.{index}.type")
            self.system.append(reading.text(block.get("text"), f"{where}.{index}.text"))

    def user(self, blocks: list[dict[str, object]], where: str, message: str) -> None:
        results, other_blocks = [], []
        for index, block in enumerate(blocks):
            place = f"{where}.{index}"
            kind = reading.choice(block.get("type"), _USER_BLOCKS, f"{place}.type")
            if kind == "tool_result":
                results.append(self._result(block, place))
            else:
                other_blocks.append(block)
        if self._open:
            raise _unanswered(message, self._open)
        if results:
            self._turns.append(Turn("tool", tool_results=tuple(results)))
        self._turns += user_turns(other_blocks, where, self._part, reading.dotted)

    def _part(self, block: Mapping[str, object], where: str) -> str | Image:
        kind = block["type"]
        if kind not in _OWN_BLOCKS and not _is_file(block):
            return _text_or_image(block, where)
        self._has_vendor_content = True
        self._untranslated.append(kind if kind in _OWN_BLOCKS else _FILE)
        return ""

    def _result(self, block: Mapping[str, object], where: str) -> ToolResult:
        call = reading.required(block, "tool_use_id", str, f"{where}.tool_use_id")
        if call not in self._open:
            raise BadRequest(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call[:100]}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message.",
                where,
            )
        content = block.get("content")
        blocks = [] if content is None else reading.blocks(content, f"{where}.content", place=reading.dotted)
        texts: list[str] = []
        images: list[Image] = []
        for index, part in enumerate(blocks):
            place = f"{where}.content.{index}"
            if part.get("type") in _OWN_RESULTS:
                self._untranslated.append(str(part["type"]))
                continue
            reading.choice(part.get("type"), ("text", "image"), f"{place}.type")
            if _is_file(part):
                self._untranslated.append(_FILE)
                continue
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

    def assistant(self, blocks: list[dict[str, object]], where: str, message: str) -> None:
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
            else:  # blocks of the vendor's own tools
                self._has_vendor_content = True
                name = reading.checked(kind, str, f"{place}.type")
                if name.endswith(("_tool_use", "_tool_result")):
                    self._left_out.append(f"messages.{name[:60]}")  # the text after it contains the outcome
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


_READERS = {"user": Messages.user, "assistant": Messages.assistant, "system": Messages.instruction}


def _thought(block: dict[str, object]) -> list[Thought]:
    payload = block.get("data") if block["type"] == "redacted_thinking" else block.get("signature")
    if not isinstance(payload, str) or not payload:
        return []  # no vendor accepts thinking without a signature
    if opaque.is_ours(payload):
        return [thought] if (thought := opaque.decode(payload)) else []
    return [Thought(WIRE, block)]


def _is_file(block: Mapping[str, object]) -> bool:
    """An image that was uploaded to the vendor. Only the vendor can read it."""
    source = block.get("source")
    if block["type"] != "image" or not isinstance(source, dict) or source.get("type") != "file":
        return False
    return bool(source.get("file_id"))


def _text_or_image(block: Mapping[str, object], where: str) -> str | Image:
    if block["type"] == "text":
        return reading.text(block.get("text"), f"{where}.text")
    source = reading.checked(block.get("source"), dict, f"{where}.source")
    kind = reading.choice(source.get("type"), ("base64", "url"), f"{where}.source.type")
    if kind == "url":
        url = reading.checked(source.get("url"), str, f"{where}.source.url")
        if not url.startswith(("https://", "http://")):
            raise BadRequest(f"{where}.source.url: only http and https URLs are supported", where)
        return Image("", b"", url=url)
    data = reading.checked(source.get("data"), str, f"{where}.source.data")
    media_type = reading.checked(source.get("media_type"), str, f"{where}.source.media_type")
    return reading.image(data, media_type, f"{where}.source.data")


def _unanswered(where: str, calls: Mapping[str, str]) -> BadRequest:
    return BadRequest(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(calls)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        where,
    )
