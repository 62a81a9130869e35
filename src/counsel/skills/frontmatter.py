"""Read a SKILL.md as leniently as possible, independently of any agent: for `show`, `check` and search.

How a particular agent reads the file is in that agent's module (`agents/*/skills.py`).
"""

from __future__ import annotations

import re

from counsel.configfiles.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError, node_text
from counsel.configfiles.yaml.read import parse
from counsel.lazy_dataclass import dataclass

LENIENT = Dialect(tabs=True, controls=True, comma_starts=True, loose_quotes=True)
_LINE = re.compile(r"[ \t]*([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*)|)$")
_CLOSING = re.compile(r"^---[ \t]*$|^\.\.\.[ \t]*$", re.MULTILINE)
_MAX_HEADER = 262_144  # characters of the header


@dataclass(frozen=True, slots=True)
class Frontmatter:
    fields: dict[str, Node]
    body: str
    remarks: tuple[str, ...] = ()  # codes: bom, crlf, none, unclosed, broken
    present: bool = True

    def text(self, key: str) -> str:
        """A field as one string; lists are joined with commas."""
        return node_text(self.fields.get(key))

    def list(self, key: str) -> tuple[str, ...]:
        """A field that is a list, or a string separated by commas or spaces outside brackets."""
        node = self.fields.get(key)
        if isinstance(node, list):
            return tuple(node_text(item) for item in node)
        return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", node_text(node)))


def read(text: str) -> Frontmatter:
    """Read the text; never raises: in the worst case the whole text is the body."""
    remarks: list[str] = []
    if text.startswith("\ufeff"):
        text = text[1:]
        remarks.append("bom")
    if "\r" in text:
        remarks.append("crlf")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    opening = re.match(r"\s*---[ \t]*\n", text)
    if not opening:
        return Frontmatter({}, text, (*remarks, "none"), present=False)
    header, body = _split(text[opening.end() :], remarks)
    return Frontmatter(_fields(header, remarks), body, tuple(remarks))


def _split(rest: str, remarks: list[str]) -> tuple[str, str]:
    if closing := _CLOSING.search(rest):
        return rest[: closing.start()], rest[closing.end() :].removeprefix("\n")
    remarks.append("unclosed")
    header: list[str] = []
    for line in rest.split("\n"):  # lines that look like `key: value`
        if not _LINE.match(line) and not line.startswith((" ", "\t", "#")):
            break
        header.append(line)
    return "\n".join(header), "\n".join(rest.split("\n")[len(header) :])


def _fields(header: str, remarks: list[str]) -> dict[str, Node]:
    try:
        node = parse(header[:_MAX_HEADER], LENIENT)
    except YamlError:
        remarks.append("broken")
        return _lines(header)
    if isinstance(node, Mapping):
        return node.items
    if header.strip():
        remarks.append("broken")
    return _lines(header)


def _lines(header: str) -> dict[str, Node]:
    """The fields of a header that is not YAML: `key: value` line by line; deeper lines continue the value above."""
    fields: dict[str, Node] = {}
    key = ""
    for line in header.split("\n"):
        pair = _LINE.match(line) if not key or not line.startswith((" ", "\t")) else None
        if pair:
            key = pair[1]
            fields[key] = Scalar(_unquoted((pair[2] or "").strip()), plain=False)
        elif key and line.strip():
            value = node_text(fields[key])
            fields[key] = Scalar(f"{value} {line.strip()}".strip(), plain=False)
    return fields


def _unquoted(value: str) -> str:
    if value in {"|", ">", "|-", ">-", "|+", ">+"}:
        return ""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
