"""Reads fields of a request's body: checks types and ranges, and words errors as the vendors' APIs do."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias, TypeVar, overload

from counsel.engine.context.images import kind
from counsel.errors import InvalidArgument
from counsel.http.v1.errors import BadRequest
from counsel.text import is_encodable, without_surrogates
from counsel.types import Image

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII | re.IGNORECASE).match
_ALIASES = {"image/jpg": "image/jpeg"}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_.:/-]+").fullmatch
LONGEST_TOOL_NAME = 128
MOST_TOOLS = 1_024
_TYPES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
}


Value = TypeVar("Value")
Name = TypeVar("Name", bound=str)


@overload
def checked(value: object, expected: type[dict[str, object]], where: str) -> dict[str, object]: ...
@overload
def checked(value: object, expected: type[list[object]], where: str) -> list[object]: ...
@overload
def checked(value: object, expected: type[Value], where: str) -> Value: ...
def checked(value: object, expected: type, where: str) -> object:
    """Return the value if it has this type; `bool` does not count as a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {float: is_number, int: is_number and isinstance(value, int)}.get(expected)
    if not (isinstance(value, expected) if fits is None else fits):
        raise BadRequest(f"Invalid type for '{where}': expected {_TYPES[expected]}.", where, "invalid_type")
    return value


@overload
def optional(
    body: Mapping[str, object], name: str, expected: type[dict[str, object]], where: str = ""
) -> dict[str, object] | None: ...
@overload
def optional(
    body: Mapping[str, object], name: str, expected: type[list[object]], where: str = ""
) -> list[object] | None: ...
@overload
def optional(
    body: Mapping[str, object], name: str, expected: type[Value], where: str = ""
) -> Value | None: ...
def optional(body: Mapping[str, object], name: str, expected: type, where: str = "") -> object:
    """The field's value; None if it is missing or null."""
    value = body.get(name)
    return None if value is None else checked(value, expected, where or name)


@overload
def required(
    body: Mapping[str, object], name: str, expected: type[dict[str, object]], where: str = ""
) -> dict[str, object]: ...
@overload
def required(
    body: Mapping[str, object], name: str, expected: type[list[object]], where: str = ""
) -> list[object]: ...
@overload
def required(body: Mapping[str, object], name: str, expected: type[Value], where: str = "") -> Value: ...
def required(body: Mapping[str, object], name: str, expected: type, where: str = "") -> object:
    if body.get(name) is None:
        raise _missing(where or name)
    return checked(body[name], expected, where or name)


def number(body: Mapping[str, object], name: str, low: float, high: float) -> float | None:
    value = optional(body, name, float)
    if value is not None and not low <= value <= high:
        raise BadRequest(f"'{name}' must be from {low:g} to {high:g}, not {value:g}.", name, "invalid_value")
    return value


def count(body: Mapping[str, object], name: str, low: int = 1) -> int | None:
    value = optional(body, name, int)
    if value is not None and value < low:
        raise BadRequest(f"'{name}' must be at least {low}, not {value}.", name, "integer_below_min_value")
    return value


def choice(value: object, values: Collection[Name], where: str) -> Name:
    for name in values:
        if name == value:
            return name
    names = ", ".join(f"'{name}'" for name in values)
    if value is None:
        raise _missing(where, f" Supported values are: {names}.")
    if not isinstance(value, str):
        raise BadRequest(f"Invalid type for '{where}': expected one of {names}.", where, "invalid_type")
    raise BadRequest(
        f"Invalid value: '{value[:100]}'. Supported values are: {names}.", where, "invalid_value"
    )


def _missing(where: str, more: str = "") -> BadRequest:
    return BadRequest(f"Missing required parameter: '{where}'.{more}", where, "missing_required_parameter")


def text(value: object, where: str) -> str:
    string = checked(value, str, where)
    return string if is_encodable(string) else without_surrogates(string)


Place: TypeAlias = Callable[[str, int], str]


def in_brackets(where: str, index: int) -> str:
    """An entry's name in OpenAI's errors."""
    return f"{where}[{index}]"


def dotted(where: str, index: int) -> str:
    """An entry's name in Anthropic's errors."""
    return f"{where}.{index}"


def objects(values: object, where: str, place: Place = in_brackets) -> list[dict[str, object]]:
    return [checked(row, dict, place(where, index)) for index, row in enumerate(checked(values, list, where))]


def rows(
    body: Mapping[str, object], name: str, where: str = "", place: Place = in_brackets
) -> list[dict[str, object]]:
    """A list of objects that may be missing or null."""
    value = body.get(name)
    return [] if value is None else objects(value, where or name, place)


def blocks(
    content: object, where: str, kind: str = "text", place: Place = in_brackets
) -> list[dict[str, object]]:
    """A message's content as blocks: a string becomes one block of type `kind`."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    if not isinstance(content, list):
        message = f"Invalid type for '{where}': expected a string or an array of objects."
        raise BadRequest(message, where, "invalid_type")
    return objects(content, where, place)


def check_types(body: Mapping[str, object], fields: Mapping[str, type], within: str = "") -> None:
    """Check the types of fields that are not used here: the vendors refuse wrong ones."""
    for name, expected in fields.items():
        optional(body, name, expected, f"{within}{name}")


def check_metadata(body: Mapping[str, object]) -> None:
    """Check OpenAI's `metadata`: names with strings."""
    for name, value in (optional(body, "metadata", dict) or {}).items():
        checked(value, str, f"metadata.{name[:60]}")


def check_names(body: Mapping[str, object], fields: Collection[str], message: str) -> None:
    """Refuse unknown fields. `message` is the API's own wording, with a placeholder for the field's name."""
    for name in body:
        if name not in fields:
            raise BadRequest(message.format(name[:100]), name[:100], "unknown_parameter")


def check_supported(
    body: Mapping[str, object], reasons: Mapping[str, str], never_neutral: Collection[str] = ()
) -> None:
    """Refuse fields whose effect is not available here. Neutral values are accepted, except in `never_neutral`."""
    for name, reason in reasons.items():
        value = body.get(name)
        if value is not None and (name in never_neutral or value not in (False, [], {})):
            raise BadRequest(f"'{name}' is not supported: {reason}.", name, "unsupported_parameter")


def data_url(url: str, where: str) -> Image:
    """The image of a URL. Addresses on the web are passed on to the vendor: this process fetches nothing."""
    if url.startswith(("https://", "http://")):
        return Image("", b"", url=url)
    match = _DATA_URL(url[:100])
    if match is None:
        raise BadRequest(
            f"'{where}' must be an https URL or data:image/…;base64,…", where, "invalid_image_url"
        )
    return image(url[match.end() :], match[1], where)


def image(payload: str, media_type: str, where: str) -> Image:
    try:
        data = base64.b64decode(payload, validate=True)
        actual, _ = kind(data, where)
    except (binascii.Error, ValueError):
        raise BadRequest(f"'{where}' is not valid base64.", where, "invalid_base64") from None
    except InvalidArgument:
        raise BadRequest(
            f"'{where}' is not a PNG, JPEG, GIF or WEBP image.", where, "invalid_image_format"
        ) from None
    declared_type = _ALIASES.get(media_type.lower(), media_type.lower())
    if declared_type != actual:
        raise BadRequest(
            f"'{where}' is declared as {declared_type} but contains {actual}.", where, "invalid_image"
        )
    return Image(actual, data)


def tool_name(value: object, where: str) -> str:
    name = text(value, where)
    if len(name) > LONGEST_TOOL_NAME or not _TOOL_NAME(name):
        raise BadRequest(
            f"'{where}' must match '^[a-zA-Z0-9_-]+$', with at most {LONGEST_TOOL_NAME} characters.",
            where,
            "invalid_value",
        )
    return name
