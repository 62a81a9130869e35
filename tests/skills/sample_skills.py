"""A home and a project full of skills, ordinary and broken, for counsel's list and the real clients' lists.

`TEXTS` are SKILL.md files that differ in how they are written; `build` puts each of them where an agent looks,
and adds skills in special places: nested, hidden, linked, looping, duplicated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from support.user import User

SKILL = "---\nname: {name}\ndescription: {description}\n---\nDo it.\n"


def plain(name: str, description: str = "what it does") -> str:
    return SKILL.format(name=name, description=description)


TEXTS: dict[str, str | bytes] = {
    "ordinary": plain("ordinary"),
    "other-name": plain("quite-another"),
    "no-name": "---\ndescription: only a description\n---\nbody\n",
    "empty-name": '---\nname: ""\ndescription: nameless\n---\nbody\n',
    "no-description": "---\nname: no-description\n---\nbody\n",
    "empty-description": "---\nname: empty-description\ndescription:\n---\nbody\n",
    "quoted-empty-description": '---\nname: quoted-empty-description\ndescription: ""\n---\nbody\n',
    "no-frontmatter": "# Title\n\nbody of a skill without frontmatter\n",
    "empty-file": "",
    "only-blank": "\n\n",
    "empty-frontmatter": "---\n---\nbody\n",
    "unclosed": "---\nname: unclosed\ndescription: never closed\n\nbody\n",
    "closed-at-end": "---\nname: closed-at-end\ndescription: no line after\n---",
    "closed-by-dots": "---\nname: closed-by-dots\ndescription: dots\n...\nbody\n",
    "four-dashes": "---\nname: four-dashes\ndescription: fence of four\n----\nbody\n",
    "spaced-fences": "---  \nname: spaced-fences\ndescription: spaces after the fences\n---  \nbody\n",
    "indented-fence": " ---\nname: indented-fence\ndescription: a space before\n ---\nbody\n",
    "text-after-fence": "---\nname: text-after-fence\ndescription: text after\n--- # end\nbody\n",
    "blank-first-line": "\n---\nname: blank-first-line\ndescription: a blank line above\n---\nbody\n",
    "bom": b"\xef\xbb\xbf" + plain("bom").encode(),
    "crlf": plain("crlf").replace("\n", "\r\n"),
    "cr-only": plain("cr-only").replace("\n", "\r"),
    "utf16": plain("utf16").encode("utf-16"),
    "latin1": b"---\nname: latin1\ndescription: caf\xe9\n---\nbody\n",
    "nul": b"---\nname: nul\ndescription: a\x00b\n---\nbody\n",
    "long-name": plain("n" * 70),
    "name-of-64": plain("m" * 64),
    "long-description": plain("long-description", "d" * 1100),
    "description-of-1024": plain("description-of-1024", "d" * 1024),
    "colon-bracket": "---\nname: colon-bracket\ndescription: fine\na: b: [c\n---\nbody\n",
    "colon-in-description": plain("colon-in-description", "Build for AWS: ECS and: more"),
    "bracket-description": plain("bracket-description", "[unfinished"),
    "at-description": plain("at-description", "@file is read"),
    "backtick-description": plain("backtick-description", "`code` is run"),
    "percent-description": plain("percent-description", "%TAG is odd"),
    "star-description": plain("star-description", "*bold* text"),
    "bang-description": plain("bang-description", "!important thing"),
    "amp-description": plain("amp-description", "&anchor text"),
    "dash-description": plain("dash-description", "- a dash first"),
    "question-description": plain("question-description", "? what"),
    "hash-description": plain("hash-description", "before # a comment"),
    "only-comment-description": plain("only-comment-description", "# all comment"),
    "list-description": "---\nname: list-description\ndescription: [a, b]\n---\nbody\n",
    "map-description": "---\nname: map-description\ndescription: {a: b}\n---\nbody\n",
    "block-list-description": "---\nname: block-list-description\ndescription:\n  - a\n  - b\n---\nbody\n",
    "name-yes": plain("yes"),
    "name-true": plain("true"),
    "name-number": plain("123"),
    "name-null": plain("null"),
    "name-tilde": plain("~"),
    "name-date": plain("2026-01-01"),
    "description-number": plain("description-number", "42"),
    "description-true": plain("description-true", "true"),
    "folded": "---\nname: folded\ndescription: >\n  one\n  two\n\n  three\n---\nbody\n",
    "folded-strip": "---\nname: folded-strip\ndescription: >-\n  one\n  two\n---\nbody\n",
    "literal": "---\nname: literal\ndescription: |\n  one\n  two\n---\nbody\n",
    "literal-colon": "---\nname: literal-colon\ndescription: |\n  one: two: [three\n---\nbody\n",
    "continued": "---\nname: continued\ndescription: one\n  two\n  three\n---\nbody\n",
    "continued-unindented": "---\nname: continued-unindented\ndescription: one\ntwo\n---\nbody\n",
    "below-key": "---\nname: below-key\ndescription:\n  on the next line\n---\nbody\n",
    "single-quoted": "---\nname: 'single-quoted'\ndescription: 'it''s: quoted # not a comment'\n---\nbody\n",
    "double-quoted": '---\nname: "double-quoted"\ndescription: "a \\"b\\": \\u00e9 # no"\n---\nbody\n',
    "unclosed-quote": '---\nname: unclosed-quote\ndescription: "never closed\n---\nbody\n',
    "quote-inside": '---\nname: quote-inside\ndescription: say "hi" to it\'s\n---\nbody\n',
    "text-after-quote": '---\nname: text-after-quote\ndescription: "quoted" and more\n---\nbody\n',
    "tab-indent": "---\nname: tab-indent\ndescription: tabs\nmetadata:\n\tkey: value\n---\nbody\n",
    "tab-after-colon": "---\nname:\ttab-after-colon\ndescription:\ta tab\n---\nbody\n",
    "nested-map": "---\nname: nested-map\ndescription: has metadata\nmetadata:\n  author: me\n  version: 1.0\n---\nbody\n",
    "short-description": "---\nname: short-description\ndescription: has a short one\nmetadata:\n  short-description: brief\n---\nbody\n",
    "long-short-description": "---\nname: long-short-description\ndescription: d\nmetadata:\n  short-description: "
    + "s" * 1100
    + "\n---\nbody\n",
    "metadata-text": "---\nname: metadata-text\ndescription: metadata is text\nmetadata: words\n---\nbody\n",
    "metadata-empty": "---\nname: metadata-empty\ndescription: metadata is empty\nmetadata:\n---\nbody\n",
    "doubled-key": "---\nname: doubled-key\ndescription: first\ndescription: second\n---\nbody\n",
    "doubled-other-key": "---\nname: doubled-other-key\ndescription: d\nlicense: a\nlicense: b\n---\nbody\n",
    "upper-keys": "---\nName: upper-keys\nDescription: upper\n---\nbody\n",
    "no-space": "---\nname:no-space\ndescription:no space\n---\nbody\n",
    "no-keys": "---\njust words\n---\nbody\n",
    "a-list": "---\n- a\n- b\n---\nbody\n",
    "json-frontmatter": '---\n{"name": "json-frontmatter", "description": "flow"}\n---\nbody\n',
    "indented-keys": "---\n  name: indented-keys\n  description: all indented\n---\nbody\n",
    "uneven-keys": "---\nname: uneven-keys\n description: one space\n---\nbody\n",
    "comment-lines": "---\n# a comment\nname: comment-lines\n\n# more\ndescription: d\n---\nbody\n",
    "tagged": "---\nname: tagged\ndescription: !!python/object/apply:os.system ['true']\n---\nbody\n",
    "anchors": "---\nname: &n anchors\ndescription: *n\n---\nbody\n",
    "missing-alias": "---\nname: missing-alias\ndescription: *nowhere\n---\nbody\n",
    "user-invocable-false": "---\nname: user-invocable-false\ndescription: d\nuser-invocable: false\n---\nbody\n",
    "user-invocable-text": '---\nname: user-invocable-text\ndescription: d\nuser-invocable: "false"\n---\nbody\n',
    "user-invocable-no": "---\nname: user-invocable-no\ndescription: d\nuser-invocable: no\n---\nbody\n",
    "user-invocable-broken": "---\nname: user-invocable-broken\ndescription: a: b: [c\nuser-invocable: false\n---\nbody\n",
    "user-invocable-no-description": "---\nname: x\nuser-invocable: false\n---\nbody\n",
    "no-model": "---\nname: no-model\ndescription: d\ndisable-model-invocation: true\n---\nbody\n",
    "no-model-no-description": "---\nname: no-model-no-description\ndisable-model-invocation: true\n---\nbody\n",
    "no-model-no-user": "---\nname: n\ndescription: d\ndisable-model-invocation: true\nuser-invocable: false\n---\nb\n",
    "when-to-use": "---\nname: when-to-use\nwhen_to_use: now and then\n---\nbody\n",
    "with-tools": "---\nname: with-tools\ndescription: d\nallowed-tools: Bash(git:*), Read\nlicense: MIT\n---\nbody\n",
    "latin1-body": b"---\nname: latin1-body\ndescription: fine\n---\ncaf\xe9\n",
    "comment-only": "---\n# nothing but a comment\n---\nbody\n",
    "bell": "---\nname: bell\ndescription: a \x07 rings\n---\nbody\n",
    "midline-fence": "---\nname: midline-fence\nlicense: a---b\ndescription: after the fence\n---\nbody\n",
    "overrides-nothing": "---\nname: overrides-nothing\ndescription: 'single: quoted'\nx: y: z\n---\nbody\n",
    "plain-number-text": plain("0x1f", "1e3"),
    "name-list": "---\nname: [a, b]\ndescription: d\n---\nbody\n",
    "name-map": "---\nname: {a: b}\ndescription: d\n---\nbody\n",
    "multi-line-quote": '---\nname: multi-line-quote\ndescription: "one\n  two\n\n  three"\n---\nbody\n',
    "multi-line-flow": "---\nname: multi-line-flow\ntags: [a,\n  b]\ndescription: d\n---\nbody\n",
    "list-of-maps": "---\nname: list-of-maps\nhooks:\n  - on: start\n    run: x\n  - on: end\ndescription: d\n---\nb\n",
    "list-unindented": "---\nname: list-unindented\ntags:\n- a\n- b\ndescription: d\n---\nb\n",
    "bad-escape": '---\nname: bad-escape\ndescription: "a \\q b"\n---\nbody\n',
    "literal-indent": "---\nname: literal-indent\ndescription: |2\n   one\n  two\n---\nbody\n",
    "literal-junk": "---\nname: literal-junk\ndescription: | junk\n  one\n---\nbody\n",
    "literal-empty": "---\nname: literal-empty\ndescription: |\nlicense: x\n---\nbody\n",
    "comma-first": plain("comma-first", ", odd"),
    "colon-end": plain("colon-end", "ends with:"),
    "colon-inside": plain("colon-inside", "a:b http://x y"),
    "deeper-after": "---\nname: deeper-after\n  extra: 1\ndescription: d\n---\nbody\n",
    "deep-flow": "---\nname: deep-flow\nx: " + "[" * 40 + "]" * 40 + "\ndescription: d\n---\nbody\n",
    "unicode": plain("ünïcødé-名前", "Ünïcode — 説明 🎉"),
    "spaces-in-name": plain("spaces in  name"),
    "slash-in-name": plain('a/b:c*d"e'),
    "upper-name": plain("Upper_Case"),
    "name-multi-line": "---\nname: >\n  two\n  lines\ndescription: d\n---\nbody\n",
    "special-spaces": plain("special-spaces", "non\u00a0breaking\u2028line\u0085next"),
    "huge": plain("huge") + "x" * 3_000_000,
    "huge-frontmatter": "---\nname: huge-frontmatter\nnote: "
    + "y" * 200_000
    + "\ndescription: after it\n---\nbody\n",
    "later-fence": "---\nname: later-fence\ndescription: d\n---\nbody\n---\nname: other\n---\n",
    "only-fence": "---",
    "two-fences": "---\n---",
    "fence-in-block": "---\nname: fence-in-block\ndescription: |\n  a\n  ---\n  b\n---\nbody\n",
    "trailing-space-values": "---\nname:   trailing-space-values   \ndescription:   spaced   out   \n---\nbody\n",
    "null-description": plain("null-description", "null"),
    "tilde-description": plain("tilde-description", "~"),
    "quoted-key": "---\n\"name\": quoted-key\n'description': quoted keys\n---\nbody\n",
    "space-before-colon": "---\nname : space-before-colon\ndescription : d\n---\nbody\n",
    "percent-directive": "---\n%YAML 1.2\nname: percent-directive\ndescription: d\n---\nbody\n",
    "angle-hint": "---\nname: angle-hint\ndescription: d\nargument-hint: <duration: e.g. 7d>\n---\nbody\n",
    "list-over-lines": "---\nname: list-over-lines\ndescription: d\ntags: [\n          one,\n          two\n      ]\n---\nb\n",
    "empty-key": "---\nname: empty-key\n: nothing\ndescription: d\n---\nbody\n",
    "tagged-empty-key": "---\n!t : \nname: tagged-empty-key\ndescription: d\n---\nbody\n",
    "comma-key": "---\nname: comma-key\n,x: y\ndescription: d\n---\nbody\n",
    "odd-space-key": '---\n\u00a0"x:\nname: odd-space-key\ndescription: d\n---\nbody\n',
    "brace-hint": "---\nname: brace-hint\ndescription: d\nargument-hint: [a] [b]\n---\nbody\n",
}


# What headers are made of in `generated`: keys, values and lines that YAML readers disagree about.
KEYS = [
    "name", "description", "description", "user-invocable", "disable-model-invocation", "license", "metadata",
    "when_to_use", "allowed-tools", "Name", '"name"', "'description'", "x.y", "-x", "1", "é", "name:x", "k#", "#k",
    "tags", "a/b",
]  # fmt: skip
VALUES = [
    "word", "two words", "a: b", "a:b", '"q"', "'q'", '"q', 'q"', "it's", "'it''s'", "[a, b]", "[a",
    "{a: b}", "{a", "a # c", "#c", "", "~", "null", "true", "123", "1.5", "- x", "-x", "? x", "?x", "*x",
    "&a v", "!t v", "@x", "`x`", "%x", "x:", ": x", ":x", ", x", "] x", "} x", '"a" b', "'a' b",
    '"a: b" # c', "a\\b", '"a\\nb"', '"a\\qb"', "é ü", "x  ", '"a\n  b"', "a\n  b", "a\n b: c", "a\nb",
    ">\n  x\n\n  y", ">-\n  x\n  y", "\n  - a\n  - b", "\n- a\n- b", "\n  k: v", "\n  k: v: w", "<a: b>",
    "[a] [b]", "{a} x", "[a: b]", '["a", \'b\']', '{"a": "b"}', "[a,]", "[,a]", "{a: [b, {c: d}]}",
    "2026-01-01", "yes", '"yes"', "on", "a---b", "--- x", "...", ">2\n  x", "x #", "x#y", '"x"#y', "[x]#y",
    "[x] # y", "\\", '"unclosed\nname: z"', "|", "|-", "|\n  x\n  y", "|\n x\n  y", "|\nx", "| # c\n  x",
    "|x",
]  # fmt: skip
OPENINGS = ("---",) * 10 + ("--- ", "---\t", "---x", "----", " ---")
CLOSINGS = ("---",) * 10 + ("--- ", "---x", "----", " ---", "...")


def generated(seed: int, count: int) -> dict[str, str]:
    """Random headers, the same for the same seed."""
    chance = random.Random(seed)
    return {f"g{number}": _header(chance, number) for number in range(count)}


def _header(chance: random.Random, number: int) -> str:
    lines = [f"name: n{number}"] if chance.random() < 0.8 else []
    lines += ["description: some text"] if chance.random() < 0.7 else []
    for _ in range(chance.randrange(1, 4)):
        colon = chance.choice((": ", ": ", ": ", ":", " : ", ":  "))
        line = chance.choice(("",) * 8 + (" ", "  ")) + chance.choice(KEYS) + colon + chance.choice(VALUES)
        lines.insert(chance.randrange(len(lines) + 1), line)
    text = "\n".join([chance.choice(OPENINGS), *lines, chance.choice(CLOSINGS), "body", ""])
    return text.replace("\n", "\r\n") if chance.random() < 0.15 else text


ODD: tuple[Any, ...] = (None, 1, True, "x", "\0", [], [1], [None], {}, {"a": 1})


def variants(value: Any) -> Iterator[Any]:
    """A settings file with each of its values in turn replaced by something else."""
    yield from ODD
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from ({**value, key: odd} for odd in variants(inner))
    for place, inner in enumerate(value) if isinstance(value, list) else ():
        yield from ([*value[:place], odd, *value[place + 1 :]] for odd in variants(inner))


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def add_skill(user: User, where: str, name: str, text: str | None = None) -> Path:
    """Create a skill in a folder of the home (`~/.claude`) or the project (`.agents`); returns the skill's folder."""
    base = user.home / where[2:] if where.startswith("~/") else user.project / where
    return write(base / "skills" / name / "SKILL.md", text if text is not None else plain(name)).parent


def texts(folder: Path, table: Mapping[str, str | bytes] = TEXTS) -> None:
    """Write every text of the table to a folder of its name."""
    for name, text in table.items():
        write(folder / name / "SKILL.md", text)


def shapes(folder: Path, outside: Path) -> None:
    """Create skills that differ in their place, not in their text. `outside` has the targets of links."""
    write(folder / "SKILL.md", plain("at-the-root"))
    write(folder / "loose.md", plain("loose"))
    write(folder / ".hidden" / "SKILL.md", plain("hidden"))
    write(folder / "group" / "inner" / "SKILL.md", plain("inner"))
    write(folder / "group" / ".veiled" / "SKILL.md", plain("veiled"))
    write(folder / "parent" / "SKILL.md", plain("parent"))
    write(folder / "parent" / "child" / "SKILL.md", plain("child"))
    write(folder / "a/b/c/d/e/f" / "SKILL.md", plain("depth-six"))
    write(folder / "a/b/c/d/e/f/g" / "SKILL.md", plain("depth-seven"))
    write(folder / "node_modules" / "SKILL.md", plain("in-node-modules"))
    write(folder / "dist" / "SKILL.md", plain("in-dist"))
    write(folder / "lower" / "skill.md", plain("lower"))
    write(folder / "mixed" / "Skill.md", plain("mixed"))
    write(folder / "twice-a" / "SKILL.md", plain("twice"))
    write(folder / "twice-b" / "SKILL.md", plain("twice"))
    write(folder / "with space" / "SKILL.md", plain("with-space"))
    write(folder / "UPPER" / "SKILL.md", plain("upper"))
    write(folder / "dot.ted" / "SKILL.md", plain("dotted"))
    write(folder / "ünï-名" / "SKILL.md", plain("unicode-folder"))
    write(folder / ("f" * 80) / "SKILL.md", "---\ndescription: named by a folder of 80\n---\n")
    write(outside / "linked-folder" / "SKILL.md", plain("linked-folder"))
    write(outside / "linked-file.md", plain("linked-file"))
    (folder / "linked").symlink_to(outside / "linked-folder", target_is_directory=True)
    (folder / "linked-again").symlink_to(outside / "linked-folder", target_is_directory=True)
    (folder / "by-file").mkdir()
    (folder / "by-file" / "SKILL.md").symlink_to(outside / "linked-file.md")
    (folder / "dangling").symlink_to(outside / "nowhere")
    (folder / "dangling-file").mkdir()
    (folder / "dangling-file" / "SKILL.md").symlink_to(outside / "nowhere.md")
    (folder / "round").symlink_to(folder, target_is_directory=True)
    (folder / "self-loop").symlink_to("self-loop")
    (folder / "group" / "up").symlink_to("..", target_is_directory=True)
    (folder / "folder-named" / "SKILL.md").mkdir(parents=True)
    (folder / "by-file-again").mkdir()
    (folder / "by-file-again" / "SKILL.md").symlink_to(outside / "linked-file.md")
    (folder / "into-text").symlink_to(outside / "linked-file.md")


def pipe(folder: Path) -> None:
    """Create a pipe called SKILL.md. Gemini CLI waits for it forever, so it is not part of `shapes`."""
    (folder / "pipe").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "SKILL.md")
