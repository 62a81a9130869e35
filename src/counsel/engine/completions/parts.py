"""Makes a completion's answer from its events: a list of parts, in the order in which the model gave them."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Literal

from counsel import json_reader as read
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart, VendorPart
from counsel.types import Thought, ToolCall, ToolInput, VendorBlock

# Ids that wires count for vendors that send none, in every answer from the beginning.
_COUNTED = re.compile(r"(?:gemini_)?call_\d+").fullmatch


class Parts:
    def __init__(self) -> None:
        self._parts: list[AnswerPart] = []
        self._pieces: list[str] = []  # of the last part's text
        self._suffix = ""

    def text(self, delta: str) -> None:
        self._add("text", delta)

    def thinking(self, delta: str) -> None:
        self._add("thinking", delta)

    def thought(self, thought: Thought) -> ThinkingPart:
        """The vendor's block. Most arrive behind their text, those of Chat Completions at the end of the answer."""
        self._settle()
        item = self._renamed(thought.item)
        unsigned = [part for part in self._parts if part["type"] == "thinking" and "item" not in part]
        if unsigned and thought.wire != "gemini":
            unsigned[-1]["wire"], unsigned[-1]["item"] = thought.wire, item
        else:
            self._parts.append({"type": "thinking", "text": "", "wire": thought.wire, "item": item})
        return {"type": "thinking", "wire": thought.wire, "item": item}

    def call(self, call: ToolCall) -> ToolCallPart:
        self._settle()
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
        """With the id that the whole call will have."""
        is_own = piece.item is None  # a vendor's own kind of call keeps the vendor's id
        return replace(piece, id=self._unique(piece.id)) if is_own and _COUNTED(piece.id) else piece

    def vendor(self, block: VendorBlock) -> VendorPart:
        self._settle()
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
        self._settle()
        return tuple(self._parts)

    def _unique(self, call_id: str) -> str:
        """A client sends all turns back: their calls need different ids."""
        if not _COUNTED(call_id):
            return call_id
        self._suffix = self._suffix or secrets.token_hex(6)
        return f"{call_id}_{self._suffix}"

    def _renamed(self, item: dict[str, object]) -> dict[str, object]:
        """Gemini's signature names the call that it belongs to."""
        call = item.get("call")
        return {**item, "call": self._unique(call)} if isinstance(call, str) else item

    def _add(self, kind: Literal["text", "thinking"], delta: str) -> None:
        last = self._parts[-1] if self._parts else None
        if last is None or last["type"] != kind or "wire" in last:
            self._settle()
            self._parts.append(
                {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "text": ""}
            )
        self._pieces.append(delta)

    def _settle(self) -> None:
        if self._pieces:
            last = self._parts[-1]
            if last["type"] == "text" or last["type"] == "thinking":
                last["text"] = f"{last.get('text', '')}{''.join(self._pieces)}"
            self._pieces = []
