"""The exact diff of a planned write, comparing only the part that differs of up to 200,000 lines."""

from __future__ import annotations

import difflib

from counsel.configfiles.write.safewrite import PlannedWrite

_CONTEXT = 3


def unified(planned: PlannedWrite) -> str:
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


def _name(planned: PlannedWrite, data: bytes | None) -> str:
    return "/dev/null" if data is None else str(planned.path)


def _lines(data: bytes | None) -> list[str]:
    """Only a line feed ends a line: `str.splitlines` would also split at U+2028."""
    *lines, last = (data or b"").decode(errors="replace").split("\n")
    return [f"{line}\n" for line in lines] + ([_ended(last)] if last else [])


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _equal(first: list[str], second: list[str]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


def _shifted(line: str, start: int) -> str:
    """The hunk's line numbers counted in the whole file."""
    if not line.startswith("@@ "):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ {_moved(old, start)} {_moved(new, start)} @@\n"


def _moved(span: str, start: int) -> str:
    first, comma, count = span[1:].partition(",")
    shift = start if int(first) or start else 0
    return f"{span[0]}{int(first) + shift}{comma}{count}"
