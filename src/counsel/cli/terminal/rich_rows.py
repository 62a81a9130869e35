"""rich's output as rows of a live region."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.segment import Segment
from rich.text import Text

from counsel.cli.terminal.live_region import EMPTY, Row


def lines(console: Console, content: RenderableType, columns: int) -> list[Text]:
    segment_lines = console.render_lines(content, console.options.update(width=columns), pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in line)) for line in segment_lines]


def render(console: Console, content: RenderableType, columns: int) -> list[Row]:
    return rows(console, lines(console, content, columns))


def rows(console: Console, texts: Iterable[Text]) -> list[Row]:
    return [_row(console, text) for text in texts]


def _row(console: Console, text: Text) -> Row:
    """Render a row without `Console.print`, which takes ten times as long (2 ms per row)."""
    text.expand_tabs(4)
    text.rstrip()
    if not text:
        return EMPTY
    if text.style:  # `render` ignores it
        text.stylize_before(text.style)
    parts: Iterable[Segment] = text.render(console)
    if console.no_color:
        parts = Segment.remove_color(parts)
    colours = COLOR_SYSTEMS.get(console.color_system or "")
    pieces = (
        part.style.render(part.text, color_system=colours) if part.style else part.text for part in parts
    )
    return Row("".join(pieces), text.cell_len)
