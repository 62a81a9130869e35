"""Builds a completion's answer from its events: a list of parts, in the model's order."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Literal

from counsel import json_reader as read
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart, VendorPart
from counsel.types import Thought, ToolCall, ToolInput, VendorBlock

# Ids that wires assign for vendors that send none. They are counted from the beginning in every answer.
_COUNTED_ID = re.compile(r"(?:gemini_)?call_\d+").fullmatch


class Parts:
    def __init__(self) -> None:
        self._parts: list[AnswerPart] = []
        self._pieces: list[str] = []  # pieces of the last part's text
        self._suffix = ""

    def text(self, delta: str) -> None:
        self._add("text", delta)

    def thinking(self, delta: str) -> None:
        self._add("thinking", delta)

    def thought(self, thought: Thought) -> ThinkingPart:
        """Add the vendor's block of thinking. Most follow their text; those of Chat Completions end the answer."""
        self._flush()
        item = self._with_unique_call(thought.item)
        unsigned_parts = [part for part in self._parts if part["type"] == "thinking" and "item" not in part]
        if unsigned_parts and thought.wire != "gemini":
            unsigned_parts[-1]["wire"], unsigned_parts[-1]["item"] = thought.wire, item
        else:
            self._parts.append({"type": "thinking", "text": "", "wire": thought.wire, "item": item})
        return {"type": "thinking", "wire": thought.wire, "item": item}

    def call(self, call: ToolCall) -> ToolCallPart:
        self._flush()
        part: ToolCallPart = {
            "type": "tool_call",
            "id": self._unique(call.id),
            "name": call.name,
            "arguments": call.arguments,
        }
        if call.namespace:
            part["namespace"] = call.namespace
        self._parts.append(part)
        return part

    def input(self, piece: ToolInput) -> ToolInput:
        """The piece with the id that the whole call will have."""
        is_own = piece.item is None  # a vendor's own kind of call keeps the vendor's id
        return replace(piece, id=self._unique(piece.id)) if is_own and _COUNTED_ID(piece.id) else piece

    def vendor(self, block: VendorBlock) -> VendorPart:
        self._flush()
        part: VendorPart = {"type": "vendor", "wire": block.wire, "item": block.item}
        last = self._parts[-1] if self._parts else None
        if block.item["type"] != "citations":
            self._parts.append(part)
        elif last is not None and last["type"] == "text":
            last["wire"] = block.wire
            last["citations"] = read.parts(block.item, "citations")
            last["length"] = read.integer(block.item, "length")
            if phase := read.text(block.item, "phase"):
                last["phase"] = phase
        return part

    @property
    def has_calls(self) -> bool:
        return any(part["type"] in {"tool_call", "vendor"} for part in self._parts)

    def all(self) -> tuple[AnswerPart, ...]:
        self._flush()
        return tuple(self._parts)

    def _unique(self, call_id: str) -> str:
        """A unique id for a call: a client sends all turns back, and their calls must have different ids."""
        if not _COUNTED_ID(call_id):
            return call_id
        self._suffix = self._suffix or secrets.token_hex(6)
        return f"{call_id}_{self._suffix}"

    def _with_unique_call(self, item: dict[str, object]) -> dict[str, object]:
        """The item with the unique id of its call, which Gemini's signatures name."""
        call = item.get("call")
        return {**item, "call": self._unique(call)} if isinstance(call, str) else item

    def _add(self, kind: Literal["text", "thinking"], delta: str) -> None:
        last = self._parts[-1] if self._parts else None
        if last is None or last["type"] != kind or "wire" in last:
            self._flush()
            self._parts.append(
                {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "text": ""}
            )
        self._pieces.append(delta)

    def _flush(self) -> None:
        if self._pieces:
            last = self._parts[-1]
            if last["type"] == "text" or last["type"] == "thinking":
                last["text"] = f"{last.get('text', '')}{''.join(self._pieces)}"
            self._pieces = []
