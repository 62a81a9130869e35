"""Markdown as rows of a terminal, also while it streams.

`MarkdownStream` takes text as it arrives. A frame has the rows that no later text can change, which are written once,
and those of the unfinished block, which the next frame replaces. No text is lost: HTML, formulas and the addresses of
links are shown unchanged.

Importing markdown-it and rich takes 90 ms: only a terminal pays for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from counsel.cli.terminal import output, rich_rows
from counsel.cli.terminal.live_region import Row

WIDEST = 100  # columns of prose: longer lines are hard to read; tables and code use the whole window
_LARGEST = 32 * 1024  # characters of a block; a larger one is shown unrendered (code: in several parts)
_DEEPEST = 60  # levels of nesting; the parser drops deeper ones, and more levels take longer
_TOO_DEEP = r"(?m)^(?:[ \t]*(?:>|[-*+][ \t]|\d+[.)][ \t])){16}"
_DIM, _CODE = Style(dim=True), Style(color="cyan")
_HEADINGS = {
    "h1": Style(bold=True, underline=True, color="bright_blue"),
    "h2": Style(bold=True, color="bright_blue"),
    **dict.fromkeys(("h3", "h4", "h5", "h6"), Style(bold=True, italic=True)),
}
_INLINE = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}
_FORMULA = {"\\(", "\\)", "\\[", "\\]"}  # Markdown takes the backslash for an escape
_ALIGNMENTS = ("left", "center", "right")


class Block(NamedTuple):
    """A top-level block, or an item of a top-level list: an item is finished when another one follows."""

    node: SyntaxTreeNode
    line: int
    gap: bool  # an empty row before it
    number: int | None = None  # of an item in a numbered list

    @property
    def renumber(self) -> int:
        """The difference from the number in the text: many models write `1.` before every item."""
        return 0 if self.number is None else self.number - int(self.node.info)


class Frame(NamedTuple):
    finished: list[Row]
    live: list[Row]


def rows(text: str, columns: int) -> list[Row]:
    """The rows of a complete text."""
    stream = MarkdownStream()
    stream.add(text)
    return stream.frame(columns, 1, ended=True).finished


class MarkdownStream:
    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(
            ["table", "strikethrough"]
        )
        self._parser.disable("text_join")  # this rule drops the backslashes of formulas
        self._references: dict[str, object] = {}  # addresses of links that are defined elsewhere in the text
        self._console = output.console()
        self._renderer = Renderer(self._console)
        self._text = ""  # from the first unfinished block on
        self._gap = False  # before that block
        self._renumber = 0  # added to the number in the text if the block continues a list
        self._written = 0  # rows of that block that are finished (of code)

    def add(self, text: str) -> None:
        self._text += output.printable(text)

    def frame(self, columns: int, height: int, *, ended: bool = False) -> Frame:
        """The rows to write now. `height`: rows of the unfinished block that can be redrawn."""
        finished: list[Text] = []
        try:
            finished += self._finish_blocks(columns)
            unfinished, is_code = self._last_block(columns)
        except Exception:  # noqa: BLE001 - whatever a model wrote, it must be readable
            unfinished, is_code = self._plain_lines(), False
        large = len(self._text) > _LARGEST
        if ended or (large and not is_code):
            self._start_block("", gap=False)
            return Frame(rich_rows.rows(self._console, finished + unfinished), [])
        if is_code and (excess := len(unfinished) - height) > 0:
            finished += unfinished[:excess]
            unfinished = unfinished[excess:]
            self._written += excess
            if large:
                self._shorten_code()
        live = [part for text in unfinished[-height:] for part in self._wrap(text, columns)][-height:]
        return Frame(rich_rows.rows(self._console, finished), rich_rows.rows(self._console, live))

    def _plain_lines(self) -> list[Text]:
        return [*([Text()] if self._gap else []), *map(Text, self._text.rstrip("\n").split("\n"))]

    def _finish_blocks(self, columns: int) -> list[Text]:
        """Render every block except the last. An incomplete line may still change its meaning: it ends no block."""
        if re.search(_TOO_DEEP, self._text):
            raise ValueError("nested too deeply")
        complete = self._text[: self._text.rfind("\n") + 1]
        blocks = self._blocks(complete)
        if len(blocks) < 2:
            return []
        texts = [text for block in blocks[:-1] for text in self._rows(block, columns)][self._written :]
        start = sum(map(len, complete.splitlines(keepends=True)[: blocks[-1].line]))
        self._start_block(self._text[start:], gap=blocks[-1].gap, renumber=blocks[-1].renumber)
        return texts

    def _start_block(self, text: str, *, gap: bool, renumber: int = 0) -> None:
        self._text, self._gap, self._renumber, self._written = text, gap, renumber, 0

    def _last_block(self, columns: int) -> tuple[list[Text], bool]:
        """The rows of the unfinished block, and whether it is code, whose rows do not change."""
        if len(self._text) > _LARGEST and not self._text.startswith(("```", "~~~")):
            return self._plain_lines(), False
        blocks = self._blocks(self._text)
        texts = [text for block in blocks for text in self._rows(block, columns)]
        return texts[self._written :], len(blocks) == 1 and blocks[0].node.type == "fence"

    def _shorten_code(self) -> None:
        """Drop the written lines of a long block of code; its first line opens the rest."""
        lines = self._text.splitlines(keepends=True)
        opening = 1 + self._gap  # rows: the gap, and the line itself
        count = self._written - opening
        if count > 0:
            self._text = "".join([lines[0], *lines[1 + count :]])
            self._written = opening

    def _rows(self, block: Block, columns: int) -> list[Text]:
        gap = [Text()] if block.gap else []
        return gap + self._renderer.block(block.node, columns, block.number)

    def _blocks(self, text: str) -> list[Block]:
        lines = text.splitlines()
        nodes = SyntaxTreeNode(self._parser.parse(text, self._references)).children
        blocks = [
            block
            for index, node in enumerate(nodes)
            for block in _items(node, lines, 0 if index else self._renumber)
        ]
        return [blocks[0]._replace(gap=self._gap), *blocks[1:]] if blocks else []

    def _wrap(self, text: Text, columns: int) -> list[Text]:
        """Wrap a line that is redrawn. Finished lines of code are written whole, so that they can be copied."""
        return (
            [text] if text.cell_len <= columns else list(text.wrap(self._console, columns, overflow="fold"))
        )


def _items(node: SyntaxTreeNode, lines: Sequence[str], renumber: int = 0) -> list[Block]:
    """The block; for a list, its items."""
    if node.type not in {"bullet_list", "ordered_list"}:
        return [Block(node, _line(node), _gap_before(node, lines))]
    start = int(node.attrs.get("start", 1)) + renumber if node.type == "ordered_list" else None
    return [
        Block(item, _line(item), _gap_before(item, lines), None if start is None else start + index)
        for index, item in enumerate(node.children)
    ]


def _line(node: SyntaxTreeNode) -> int:
    return node.map[0] if node.map else 0


def _gap_before(node: SyntaxTreeNode, lines: Sequence[str]) -> bool:
    """Whether an empty line precedes the node."""
    line = _line(node)
    return 0 < line <= len(lines) and not lines[line - 1].strip(" \t>")


class Renderer:
    """Renders blocks as lines of styled text, at most `columns` wide except for code."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def block(self, node: SyntaxTreeNode, columns: int, number: int | None = None) -> list[Text]:
        match node.type:
            case "fence":
                lines = self._fence(node)
            case "code_block":
                lines = [Text(f"    {line}", _CODE) for line in node.content.rstrip("\n").split("\n")]
            case "hr":
                lines = [Text("─" * min(columns, WIDEST), _DIM)]
            case "table":
                lines = self._table(node, columns)
            case "blockquote":
                lines = _prefixed(Text("│ ", _DIM), Text("│ ", _DIM), self._children(node, columns - 2))
            case "list_item":
                lines = self._item(node, columns, number)
            case "bullet_list" | "ordered_list":
                lines = self._list(node, columns)
            case _:
                text = self.inline(node, _HEADINGS.get(node.tag, Style()))
                lines = list(text.wrap(self._console, min(columns, WIDEST), overflow="fold"))
        return lines

    def _item(self, node: SyntaxTreeNode, columns: int, number: int | None) -> list[Text]:
        marker = Text("• " if number is None else f"{number}. ", _DIM)
        indent = Text(" " * marker.cell_len)
        return _prefixed(marker, indent, self._children(node, columns - marker.cell_len)) or [marker]

    def _children(self, node: SyntaxTreeNode, columns: int) -> list[Text]:
        lines: list[Text] = []
        end = None
        for child in node.children:
            if end is not None and _line(child) > end:  # an empty line separates the two
                lines.append(Text())
            lines += self.block(child, max(columns, 8))
            end = child.map[1] if child.map else None
        return lines

    def _list(self, node: SyntaxTreeNode, columns: int) -> list[Text]:
        start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines = []
        for index, item in enumerate(node.children):
            lines += self.block(item, columns, None if start is None else start + index)
        return lines

    def _fence(self, node: SyntaxTreeNode) -> list[Text]:
        """Code with its fences: it is recognizable without colours, and can be copied."""
        from rich.syntax import Syntax  # 40 ms

        code = node.content.removesuffix("\n")
        language = node.info.split(maxsplit=1)[0] if node.info.strip() else "text"
        text = Syntax(code, language, theme="ansi_dark").highlight(code)
        lines = list(text.split("\n", allow_blank=True))[: code.count("\n") + 1] if node.content else []
        first, last = node.map or (0, 0)
        closed = last - first > len(lines) + 1
        fence = Text(node.markup, _DIM)
        return [Text(f"{node.markup}{node.info}", _DIM), *lines, *([fence] if closed else [])]

    def _table(self, node: SyntaxTreeNode, columns: int) -> list[Text]:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style=_DIM)
        lines = [line for part in node.children for line in part.children]
        for cell in lines[0].children:
            style = str(cell.attrs.get("style", ""))
            justify = next((name for name in _ALIGNMENTS if name in style), "left")
            table.add_column(self.inline(cell, Style(bold=True)), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for line in lines[1:]:
            table.add_row(*(self.inline(cell) for cell in line.children))
        return rich_rows.lines(self._console, table, columns)

    def inline(self, node: SyntaxTreeNode, style: Style | None = None) -> Text:
        text = Text()
        for child in node.children:
            self._append(text, child, style or Style())
        return text

    def _append(self, text: Text, node: SyntaxTreeNode, style: Style) -> None:
        match node.type:
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(node.content, style + _CODE)
            case "text_special":
                text.append(node.markup if node.markup in _FORMULA else node.content, style)
            case "link" | "image":
                self._append_link(text, node, style)
            case _ if node.children:
                for child in node.children:
                    self._append(text, child, style + _INLINE.get(node.type, Style()))
            case _:  # an entity such as &#13; is a control character, too
                text.append(output.printable(node.content), style)

    def _append_link(self, text: Text, node: SyntaxTreeNode, style: Style) -> None:
        """Append a link with its address: a model must not hide where a link leads."""
        address = str(node.attrs.get("href") or node.attrs.get("src") or "")
        start = len(text)
        for child in node.children:
            self._append(text, child, style + Style(underline=True))
        label = text.plain[start:]
        if address and address not in {label, f"mailto:{label}"}:
            text.append(f" ({address})" if label else address, style + _DIM)


def _prefixed(first: Text, rest: Text, lines: Sequence[Text]) -> list[Text]:
    return [Text.assemble(rest if index else first, line) for index, line in enumerate(lines)]
