"""Quoted strings and flow collections (`[a, b]`, `{a: b}`), which may span several lines."""

from __future__ import annotations

import re

from counsel.configfiles.yaml.nodes import DEEPEST, NULL, Dialect, Mapping, Node, Scalar, YamlError

_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_PROPERTY = re.compile(r"[^\s,\[\]{}]+")
_PLAIN = re.compile(r"(?:[^,\[\]{}:#]|:(?![\s,\[\]{}]|$)|(?<=\S)#)+")
_HEX = re.compile(r"[0-9A-Fa-f]+")
_WIDE = {"x": 2, "u": 4, "U": 8}


class Flow:
    """A cursor over lines: `row` is the line being read; methods take and return columns."""

    lines: list[str]
    row: int
    dialect: Dialect

    def error(self, message: str) -> YamlError:
        return YamlError(f"{message} at line {min(self.row, len(self.lines) - 1) + 1}")

    # ── quotes and brackets ───────────────────────────────────────────────────────────

    def enclosed(self, rest: str, depth: int) -> Node:
        column = len(self.lines[self.row].rstrip(" \t")) - len(rest)
        node, column = self.flow(column, depth)
        tail = self.lines[self.row][column:].strip(" \t")
        comment_allowed = self.dialect.tight_comments or self.lines[self.row][column : column + 1] in {
            " ",
            "\t",
        }
        if tail and not (tail.startswith("#") and comment_allowed):
            raise self.error("did not find expected key")
        self.row += 1
        return node

    def flow(self, column: int, depth: int) -> tuple[Node, int]:
        if depth > DEEPEST:
            raise self.error("nested too deeply")
        line = self.lines[self.row]
        first = line[column]
        if first in "&!":
            word = _PROPERTY.match(line, column)
            column = self.flow_space(word.end() if word else column + 1)
            return (NULL, column) if self.lines[self.row][column] in ",]}" else self.flow(column, depth + 1)
        if first in "\"'":
            return self.double_quoted(column + 1) if first == '"' else self.single_quoted(column + 1)
        if first in "[{":
            return self.flow_list(column + 1, depth) if first == "[" else self.flow_map(column + 1, depth)
        if first in "*@`%|>":
            raise self.error(f"{first!r} cannot start a value")
        match = _PLAIN.match(line, column)
        if not match or not match[0].strip():
            raise self.error("did not find expected node content")
        return Scalar(match[0].strip(" \t")), match.end()

    def flow_space(self, column: int) -> int:
        """Past blanks, comments and line ends inside brackets."""
        while True:
            line = self.lines[self.row]
            while column < len(line) and line[column] in " \t":
                column += 1
            if column < len(line) and not (
                line[column] == "#" and (column == 0 or line[column - 1] in " \t")
            ):
                return column
            self.row, column = self.row + 1, 0
            if self.row >= len(self.lines):
                raise self.error("unexpected end inside brackets")

    def flow_list(self, column: int, depth: int) -> tuple[Node, int]:
        nodes: list[Node] = []
        while (column := self.flow_space(column)) >= 0 and self.lines[self.row][column] != "]":
            node, column = self.flow(column, depth + 1)
            column = self.flow_space(column)
            if self.lines[self.row][column] == ":":  # a single pair, `[a: b]`
                node, column = self.flow_pair(node, column, depth)
            nodes.append(node)
            column = self.flow_comma(column, "]")
        return nodes, column + 1

    def flow_pair(self, key: Node, column: int, depth: int) -> tuple[Node, int]:
        column = self.flow_space(column + 1)
        if self.lines[self.row][column] in ",]}":
            return Mapping({_key_text(key): NULL}), column
        value, column = self.flow(column, depth + 1)
        return Mapping({_key_text(key): value}), self.flow_space(column)

    def flow_map(self, column: int, depth: int) -> tuple[Node, int]:
        mapping = Mapping()
        while (column := self.flow_space(column)) >= 0 and self.lines[self.row][column] != "}":
            key, column = self.flow(column, depth + 1)
            column = self.flow_space(column)
            pair: Node = Mapping({_key_text(key): NULL})
            if self.lines[self.row][column] == ":":
                pair, column = self.flow_pair(key, column, depth)
            assert isinstance(pair, Mapping)
            mapping.duplicates |= mapping.items.keys() & pair.items.keys()
            mapping.items |= pair.items
            column = self.flow_comma(column, "}")
        return mapping, column + 1

    def flow_comma(self, column: int, closing: str) -> int:
        column = self.flow_space(column)
        if self.lines[self.row][column] == ",":
            return column + 1
        if self.lines[self.row][column] != closing:
            raise self.error(f"did not find expected ',' or {closing!r}")
        return column

    def single_quoted(self, column: int) -> tuple[Scalar, int]:
        pieces: list[str] = []
        while True:
            line = self.lines[self.row]
            end = column
            while (end := line.find("'", end)) >= 0 and line[end + 1 : end + 2] == "'":
                end += 2
            if end >= 0:
                pieces.append(line[column:end].replace("''", "'"))
                return Scalar(_joined(pieces), plain=False), end + 1
            pieces.append(line[column:].replace("''", "'"))
            column = self.next_quoted_line()

    def double_quoted(self, column: int) -> tuple[Scalar, int]:
        pieces: list[str] = [""]
        while True:
            line = self.lines[self.row]
            while column < len(line):
                if line[column] == '"':
                    return Scalar(_joined(pieces), plain=False), column + 1
                if line[column] == "\\":
                    text, column = self.escape(line, column + 1)
                    pieces[-1] += text
                    continue
                stop = re.compile(r'["\\]|$').search(line, column)
                end = stop.start() if stop else len(line)
                pieces[-1] += line[column:end]
                column = end
            pieces.append("")
            column = self.next_quoted_line()

    def next_quoted_line(self) -> int:
        self.row += 1
        if self.row >= len(self.lines):
            raise self.error("found unexpected end of stream in a quoted text")
        line = self.lines[self.row]
        indent = len(line) - len(line.lstrip(" \t"))
        if not indent and line and not self.dialect.loose_quotes:
            raise self.error("a quoted text continues without indentation")
        return indent

    def escape(self, line: str, column: int) -> tuple[str, int]:
        letter = line[column : column + 1]
        if not letter:  # a backslash at the end of a line joins it with the next
            return "\0join", column
        if letter in _ESCAPES:
            return _ESCAPES[letter], column + 1
        digits = line[column + 1 : column + 1 + _WIDE.get(letter, 0)]
        if len(digits) != _WIDE.get(letter) or not _HEX.fullmatch(digits):
            raise self.error("an unknown escape")
        number = int(digits, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise self.error("an unknown escape")
        return chr(number), column + 1 + len(digits)


def _key_text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) else repr(node)


def _joined(pieces: list[str]) -> str:
    """Fold the lines of a quoted string: one line break becomes a space, n breaks become n-1."""
    text = pieces[0] if len(pieces) == 1 else pieces[0].rstrip(" \t")
    empty = 0
    for number, piece in enumerate(pieces[1:], 1):
        bare = piece.strip(" \t") if number < len(pieces) - 1 else piece
        if not bare and number < len(pieces) - 1:
            empty += 1
            continue
        text, glue = (text[:-5], "") if text.endswith("\0join") else (text, " ")
        text += ("\n" * empty or glue) + bare
        empty = 0
    return text.replace("\0join", "")
