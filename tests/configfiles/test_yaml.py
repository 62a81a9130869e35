"""How headers are read, and where dialects differ: each snippet with its outcome (tests/golden/yaml.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.configfiles.yaml.nodes import NULL, Dialect, Mapping, Node, Scalar, YamlError, node_text
from counsel.configfiles.yaml.read import parse, quick

GOLDEN = Path(__file__).parent.parent / "golden" / "yaml.txt"
DIALECTS = {
    "breaks": Dialect(breaks="\x85\u2028\u2029"),
    "tabs": Dialect(tabs=True),
    "no blank tabs": Dialect(blank_tabs=False),
    "controls": Dialect(controls=True),
    "comma starts": Dialect(comma_starts=True),
    "empty keys": Dialect(empty_keys=True),
    "loose quotes": Dialect(loose_quotes=True),
    "tight comments": Dialect(tight_comments=True),
    "no duplicate keys": Dialect(duplicate_keys=False),
    "no unknown tags": Dialect(unknown_tags=False),
}
SNIPPETS = [
    # plain scalars
    "a: b", "a:", "a: ~", "a: null", "a: 'null'", "a: b c  ", "a: b #c", "a: b#c", "a: #c", "a: b: c", "a: b:", "a: http://x",
    "a: one\n  two", "a: one\n\n  two", "a: one\n\n\n  two", "a: one # c\n  two", "a: one\n  # c\n  two", "a: one\n two: three",
    "a: one\n\t\n  two", "a: -", "a: - b", "a: ? b", "a: -b", "a: ?b", "a: :b", "a: @b", "a: `b", "a: %b", "a: ,b", "a: ]", "a: }",
    "just words", "just\nwords", "", "\n\n", "# only a comment", "a: b\nwords", "a: one\ntwo", "-a: b", "a b: c", "a#b: c", "a #b: c",
    # mappings
    "a: b\nc: d", "a:\n  b: c\n  d: e\nf: g", "a:\n  b: c\n d: e", "a:\n  b:\n    c: d\n  e: f", "a: b\n  c: d", "  a: b\n  c: d",
    "  a: b\n c: d", "a: b\na: c", "a:\n  b: 1\n  b: 2", "'a b': c", '"a\\nb": c', "'a''b': c", "'a' b: c", '"a: b', "a : b", "a\t: b", "a:\tb",
    ": b", "a: b\n: c", ",a: b", "? a\n: b", "? a", "? a\nb: c", "?\n  a\n:\n  b", "? [a]\n: b", "? - a\n: b", "?a: b", "[a]: b", "{a: b}: c", "[a] b",
    "!t a: b", "&x a: b", "& a: b", "a: b\n...", "a: b\n...\nc: d", "a: b\n---\nc: d", "---\na: b", "%YAML 1.2", "--- a", "a: b\n... # c",
    f"{'k' * 1024}: v", f"{'k' * 1025}: v",
    # sequences
    "- a\n- b", "-\n- a", "- - a\n  - b\n- c", "- a: b\n  c: d\n- e", "a:\n- b\n- c\nd: e", "a:\n  - b\n  - c", "a:\n  - b\n - c", "- a\n b", "- a\n  b",
    "- # c\n  a", "-\ta", "a:\n-\n- b", "- a\nb: c", "-  a: b\n   c: d", "- 'a'\n- \"b\"", "- [a]\n- {b: c}", "-a", "a: b\n- c",
    # quoted
    "a: 'b'", "a: ''", 'a: ""', "a: 'it''s'", "a: '''b'''", "a: 'b' #c", "a: 'b'#c", "a: 'b' c", 'a: "b" c', "a: 'b", 'a: "b', "a: 'one\n  two'", "a: 'one\n\n  two'",
    "a: 'one\ntwo'", 'a: "one\ntwo"', 'a: "one\n\n\n  two"', 'a: "one \n  two"', 'a: "one\\\n  two"', 'a: "one \\\n\n  two"', 'a: "\\\n  b"',
    'a: "\\t\\n\\\\\\"\\/\\0"', 'a: "\\x41\\u00e9\\U0001F600"', 'a: "\\x4"', 'a: "\\xZZ"', 'a: "\\q"', 'a: "\\ud800"', 'a: "\\udfff"', 'a: "\\ud7ff\\ue000"', 'a: "\\U00110000"', 'a: "\\U0010FFFF"', 'a: "\\',
    "a: '  b  '", "a: '  one  \n  two  '", 'a: "  one  \n  two  "', "a: '\n  b\n  '", "a: \"'\"", "a: '\"'", "'a'", "\"a\": 'b'\nc: d",
    # flow
    "a: []", "a: {}", "a: [b, c]", "a: [b, c,]", "a: [b,, c]", "a: [b c, d]", "a: [b", "a: [b]]", "a: [b] # c", "a: [b]#c", "a: [b] c", "a: [\n  b,\n  c\n]", "a: [ # x\n  b # y\n ]", "a: [b #c\n]",
    "a: [b: c]", "a: [b: , c]", "a: [b:]", "a: [b:c]", "a: {b: c, d: e}", "a: {b, c: d}", "a: {b: }", "a: {b: c d: e}", "a: {b: c", "a: {b: 1, b: 2}", "a: {'b': \"c\"}", "a: {[b]: c}", "a: {b: [c, {d: e}]}",
    "a: [&x b, !t c, &y ]", "a: [!t , b]", "a: [*x]", "a: [@b]", "a: [b#c, d]", "a: [-, b]", "a: {b: c]", "a: [b}", "[a, b]", "{a: b}", "{a: b}\nc: d", 'a: ["b\nc"]', "a: ['b\n  c']",
    # block scalars
    "a: |\n  one\n  two", "a: |\n  one\n\n  two\n", "a: |-\n  one\n", "a: |+\n  one\n\n", "a: |\n  one\n\n\nb: c", "a: |+\n  one\n\nb: c", "a: |2\n    one\n  two", "a: |1-\n  one", "a: |-1\n  one", "a: |0\n  one", "a: |x\n  one",
    "a: | # c\n  one", "a: |# c\n  one", "a: |\n", "a: |+\n", "a: |\none", "a: |\n one\n  two\n", "a: |\n  one\n two", "a: >\n  one\n  two\n\n  three", "a: >\n  one\n\n\n  two", "a: >-\n  one\n    two\n  three", "a: >\n  one\n  \ttwo\n  three",
    "a: >+\n  one\n\n\nb: c", "a: >\n\n  one", "- |\n one\n two\n- b", "|\n one", "a:\n  b: |\n    one\n  c: d", "a: |\n\tone", "a: >2\n   one\n  two",
    # anchors, aliases, tags
    "a: &x b\nc: *x", "a: &x\n  b: c\nd: *x", "a: *x", "a: &x b\nc: *x d", "a: &x b\nc: *x # d", "a: &x b\nc: *x,", "a: !t b", "a: !t\n  b", "a: !t", "a: &x\nb: *x", "a: &x !t b\nc: *x", "a: !t &x b\nc: *x", "a: &[ b", "a: & b", "- &x a\n- *x", "&x\na: b", "!t\na: b", "&x words\n", "a: !t # c\n  b",
    # blanks and characters
    "a:\n\tb: c", "\ta: b", "a: b\n\t\nc: d", "a: b\n  \t\nc: d", "a: b\r\nc: d", "a: b\rc: d", "a: b\x85c: d", "a: b\u2028c: d", "a: b\u2029c: d", "a: b\x07", "a: b\x00", "a: \ufffe", "a: b\x7f", "a: \xa0b", "a: é", "é: b",
    "a: b\n# c\nd: e", "a: b\n  # c\nd: e", "# c\na: b", "\n\na: b\n\n",
]  # fmt: skip


def describe(node: Node) -> str:
    if isinstance(node, Scalar):
        return repr(node.text) if node.plain else f"quoted {node.text!r}"
    if isinstance(node, list):
        return f"[{', '.join(map(describe, node))}]"
    marks = "".join(
        [" odd" if node.odd_keys else "", f" doubled {sorted(node.duplicates)}" if node.duplicates else ""]
    )
    items = ", ".join(f"{_key(key)}: {describe(value)}" for key, value in node.items.items())
    return f"{{{items}}}{marks}"


def _key(key: str) -> str:
    return repr(key) if len(key) < 100 else f"<{len(key)} characters>"


def outcome(text: str, dialect: Dialect) -> str:
    try:
        return describe(parse(text, dialect))
    except YamlError as error:
        return f"error: {error}"


def test_every_snippet_is_read_as_stated() -> None:
    lines = []
    for text in SNIPPETS:
        usual = outcome(text, Dialect())
        lines.append(f"{_key(text)}\n    {usual}")
        for name, dialect in DIALECTS.items():
            if (difference := outcome(text, dialect)) != usual:
                lines.append(f"    {name}: {difference}")
    golden_text = "\n".join(lines) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(golden_text, encoding="utf-8")
    assert golden_text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "is_quick"),
    [
        ("a: b\nc: d", True),
        ("a: b\nc:\n  d: e\n  f: g\nh: i", True),
        ("a: 'b'\nc: \"d\"", True),
        ("a:\n  b:\n    c: d", False),
        ("a:\n  b: c\n   d: e", False),
        ("  a: b", False),
        ("a: b\na: c", False),
        ("a: [b]", False),
        ("a: b #c", False),
        ("a: b ", False),
        ("a: 'it''s'", False),
    ],
)
def test_simple_headers_are_read_the_quick_way(text: str, is_quick: bool) -> None:
    assert isinstance(quick(text), Mapping) is is_quick


def test_the_quick_way_refuses_what_every_dialect_refuses() -> None:
    for text in ("a: b: c", "a: b:", "x: y\na:\n  b: c: d"):
        assert isinstance(quick(text), YamlError)
    for text in ("a: b: c #d", "a: b: c ", "a: b\n  c: d: e"):
        assert quick(text) is None


def test_a_node_as_one_line() -> None:
    assert node_text(parse("a: [b, ~, ' c ']\nd: {e: f}")) == "a: b, c, d: e: f"
    assert node_text(None) == node_text(NULL) == ""
    assert node_text(Scalar("~", plain=False)) == "~"


def test_errors_are_not_shared_between_callers() -> None:
    with pytest.raises(YamlError) as first:
        parse("a: [b")
    with pytest.raises(YamlError) as second:
        parse("a: [b")
    assert first.value is not second.value
    assert str(first.value) == str(second.value)


@pytest.mark.parametrize(("text", "deep"), [("- " * 60 + "a", False), ("- " * 70 + "a", True)])
def test_nesting_is_bounded(text: str, deep: bool) -> None:
    assert (outcome(text, Dialect()) == "error: nested too deeply at line 1") is deep
