"""Finds the function around a change by indentation, which is good enough in most languages and needs no parsers.

A diff is narrowed to some lines around each change, but a reviewer that sees half a function guesses the other half. So
a function or small class is sent as a whole, and the first line of a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

LONGEST = 150  # lines of a function that is sent as a whole
_FAR = 400  # lines to search for its beginning, since a data file has none
_TAB = 8

_NAMED = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|override|open|sealed|async|unsafe|virtual"
    r"|inline|extern|const|partial|data|suspend|pub(?:\([\w:]+\))?)\s+)*"
    r"(?:def|class|function\*?|func|fn|fun|sub|impl|trait|interface|struct|enum|record|module|namespace|object)\b"
).match
# `int f(int a) {`, `const f = (a) => {`, `int f(`
_BRACED = re.compile(r"\)[^(){}]*\{$|=>\s*\{$|\w\($").search
_HEADED = re.compile(r"\)[^(){};,]*$").search  # the same, with the brace in the next line
_CONTROL = re.compile(
    r"\}?\s*(?:if|else|elif|for|foreach|while|until|unless|switch|match|select|case|when|try|catch|except|finally|do|with"
    r"|using|lock|synchronized|return|guard|loop)\b"
).match
_ABOVE = ("@", "#", "//", "/*", "*", "[")  # how decorators and comments above a function begin
_NOTES = ("#", "//")  # comments and preprocessor conditions, whose indentation means nothing


def around_changes(lines: Sequence[str]) -> set[int]:
    """The indices of a hunk's lines that belong to the functions around its changes."""
    indices: set[int] = set()
    blocks: set[int] = set()
    for at, line in enumerate(lines):
        around = lines[max(0, at - 1) : at + 2]
        if (
            line[0] == " " or at in blocks or all(neighbour[0] != " " for neighbour in around)
        ):  # inside a run of changes
            continue
        for header in _headers(lines, at):
            indices.add(header)
            if len(block := _block(lines, header)) <= LONGEST:
                blocks.update(block)
    return indices | blocks


def _headers(lines: Sequence[str], at: int) -> Iterator[int]:
    """The first lines of the functions and classes around a line, from the inside out."""
    depth = _depth(lines, at)
    for number in range(at, max(-1, at - _FAR), -1):
        text = lines[number][1:].strip()
        if lines[number][0] == "-" or not text or text.startswith((*_NOTES, ")", "]", "}")):
            continue
        indent = _indent(lines[number])
        if indent >= depth and number != at:
            continue
        depth = min(depth, indent)
        if (header := _header(lines, number, text)) is not None:
            yield header
        if depth == 0:
            return


def _header(lines: Sequence[str], number: int, text: str) -> int | None:
    if text == "{" and number and not _CONTROL(before := lines[number - 1][1:].strip()):
        return number - 1 if _NAMED(before) or _HEADED(before) else None
    if _CONTROL(text):
        return None
    return number if _NAMED(text) or _BRACED(text) else None


def _block(lines: Sequence[str], header: int) -> range:
    """The lines of a function, from the comments above it to its last line."""
    depth, start, end = _indent(lines[header]), header, header + 1
    while start and lines[start - 1][1:].strip().startswith(_ABOVE):
        start -= 1
    for number in range(header + 1, min(len(lines), header + LONGEST + 1)):
        text = lines[number][1:].strip()
        if not text or lines[number][0] == "-" or text.startswith(_NOTES):
            continue
        if _indent(lines[number]) <= depth:
            if text.startswith((")", "]", "{")):  # the rest of its header
                end = number + 1
                continue
            closing = text.startswith("}") or text in {"end", "end;"}
            return range(start, number + 1 if closing else end)
        end = number + 1
    return range(start, end)


def _depth(lines: Sequence[str], at: int) -> int:
    """The indentation of a line, or of the next one that is not empty."""
    return next((_indent(line) for line in lines[at : at + 3] if line[1:].strip()), 0)


def _indent(line: str) -> int:
    text = line[1:].expandtabs(_TAB)
    return len(text) - len(text.lstrip())
