"""The parts of a completion's answer, in the model's order, as documents that are stored and sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias, TypedDict

from counsel import json_reader as read


class TextPart(TypedDict):
    type: Literal["text"]
    text: str
    wire: NotRequired[str]  # this and the next two: only of an answer with the vendor's own search
    citations: NotRequired[list[dict[str, object]]]
    length: NotRequired[int]  # characters of the vendor's block to which the citations' offsets refer
    phase: NotRequired[str]  # OpenAI's: `commentary` or `final_answer`


class ThinkingPart(TypedDict):
    type: Literal["thinking"]
    text: NotRequired[str]  # missing in a stream's event, because the text was sent before
    wire: NotRequired[str]
    item: NotRequired[dict[str, object]]  # the vendor's own block, if it must be sent back


class ToolCallPart(TypedDict):
    type: Literal["tool_call"]
    id: str
    name: str
    arguments: dict[str, object]
    namespace: NotRequired[str]  # the vendor's namespace of the tool


class VendorPart(TypedDict):
    """A block about what the vendor's own tools did."""

    type: Literal["vendor"]
    wire: str
    item: dict[str, object]


AnswerPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | VendorPart


def from_json(document: Mapping[str, object]) -> AnswerPart:
    """The part that a document describes. A kind that only another release knows becomes an unusable `VendorPart`."""
    kind = document.get("type")
    if kind == "text":
        return _text(document)
    if kind == "thinking":
        return _thinking(document)
    if kind == "tool_call":
        return _tool_call(document)
    return {"type": "vendor", "wire": read.text(document, "wire"), "item": read.part(document, "item")}


def _text(document: Mapping[str, object]) -> TextPart:
    part: TextPart = {"type": "text", "text": read.text(document, "text")}
    if "citations" in document:
        part["wire"] = read.text(document, "wire")
        part["citations"] = read.parts(document, "citations")
        part["length"] = read.integer(document, "length")
        if phase := read.text(document, "phase"):
            part["phase"] = phase
    return part


def _thinking(document: Mapping[str, object]) -> ThinkingPart:
    part: ThinkingPart = {"type": "thinking"}
    if "text" in document:
        part["text"] = read.text(document, "text")
    if "item" in document:
        part["wire"] = read.text(document, "wire")
        part["item"] = read.part(document, "item")
    return part


def _tool_call(document: Mapping[str, object]) -> ToolCallPart:
    part: ToolCallPart = {
        "type": "tool_call",
        "id": read.text(document, "id"),
        "name": read.text(document, "name"),
        "arguments": read.part(document, "arguments"),
    }
    if namespace := read.text(document, "namespace"):
        part["namespace"] = namespace
    return part
