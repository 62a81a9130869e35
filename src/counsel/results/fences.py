"""Markdown's blocks of code: a heading inside of one is none, and one that is left open swallows what follows it.

An answer that ends at its limit often ends inside of such a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)").match


def lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, _behind(line, fence)
        yield line, bool(before or fence)


def closed(text: str) -> str:
    """The text with the end of its last block of code, if that is missing."""
    fence = ""
    for line in text.split("\n"):
        fence = _behind(line, fence)
    return f"{text}\n{fence}" if fence else text


def _behind(line: str, fence: str) -> str:
    """The fence that is open behind a line; `fence`: before it."""
    match = _FENCE(line)
    if match is None:
        return fence
    mark, rest = match[1], match[2].strip()
    if not fence:
        return "" if mark[0] == "`" and "`" in rest else mark  # code within a line
    return "" if mark.startswith(fence) and not rest else fence
