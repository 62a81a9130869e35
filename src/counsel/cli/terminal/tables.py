"""Tables that fit a terminal. The widest columns wrap first; the first column, which people copy, never wraps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest

_GAP = "  "
_MIN_SHORTENED = 8  # characters; a shortened column that is narrower says nothing
_MIN_WIDTH = 12  # characters; a wrapped column that is narrower is hard to read


def lines(
    columns: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, shortened: Sequence[str] = ()
) -> list[str]:
    """Aligned columns. Without a width (in a pipe), nothing wraps: a row is a line.

    `shortened`: columns that are cut with `…`, in this order, until a row fits on a line.
    """
    table = [[column.upper() for column in columns], *map(list, rows)]
    natural = [max(map(cells, column)) for column in zip(*table, strict=True)]
    if width is None:
        return [_join(row, natural) for row in table]
    if short_widths := _shorten(natural, [columns.index(name) for name in shortened], width):
        return [
            _join(
                [ellipsized(cell, size) for cell, size in zip(row, short_widths, strict=True)], short_widths
            )
            for row in table
        ]
    minimums = [max(_longest_word(cell) for cell in column) for column in zip(*table, strict=True)]
    if widths := _fit(natural, minimums, width):
        return [line for row in table for line in _wrap_row(row, widths)]
    # no space beside the first column: the others go below it, side by side or one below the other
    below = width - len(_GAP)
    if rest := _fit(natural[1:], minimums[1:], below, first=0):
        return [
            line
            for first, *other_cells in table
            for line in (first, *(_GAP + text for text in _wrap_row(other_cells, rest)))
        ]
    return [line for row in table[1:] for line in _record(table[0], row, below)]


def _shorten(natural: Sequence[int], columns: Sequence[int], width: int) -> list[int] | None:
    """Widths that fit; None if these columns would be too narrow to read."""
    widths = list(natural)
    for column in columns:
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        widths[column] = min(widths[column], max(_MIN_SHORTENED, widths[column] - max(0, excess)))
    fits = sum(widths) + len(_GAP) * (len(widths) - 1) <= width
    return widths if columns and fits else None


def ellipsized(text: str, width: int) -> str:
    """The text, or its first words and `…`."""
    if cells(text) <= width:
        return text
    prefix = ""
    for char in text:
        if cells(prefix) + cells(char) >= width:
            break
        prefix += char
    words = prefix.rpartition(" ")[0].rstrip() if not text[len(prefix)].isspace() else prefix.rstrip()
    return f"{words if cells(words) * 2 > width else prefix}…"


def _longest_word(text: str) -> int:
    return max(map(cells, text.split(" ")))


def _record(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """The first cell, and below it the other non-empty cells, each with its column's name."""
    names = max(map(cells, columns[1:]), default=0)
    rows = [row[0]]
    for column, cell in zip(columns[1:], row[1:], strict=True):
        if cell:
            head = f"{column.lower()}:{' ' * (names - cells(column))} "
            parts = fold(cell, max(_MIN_WIDTH, width - cells(head)))
            rows += [_GAP + (" " * cells(head) if index else head) + part for index, part in enumerate(parts)]
    return rows


def _fit(natural: Sequence[int], minimums: Sequence[int], width: int, first: int = 1) -> list[int] | None:
    """Widths that fit, narrowing the widest columns first; None if words would break or columns be too narrow."""
    widths = list(natural)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        foldable = [at for at in range(first, len(widths)) if widths[at] > max(_MIN_WIDTH, minimums[at])]
        if not foldable:
            return None
        widest = max(foldable, key=widths.__getitem__)
        narrower = [widths[at] for at in foldable if widths[at] < widths[widest]]
        floor = (
            max(*narrower, _MIN_WIDTH, minimums[widest]) if narrower else max(_MIN_WIDTH, minimums[widest])
        )
        reduction = max(1, min(excess, widths[widest] - floor))
        widths[widest] -= reduction
        excess -= reduction
    return widths


def _wrap_row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [_join(parts, widths) for parts in zip_longest(*columns, fillvalue="")]


def _join(row: Sequence[str], widths: Sequence[int]) -> str:
    parts = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
    return _GAP.join(parts).rstrip()


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken between words; a word that is longer is split."""
    if cells(text) <= width:
        return [text]
    rows = [""]
    for word in text.split(" "):
        if cells(rows[-1]) + 1 + cells(word) <= width and rows[-1]:
            rows[-1] += " " + word
            continue
        if rows[-1]:
            rows.append("")
        for char in word:
            if cells(rows[-1]) + cells(char) > width:
                rows.append("")
            rows[-1] += char
    return rows


def cells(text: str) -> int:
    """The number of terminal cells that a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Cf", "Me", "Mn"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
