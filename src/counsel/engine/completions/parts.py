"""A completion's answer as a list of parts, in the order in which the model gave them.

{"type": "thinking", "text": …, "wire": …, "item": …}   `item`: the vendor's own block, if it must be sent back
{"type": "text", "text": …}                             `wire`, `citations`, `length`: of a vendor's own search
{"type": "tool_call", "id": …, "name": …, "arguments": {…}}   `namespace`: in which the vendor has the tool
{"type": "vendor", "wire": …, "item": …}                what the vendor's own tools did
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace

from counsel.types import Json, Thought, ToolCall, ToolInput, VendorBlock

# Ids that wires count for vendors that send none, in every answer from the beginning.
_COUNTED = re.compile(r"(?:gemini_)?call_\d+").fullmatch


class Parts:
    def __init__(self) -> None:
        self._parts: list[dict[str, object]] = []
        self._pieces: list[str] = []  # of the last part's text
        self._suffix = ""

    def text(self, delta: str) -> None:
        self._add("text", delta)

    def thinking(self, delta: str) -> None:
        self._add("thinking", delta)

    def thought(self, thought: Thought) -> dict[str, object]:
        """The vendor's block. Most arrive behind their text, those of Chat Completions at the end of the answer."""
        self._settle()
        about = {"wire": thought.wire, "item": self._renamed(thought.item)}
        unsigned = [part for part in self._parts if part["type"] == "thinking" and "item" not in part]
        if unsigned and thought.wire != "gemini":
            unsigned[-1].update(about)
        else:
            self._parts.append({"type": "thinking", "text": "", **about})
        return {"type": "thinking", **about}

    def call(self, call: ToolCall) -> Json:
        self._settle()
        part: dict[str, object] = {
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

    def vendor(self, block: VendorBlock) -> dict[str, object]:
        self._settle()
        part: dict[str, object] = {"type": "vendor", "wire": block.wire, "item": block.item}
        if block.item["type"] != "citations":
            self._parts.append(part)
        elif self._parts and self._parts[-1]["type"] == "text":
            about = {name: value for name, value in block.item.items() if name != "type"}
            self._parts[-1].update({"wire": block.wire, **about})
        return part

    @property
    def has_calls(self) -> bool:
        return any(part["type"] in {"tool_call", "vendor"} for part in self._parts)

    def all(self) -> tuple[dict[str, object], ...]:
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

    def _add(self, kind: str, delta: str) -> None:
        last = self._parts[-1] if self._parts else None
        if last is None or last["type"] != kind or "wire" in last:
            self._settle()
            self._parts.append({"type": kind, "text": ""})
        self._pieces.append(delta)

    def _settle(self) -> None:
        if self._pieces:
            last = self._parts[-1]
            last["text"] = f"{last['text']}{''.join(self._pieces)}"
            self._pieces = []
