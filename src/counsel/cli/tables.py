"""Tables that fit a terminal. The widest columns wrap first; the first column, which people copy, never wraps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest

_GAP = "  "
_MIN_SHORTENED = 8  # characters of a shortened column that still says something
_MIN_WIDTH = 12  # characters of a wrapped column that is still readable


def lines(
    columns: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, shortened: Sequence[str] = ()
) -> list[str]:
    """Aligned columns. Without a width (in a pipe) nothing wraps: a row is a line.

    `shortened`: columns that end in `…` where they do not fit, the first of them first, so that a row stays a line.
    """
    table = [[column.upper() for column in columns], *map(list, rows)]
    natural = [max(map(cells, column)) for column in zip(*table, strict=True)]
    if width is None:
        return [_joined(row, natural) for row in table]
    if short := _shortened(natural, [columns.index(name) for name in shortened], width):
        return [
            _joined([ended(cell, size) for cell, size in zip(row, short, strict=True)], short)
            for row in table
        ]
    least = [max(_longest_word(cell) for cell in column) for column in zip(*table, strict=True)]
    if fitted := _fitted(natural, least, width):
        return [line for row in table for line in _folded(row, fitted)]
    # no space beside the first column: the others are below it, side by side or one below the other
    below = width - len(_GAP)
    if rest := _fitted(natural[1:], least[1:], below, first=0):
        return [
            line
            for first, *others in table
            for line in (first, *(_GAP + text for text in _folded(others, rest)))
        ]
    return [line for row in table[1:] for line in _record(table[0], row, below)]


def _shortened(natural: Sequence[int], columns: Sequence[int], width: int) -> list[int] | None:
    """Widths that fit; None if these columns would be too narrow to read."""
    widths = list(natural)
    for column in columns:
        over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        widths[column] = min(widths[column], max(_MIN_SHORTENED, widths[column] - max(0, over)))
    fits = sum(widths) + len(_GAP) * (len(widths) - 1) <= width
    return widths if columns and fits else None


def ended(text: str, width: int) -> str:
    """The text, or its first words and `…`."""
    if cells(text) <= width:
        return text
    kept = ""
    for char in text:
        if cells(kept) + cells(char) >= width:
            break
        kept += char
    words = kept.rpartition(" ")[0].rstrip() if not text[len(kept)].isspace() else kept.rstrip()
    return f"{words if cells(words) * 2 > width else kept}…"


def _longest_word(text: str) -> int:
    return max(map(cells, text.split(" ")))


def _record(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """The first cell, and below it the others that are not empty, each with its column's name."""
    names = max(map(cells, columns[1:]), default=0)
    shown = [row[0]]
    for column, cell in zip(columns[1:], row[1:], strict=True):
        if cell:
            head = f"{column.lower()}:{' ' * (names - cells(column))} "
            parts = fold(cell, max(_MIN_WIDTH, width - cells(head)))
            shown += [
                _GAP + (" " * cells(head) if index else head) + part for index, part in enumerate(parts)
            ]
    return shown


def _fitted(natural: Sequence[int], least: Sequence[int], width: int, first: int = 1) -> list[int] | None:
    """Widths that fit, taken from the widest columns; None if words would be broken, or be too narrow to read."""
    widths = list(natural)
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        foldable = [at for at in range(first, len(widths)) if widths[at] > max(_MIN_WIDTH, least[at])]
        if not foldable:
            return None
        widest = max(foldable, key=widths.__getitem__)
        others = [widths[at] for at in foldable if widths[at] < widths[widest]]
        floor = max(*others, _MIN_WIDTH, least[widest]) if others else max(_MIN_WIDTH, least[widest])
        cut = max(1, min(over, widths[widest] - floor))
        widths[widest] -= cut
        over -= cut
    return widths


def _folded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [_joined(parts, widths) for parts in zip_longest(*columns, fillvalue="")]


def _joined(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
    return _GAP.join(padded).rstrip()


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken between words; a longer word is broken inside."""
    if cells(text) <= width:
        return [text]
    folded = [""]
    for word in text.split(" "):
        if cells(folded[-1]) + 1 + cells(word) <= width and folded[-1]:
            folded[-1] += " " + word
            continue
        if folded[-1]:
            folded.append("")
        for char in word:
            if cells(folded[-1]) + cells(char) > width:
                folded.append("")
            folded[-1] += char
    return folded


def cells(text: str) -> int:
    """How many cells a text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Cf", "Me", "Mn"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
