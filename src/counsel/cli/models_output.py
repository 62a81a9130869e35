"""The output of `counsel models`: on a terminal, models grouped by provider, one per line; in a pipe, one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from counsel.cli.terminal import output
from counsel.cli.terminal.tables import cells
from counsel.models import prices
from counsel.models.catalog import ModelRow

# the letter of each ability, and its meaning
MARKS = {
    "vision": ("i", "images"),
    "web_search": ("w", "web search"),
    "tools": ("t", "tools"),
    "efforts": ("e", "effort levels"),
}
_PIPE_COLUMNS = (
    "model",
    "provider",
    "available",
    "context",
    "output",
    "$ in / out",
    "abilities",
    "superseded by",
    "aliases",
)
_WIDE = 110  # columns that a terminal needs to show aliases beside each model
_BESIDE = 46  # columns reserved beside a name; a longer name shifts only its own line
_LEGEND = (
    f"{', '.join(f'{letter} {meaning}' for letter, meaning in MARKS.values())}; → superseded by",
    "Prices are per million tokens of input and of output.",
)


def show(
    rows: Sequence[ModelRow], labels: Mapping[str, str], *, aliases: Mapping[str, str], hidden_count: int
) -> None:
    """Print the models. `aliases` are listed below them."""
    width = output.width()
    if width is None:
        output.table(_PIPE_COLUMNS, [_pipe_cells(row) for row in rows])
    else:
        _show_groups(rows, labels, width)
        if aliases:
            output.line()
            for name, identity in aliases.items():
                output.line(f"{name} = {identity}")
        output.message("")
        for line in _LEGEND:
            output.message(line)
    if hidden_count:
        output.message(f"{hidden_count} more are not available: `counsel models --all` shows what they need.")
    if width is None:
        for need in dict.fromkeys(f"{row.model.provider}: {row.reason}" for row in rows if row.reason):
            output.message(need)


# ── a terminal ───────────────────────────────────────────────────────────────────────────────────────


def _show_groups(rows: Sequence[ModelRow], labels: Mapping[str, str], width: int) -> None:
    by_id = {row.model.id: row for row in rows}
    for number, (provider, group) in enumerate(groupby(rows, key=lambda row: row.model.provider)):
        members = list(group)
        if number:
            output.line()
        output.line(_heading(labels.get(provider, provider), members[0], width), colour="bold")
        for row, line in zip(members, _lines(members, by_id, width), strict=True):
            output.line(line, colour="dim" if row.superseded_by or not row.available else "")


def _heading(label: str, row: ModelRow, width: int) -> str:
    if row.available:
        return label
    forms = (
        row.reason,
        *(row.reason.partition(mark)[0] for mark in (" (", ", or run", ". ")),
    )
    texts = [f"{label}: not available. {form.rstrip('.')}." for form in forms]
    return next((text for text in texts if cells(text) <= width), f"{label}: not available")


def _lines(rows: Sequence[ModelRow], by_id: Mapping[str, ModelRow], width: int) -> list[str]:
    """One line per model. Fields that do not fit beside a long name are left out, the least important first."""
    table = [[row.model.id, short(row.model.context), *_price(row), _marks(row)] for row in rows]
    longest = [max(map(cells, column)) for column in zip(*table, strict=True)]
    longest[0] = min(longest[0], max(12, width - _BESIDE))
    lines = []
    for row, entry in zip(rows, table, strict=True):
        name, *numbers, marks = entry
        line = "  " + name + " " * (longest[0] - cells(name))
        parts = [text.rjust(size) for text, size in zip(numbers, longest[1:-1], strict=True)]
        newer = [f"→ {row.superseded_by}"] if row.superseded_by else []
        optional = [*parts, marks.ljust(longest[-1]), *newer]
        for part in optional:
            if cells(line) + 2 + cells(part.rstrip()) <= width:
                line += "  " + part
            elif part.startswith("→"):
                line += _shorter(row, by_id, width - cells(line) - 2)
        if width >= _WIDE and row.names:
            line += _names(row, width - cells(line) - 2)
        lines.append(line.rstrip())
    return lines


def _shorter(row: ModelRow, by_id: Mapping[str, ModelRow], space: int) -> str:
    """If the newer model's id does not fit: one of its aliases, or only that there is one."""
    newer = by_id.get(row.superseded_by)
    forms = [*(f"→ {name}" for name in (newer.names if newer else ())), "superseded", "→"]
    return next(("  " + form for form in forms if cells(form) <= space), "")


def _names(row: ModelRow, space: int) -> str:
    names: list[str] = []
    for name in row.names:
        if cells(", ".join((*names, name))) > space:
            break
        names.append(name)
    return "  " + ", ".join(names) if names else ""


def _marks(row: ModelRow) -> str:
    return "".join(letter if getattr(row.model, name) else "-" for name, (letter, _) in MARKS.items())


def _price(row: ModelRow) -> tuple[str, str]:
    price = prices.per_million(row.model)
    return (f"${price[0]:g}", f"${price[1]:g}") if price else ("?", "?")


# ── a pipe ───────────────────────────────────────────────────────────────────────────────────────────


def _pipe_cells(row: ModelRow) -> tuple[str, ...]:
    model = row.model
    price = prices.per_million(model)
    abilities = (name.replace("_", "-").removesuffix("s") for name in MARKS if getattr(model, name))
    return (
        model.id,
        model.provider,
        "yes" if row.available else "no",
        short(model.context),
        short(model.output),
        f"{price[0]:g} / {price[1]:g}" if price else "?",
        " ".join(abilities),
        row.superseded_by,
        ", ".join(row.names),
    )


def short(tokens: int) -> str:
    """1_048_576 → 1M, 200_000 → 200K: as the vendors write windows."""
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens // 1000}K" if tokens >= 1000 else str(tokens)
