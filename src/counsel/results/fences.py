"""Markdown's code blocks: they contain no headings, and an unclosed block would include all text that follows it.

An answer that was cut at its limit often ends inside a code block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)").match


def lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a code block."""
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, _fence_after(line, fence)
        yield line, bool(before or fence)


def closed(text: str) -> str:
    """The text with its last code block closed."""
    fence = ""
    for line in text.split("\n"):
        fence = _fence_after(line, fence)
    return f"{text}\n{fence}" if fence else text


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after a line; `fence` is the one before it."""
    match = _FENCE(line)
    if match is None:
        return fence
    mark, rest = match[1], match[2].strip()
    if not fence:
        return "" if mark[0] == "`" and "`" in rest else mark  # inline code is no fence
    return "" if mark.startswith(fence) and not rest else fence
