"""Block mappings, sequences and scalars: the full reader, for headers that `quick` cannot read."""

from __future__ import annotations

import re

from counsel.configfiles.yaml.flow import Flow
from counsel.configfiles.yaml.nodes import DEEPEST, NULL, Dialect, Mapping, Node, Scalar, YamlError

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
ODD = "\0"  # prefix of the name of a key that is not a string
_NUL = re.compile("\0")
_KEY = re.compile(
    r"(?:[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[\-?:](?=\S))(?:[^:#]|:(?=\S)|(?<=\S)#)*?(?=[ \t]*:(?:[ \t]|$))",
    re.ASCII,
)
_NO_KEY = re.compile(r":(?:[ \t]|$)")  # `: value`
_HEADER = re.compile(r"([|>])(?:([1-9])?([+-])?|([+-])([1-9]))[ \t]*(?:(?<=[ \t])#.*)?$")
_ANCHOR = re.compile(r"[^\s,\[\]{}]+")
_WORD_ANCHOR = re.compile(r"[A-Za-z0-9_-]+")


def document(text: str, dialect: Dialect) -> Node:
    if match := (_NUL if dialect.controls else _CONTROL).search(text):
        raise YamlError(f"control character at position {match.start()}")
    reader = _Reader(text, dialect)
    node = reader.block(-1, 0)
    reader.skip_blank()
    if reader.row < len(reader.lines):
        raise reader.error("unexpected text after the value")
    return node


class _Reader(Flow):
    """Reads blocks. Each method leaves `row` on the first line after what it has read."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        breaks = "".join(dict.fromkeys("\n" + dialect.breaks))
        self.lines = re.split(f"\r\n|[\r{breaks}]", text)
        self.row = 0
        self.dialect = dialect
        self.anchors: dict[str, Node] = {}

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────

    def skip_blank(self) -> None:
        while self.row < len(self.lines):
            bare = self.lines[self.row].strip(" \t")
            if bare and not bare.startswith("#"):
                return
            self.pass_blank()

    def pass_blank(self) -> None:
        if not self.dialect.blank_tabs and self.lines[self.row].lstrip(" ").startswith("\t"):
            raise self.error("found character that cannot start any token")
        self.row += 1

    def indent(self) -> int:
        """The indentation of the current line; a tab counts only in dialects that allow it."""
        line = self.lines[self.row]
        bare = line.lstrip(" \t" if self.dialect.tabs else " ")
        if bare.startswith("\t"):
            raise self.error("a tab indents")
        return len(line) - len(bare)

    def bare_line(self) -> str:
        return self.lines[self.row].strip(" \t")

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────

    def block(self, parent: int, depth: int) -> Node:
        """The node on the following lines that are deeper than `parent`; null if there is none."""
        if depth > DEEPEST:
            raise self.error("nested too deeply")
        self.skip_blank()
        if self.row >= len(self.lines) or (indent := self.indent()) <= parent:
            return NULL
        bare = self.bare_line()
        if bare in {"---", "..."} or bare.startswith(("%", "--- ")):
            raise self.error("a document marker or directive")
        if bare == "-" or bare.startswith("- "):
            return self.sequence(indent, depth)
        if _is_explicit_key(bare) or self.key(bare) is not None:
            return self.mapping(indent, depth)
        return self.value(bare, parent, depth)

    def mapping(self, indent: int, depth: int) -> Mapping:
        result = Mapping()
        while self.continues_at(indent):
            if _is_explicit_key(self.bare_line()):
                key, value = self.explicit_entry(indent, depth)
            elif parts := self.key(self.bare_line()):
                key, value = parts[0], self.entry(parts[1], indent, depth)
            else:
                raise self.error("could not find expected ':'")
            if key in result.items:
                if not self.dialect.duplicate_keys:
                    raise self.error(f"duplicate key {key[:40]!r}")
                result.duplicates.add(key)
            result.odd_keys |= key.startswith(ODD)
            result.items[key] = value
        return result

    def explicit_entry(self, indent: int, depth: int) -> tuple[str, Node]:
        """`? key` and, on a line of its own, `: value`."""
        node = self.after_mark(indent, depth)
        key = node.text if isinstance(node, Scalar) else f"{ODD}{self.row}"
        if self.continues_at(indent) and _NO_KEY.match(self.bare_line()):
            return key, self.after_mark(indent, depth)
        return key, NULL

    def after_mark(self, indent: int, depth: int) -> Node:
        """The node after a `?` or `:` at the start of a line, read as if that mark were a blank."""
        line = self.lines[self.row]
        self.lines[self.row] = line[:indent] + " " + line[indent + 1 :]
        return self.block(indent, depth + 1)

    def entry(self, rest: str, indent: int, depth: int) -> Node:
        """A mapping's value: what follows the colon, or the lines below it."""
        anchor, rest = self.properties(rest)
        if rest and not rest.startswith("#"):
            node = self.value(rest, indent, depth)
        else:
            self.row += 1
            self.skip_blank()
            below = self.row < len(self.lines) and self.indent() == indent
            if below and (self.bare_line() == "-" or self.bare_line().startswith("- ")):
                node = self.sequence(indent, depth + 1)
            else:
                node = self.block(indent, depth + 1)
        if anchor:
            self.anchors[anchor] = node
        return node

    def sequence(self, indent: int, depth: int) -> list[Node]:
        if depth > DEEPEST:
            raise self.error("nested too deeply")
        result: list[Node] = []
        while self.continues_at(indent) and (self.bare_line() == "-" or self.bare_line().startswith("- ")):
            line = self.lines[self.row]
            rest = line[line.index("-") + 1 :]
            bare = rest.strip(" \t")
            if bare and not bare.startswith("#") and (bare.startswith("- ") or self.key(bare) is not None):
                # `- key: value`: the rest of the line is the first line of a deeper block
                self.lines[self.row] = " " * (len(line) - len(rest.lstrip(" \t"))) + bare
                result.append(self.block(indent, depth + 1))
            else:
                result.append(self.entry(bare, indent, depth))
        return result

    def continues_at(self, indent: int) -> bool:
        """Whether the next line belongs to the collection at `indent`; a deeper line is an error."""
        self.skip_blank()
        if self.row >= len(self.lines):
            return False
        depth = self.indent()
        if depth > indent:
            raise self.error("unexpected indentation")
        if depth == 0 and self.bare_line() in {"---", "..."}:
            self.end_document()
            return False
        return depth == indent

    def end_document(self) -> None:
        """Read `...`, which ends the document; nothing may follow."""
        marker = self.bare_line()
        self.row += 1
        self.skip_blank()
        if marker == "---" or self.row < len(self.lines):
            raise self.error("a second document")

    def key(self, bare: str) -> tuple[str, str] | None:
        """`key: rest` split, or None. Quoted keys lose their quotes."""
        first = bare[:1]
        if first in {'"', "'"}:
            return _quoted_key(bare)
        if first in {"[", "{"}:
            return self.flow_key(bare)
        if first in {"&", "!"}:
            _, after = self.properties(bare)
            return _no_key(after) or (self.key(after) if after and after != bare else None)
        if first == ":" and self.dialect.empty_keys and (empty_key := _no_key(bare)):
            return empty_key
        comma = "," if first == "," and self.dialect.comma_starts else ""
        parts = _plain_key(bare.removeprefix(comma))
        return (comma + parts[0], parts[1]) if parts else None

    def flow_key(self, bare: str) -> tuple[str, str] | None:
        """`[a]: rest` or `{a}: rest`, on one line."""
        row = self.row
        try:
            _, column = self.flow(len(self.lines[row].rstrip(" \t")) - len(bare), DEEPEST - 8)
        except YamlError:
            column, self.row = 0, row + 1
        if self.row != row:
            self.row = row
            return None
        colon = re.compile(r"[ \t]*:(?=[ \t]|$)").match(self.lines[row], column)
        return (f"{ODD}{row}", self.lines[row][colon.end() :].strip(" \t")) if colon else None

    # ── values ───────────────────────────────────────────────────────────────────────────────────────

    def properties(self, rest: str) -> tuple[str, str]:
        """The anchor in front of a value, and the value without its anchor and tag."""
        anchor = ""
        while rest[:1] in {"&", "!"}:
            word = re.match(r"\S+", rest)[0]  # type: ignore[index]
            if rest[0] == "&":
                if not _ANCHOR.fullmatch(word[1:]):
                    raise self.error("a bad anchor")
                anchor = word[1:]
            elif not self.dialect.unknown_tags:
                raise self.error(f"unknown tag {word[:40]}")
            rest = rest[len(word) :].lstrip(" \t")
        return anchor, rest

    def value(self, rest: str, parent: int, depth: int) -> Node:
        """A value that begins on the current line; `rest` is the rest of that line."""
        first = rest[0]
        if first in "&!":
            anchor, bare = self.properties(rest)
            node = (
                self.value(bare, parent, depth)
                if bare and bare[0] != "#"
                else self.value_below(parent, depth)
            )
            if anchor:
                self.anchors[anchor] = node
            return node
        if first in "|>":
            return self.block_scalar(rest, parent)
        if first in "\"'[{":
            return self.enclosed(rest, depth)
        if first == "*":
            return self.alias(rest)
        if (
            first in ("%@`]}" if self.dialect.comma_starts else "%@`,]}")
            or rest in {"-", "?"}
            or rest.startswith(("- ", "? "))
        ):
            raise self.error(f"{first!r} cannot start a value")
        return self.plain(rest, parent)

    def value_below(self, parent: int, depth: int) -> Node:
        self.row += 1
        return self.block(parent, depth + 1)

    def alias(self, rest: str) -> Node:
        name, _, more = rest[1:].partition(" ")
        self.row += 1
        if more.strip(" \t") and not more.strip(" \t").startswith("#"):
            raise self.error("text after an alias")
        if not _WORD_ANCHOR.fullmatch(name) or name not in self.anchors:
            raise self.error("unknown anchor")
        return self.anchors[name]

    def plain(self, rest: str, parent: int) -> Scalar:
        line_text, has_comment = self.plain_line(rest)
        self.row += 1
        parts: list[str] = [line_text]
        while not has_comment:
            blank = self.row
            while self.row < len(self.lines) and not self.lines[self.row].strip(" \t"):
                self.pass_blank()
            at_end = self.row >= len(self.lines) or self.lines[self.row].lstrip(" \t").startswith("#")
            if at_end or self.indent() <= parent:
                break
            parts.append("\n" * (self.row - blank) or " ")
            line_text, has_comment = self.plain_line(self.bare_line())
            parts.append(line_text)
            self.row += 1
        return Scalar("".join(parts))

    def plain_line(self, bare: str) -> tuple[str, bool]:
        comment = re.search(r"(?<=[ \t])#", bare)
        line_text = (bare[: comment.start()] if comment else bare).rstrip(" \t")
        if re.search(r":(?:[ \t]|$)", line_text):
            raise self.error("mapping values are not allowed in this context")
        return line_text, comment is not None

    def block_scalar(self, header: str, parent: int) -> Scalar:
        match = _HEADER.match(header)
        if not match:
            raise self.error("a bad block scalar header")
        style, depth, keep = match[1], match[2] or match[5], match[3] or match[4]
        self.row += 1
        body: list[str] = []
        indent = max(parent, 0) + int(depth) if depth else 0
        while self.row < len(self.lines):
            line = self.lines[self.row]
            if line.strip(" ") and not indent:
                indent = max(len(line) - len(line.lstrip(" ")), parent + 1)
            if line.strip(" ") and len(line) - len(line.lstrip(" ")) < max(indent, parent + 1):
                break
            body.append(line[indent:])
            self.row += 1
        text = "\n".join(body) if style == "|" else _folded(body)
        bare = text.rstrip("\n")
        end = {"+": text[len(bare) :] + "\n", "-": ""}.get(keep or "", "\n" if bare else "")
        return Scalar(bare + end, plain=False)


def _quoted_key(bare: str) -> tuple[str, str] | None:
    closing = re.compile(r'"(?:[^"\\]|\\.)*"' if bare[0] == '"' else r"'(?:[^']|'')*'").match(bare)
    if not closing or not (colon := re.compile(r"[ \t]*:(?=[ \t]|$)").match(bare, closing.end())):
        return None
    return closing[0][1:-1], bare[colon.end() :].strip(" \t")


def _plain_key(bare: str) -> tuple[str, str] | None:
    match = _KEY.match(bare[:1026])  # a longer key is rejected, and searching for one takes time
    if not match or match.end() > 1024:
        return None
    return match[0], bare[match.end() :].lstrip(" \t")[1:].strip(" \t")


def _no_key(bare: str) -> tuple[str, str] | None:
    """`: value`"""
    return ("", bare[1:].strip(" \t")) if _NO_KEY.match(bare) else None


def _is_explicit_key(bare: str) -> bool:
    return bare == "?" or bare.startswith(("? ", "?\t"))


def _folded(body: list[str]) -> str:
    """`>`: lines joined by spaces, except around blank and deeper lines."""
    text = ""
    for number, line in enumerate(body):
        if number == 0:
            text = line
            continue
        before = body[number - 1]
        keeps_break = not line or not before or line[0] in " \t" or before[0] in " \t"
        text += ("\n" if keeps_break else " ") + line
    return re.sub(r"(?<=\S)\n(\n+)(?=\S)", r"\1", text)
