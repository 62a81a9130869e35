"""The exact diff of a planned write, without comparing 200,000 lines that are equal anyway."""

from __future__ import annotations

import difflib

from counsel.configfiles.write.safewrite import Planned

_CONTEXT = 3


def unified(planned: Planned) -> str:
    """A unified diff; empty when nothing changes."""
    if not planned.changes:
        return ""
    before = _lines(planned.before)
    after = _lines(planned.after)
    head = _equal(before, after)
    tail = min(_equal(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    start = max(0, head - _CONTEXT)
    old = before[start : len(before) - max(0, tail - _CONTEXT)]
    new = after[start : len(after) - max(0, tail - _CONTEXT)]
    lines = difflib.unified_diff(
        old, new, _name(planned, planned.before), _name(planned, planned.after), n=_CONTEXT
    )
    return "".join(_shifted(line, start) for line in lines)


def _name(planned: Planned, data: bytes | None) -> str:
    return "/dev/null" if data is None else str(planned.path)


def _lines(data: bytes | None) -> list[str]:
    """Only a line feed ends a line here: `str.splitlines` would end one at U+2028, too."""
    *lines, last = (data or b"").decode(errors="replace").split("\n")
    return [f"{line}\n" for line in lines] + ([_ended(last)] if last else [])


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _equal(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _shifted(line: str, start: int) -> str:
    """A hunk's line numbers are those of the whole file."""
    if not line.startswith("@@ "):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ {_moved(old, start)} {_moved(new, start)} @@\n"


def _moved(place: str, start: int) -> str:
    first, comma, count = place[1:].partition(",")
    shift = start if int(first) or start else 0
    return f"{place[0]}{int(first) + shift}{comma}{count}"
