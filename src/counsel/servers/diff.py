"""The exact diff of a planned write; of up to 200,000 lines only the part that differs is compared."""

from __future__ import annotations

import difflib

from counsel.configfiles.write.safewrite import PlannedWrite

_CONTEXT = 3


def unified(write: PlannedWrite) -> str:
    """A unified diff; empty when nothing changes."""
    if not write.changes:
        return ""
    before = _lines(write.before)
    after = _lines(write.after)
    head = _equal(before, after)
    tail = min(_equal(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    start = max(0, head - _CONTEXT)
    old = before[start : len(before) - max(0, tail - _CONTEXT)]
    new = after[start : len(after) - max(0, tail - _CONTEXT)]
    lines = difflib.unified_diff(old, new, _name(write, write.before), _name(write, write.after), n=_CONTEXT)
    return "".join(_shifted(line, start) for line in lines)


def _name(write: PlannedWrite, data: bytes | None) -> str:
    return "/dev/null" if data is None else str(write.path)


def _lines(data: bytes | None) -> list[str]:
    """Split at line feeds only: `str.splitlines` would also split at U+2028."""
    *lines, last = (data or b"").decode(errors="replace").split("\n")
    return [f"{line}\n" for line in lines] + ([_with_end_note(last)] if last else [])


def _with_end_note(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _equal(first: list[str], second: list[str]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


def _shifted(line: str, start: int) -> str:
    """A line of the diff; line numbers of hunks are those of the whole file."""
    if not line.startswith("@@ "):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ {_shifted_span(old, start)} {_shifted_span(new, start)} @@\n"


def _shifted_span(span: str, start: int) -> str:
    first, comma, count = span[1:].partition(",")
    shift = start if int(first) or start else 0
    return f"{span[0]}{int(first) + shift}{comma}{count}"
