"""The parts of a completion's answer, in the order in which the model gave them; documents as they are stored and sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias, TypedDict

from counsel import json_reader as read


class TextPart(TypedDict):
    type: Literal["text"]
    text: str
    wire: NotRequired[str]  # of a vendor's own search, as are the next two
    citations: NotRequired[list[dict[str, object]]]
    length: NotRequired[int]  # characters of the vendor's block that they count in
    phase: NotRequired[str]  # OpenAI's: `commentary` or `final_answer`


class ThinkingPart(TypedDict):
    type: Literal["thinking"]
    text: NotRequired[str]  # an event of a stream has none: its text was sent before
    wire: NotRequired[str]
    item: NotRequired[dict[str, object]]  # the vendor's own block, if it must be sent back


class ToolCallPart(TypedDict):
    type: Literal["tool_call"]
    id: str
    name: str
    arguments: dict[str, object]
    namespace: NotRequired[str]  # in which the vendor has the tool


class VendorPart(TypedDict):
    """What the vendor's own tools did."""

    type: Literal["vendor"]
    wire: str
    item: dict[str, object]


AnswerPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | VendorPart


def from_json(shown: Mapping[str, object]) -> AnswerPart:
    """A kind that this release does not know reads as a tool of a vendor that nobody has."""
    kind = shown.get("type")
    if kind == "text":
        return _text(shown)
    if kind == "thinking":
        return _thinking(shown)
    if kind == "tool_call":
        return _tool_call(shown)
    return {"type": "vendor", "wire": read.text(shown, "wire"), "item": read.part(shown, "item")}


def _text(shown: Mapping[str, object]) -> TextPart:
    part: TextPart = {"type": "text", "text": read.text(shown, "text")}
    if "citations" in shown:
        part["wire"] = read.text(shown, "wire")
        part["citations"] = read.parts(shown, "citations")
        part["length"] = read.integer(shown, "length")
        if phase := read.text(shown, "phase"):
            part["phase"] = phase
    return part


def _thinking(shown: Mapping[str, object]) -> ThinkingPart:
    part: ThinkingPart = {"type": "thinking"}
    if "text" in shown:
        part["text"] = read.text(shown, "text")
    if "item" in shown:
        part["wire"] = read.text(shown, "wire")
        part["item"] = read.part(shown, "item")
    return part


def _tool_call(shown: Mapping[str, object]) -> ToolCallPart:
    part: ToolCallPart = {
        "type": "tool_call",
        "id": read.text(shown, "id"),
        "name": read.text(shown, "name"),
        "arguments": read.part(shown, "arguments"),
    }
    if namespace := read.text(shown, "namespace"):
        part["namespace"] = namespace
    return part
