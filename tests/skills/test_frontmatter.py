"""Headers of every kind raise no exception and hide no skill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counsel.agents.claude import skills as claude
from counsel.agents.codex import skills as codex
from counsel.agents.cursor import skills as cursor
from counsel.agents.definitions import WITH_SKILLS, Workspace
from counsel.agents.gemini import skills as gemini
from counsel.agents.skill_scanner import SkillFile, SkillPath, SkillScanner
from counsel.configfiles.yaml.block import document
from counsel.configfiles.yaml.nodes import Dialect, Mapping, Scalar, YamlError
from counsel.configfiles.yaml.read import parse, quick
from counsel.skills.check import check_skill
from counsel.skills.discover import skill_format
from counsel.skills.frontmatter import read
from skills import sample_skills

DIALECTS = (claude.DIALECT, codex.DIALECT, gemini.DIALECT, cursor.DIALECT, Dialect())

# Random sequences of pieces that occur in headers, and random characters.
PIECES = st.sampled_from(
    [
        *sample_skills.VALUES,
        *sample_skills.KEYS,
        "---",
        "...",
        "\n",
        "\n      ",
        "\r\n",
        "\r",
        ": ",
        ":",
        "  ",
        "\t",
        "- ",
        "? ",
        "\ufeff",
        "\x00",
        "\x85",
        "name: a",
    ]
)
HEADERS = st.one_of(
    st.text(max_size=200),
    st.lists(PIECES, max_size=30).map("".join),
    st.lists(PIECES, max_size=30).map(lambda parts: "---\n" + "".join(parts) + "\n---\nbody"),
    st.lists(st.sampled_from("[]{},:\"'\\ab \n#&*!|>-?"), max_size=120).map(
        lambda parts: "---\na: " + "".join(parts)
    ),
    st.lists(st.sampled_from(["[", "]", "{", "}", ",", ": ", "a", "'", "\n", "\n        "]), max_size=20).map(
        lambda parts: "---\na: " + "".join(parts) + "\n---\n"
    ),
)


class OneFile(SkillScanner):
    """A disk with a single SKILL.md."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    def file(self, real: str) -> SkillFile:
        return SkillFile(self.data, len(self.data))

    def search(self, root: Any, shape: Any) -> Iterator[Any]:
        if str(root) == "/home/u/.claude/skills" or str(root) == "/home/u/.agents/skills":
            yield SkillPath(f"{root}/folder/SKILL.md", f"{root}/folder/SKILL.md")


@settings(max_examples=100, deadline=None)
@given(HEADERS)
def test_every_agent_keeps_the_skill_whatever_is_written(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for agent in WITH_SKILLS:
        result = skill_format(agent).skills(Workspace(Path("/home/u"), {}, Path("/nowhere")), OneFile(data))
        assert result, agent
        assert all(skill.accepted or skill.notes for skill in result)
        assert all(isinstance(note.message, str) for skill in result for note in skill.notes)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_every_agent_keeps_the_skill_whatever_its_bytes(data: bytes) -> None:
    for agent in WITH_SKILLS:
        assert skill_format(agent).skills(
            Workspace(Path("/home/u"), {}, Path("/nowhere")),
            OneFile(b"---\n" + data),
        )


@settings(max_examples=400, deadline=None)
@given(HEADERS)
def test_the_lenient_reader_never_fails(text: str) -> None:
    result = read(text)
    assert all(isinstance(result.text(key), str) for key in result.fields)
    assert all(isinstance(word, str) for word in result.list("allowed-tools"))
    check_skill(result, Path("/x/folder"))
    if not result.present:
        assert (
            result.body.strip()
            == text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
        )


@settings(max_examples=400, deadline=None)
@given(HEADERS)
def test_the_quick_reader_agrees_with_the_full_one(text: str) -> None:
    text = text.removeprefix("---\n").removesuffix("\n---\nbody").strip("\n")
    reply = quick(text)
    for dialect in DIALECTS if reply is not None else ():
        try:
            node = document(text, dialect)
        except YamlError:
            assert isinstance(reply, YamlError)
        else:
            assert reply == node


@pytest.mark.parametrize(
    ("text", "name", "description"),
    [
        ("---\nname: a\ndescription: b: c: [d\n---\n", "a", "b: c: [d"),
        ("\ufeff---\r\nname: yes\r\ndescription: >\r\n  one\r\n  two\r\n---\r\n", "yes", "one two"),
        ("---\nname: a\ndescription: never closed\n\n# Title\n", "a", "never closed"),
        ("---\nname: 'it''s'\ndescription: \"tab\\tand \\u00e9\"\n---\n", "it's", "tab\tand é"),
        ("---\nname: a\ndescription: |\n  one\n\n  two\n---\n", "a", "one\n\ntwo"),
        ("---\nname: a\ndescription: one\n  two\n---\n", "a", "one two"),
        ("# no header\n", "", ""),
    ],
)
def test_reading_is_lenient(text: str, name: str, description: str) -> None:
    result = read(text)
    assert (result.text("name"), result.text("description")) == (name, description)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1, {b: c}, 'd']", [Scalar("1"), Mapping({"b": Scalar("c")}), Scalar("d", plain=False)]),
        ("a:\n- b: c\n  d: e\n- f", [Mapping({"b": Scalar("c"), "d": Scalar("e")}), Scalar("f")]),
        ("a: &x v\nb: *x", Scalar("v")),
        ('a: "one\n  two\n\n  three"', Scalar("one two\nthree", plain=False)),
        ("a: >-\n  one\n  two\n\n  three\n   four", Scalar("one two\nthree\n four", plain=False)),
        ("a: |+\n  one\n\nb: c", Scalar("one\n\n", plain=False)),
        ("a: [\n        b,\n        c\n]", [Scalar("b"), Scalar("c")]),
        ("a: {\n        b: c,\n}", Mapping({"b": Scalar("c")})),
    ],
)
def test_a_header_is_read_as_yaml(text: str, expected: object) -> None:
    node = parse(text, Dialect(loose_quotes=True))
    assert isinstance(node, Mapping)
    assert node.items["a"] == expected


def test_tags_are_strings_and_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read("---\nname: !!python/object/apply:os.system ['touch ran']\ndescription: !!js/function 'x'\n---\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{" * 5000, "- " * 5000, "? " * 3000])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(YamlError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * 500_000,
        "a" * 500_000,
        " " * 200_000 + "a: b",
        "a: '" + "''" * 50_000,
        "#" * 300_000,
    ],
)
def test_length_costs_time_in_proportion(text: str) -> None:
    """A reader that takes quadratic time would not finish these."""
    read(f"---\n{text}\n---\n")
    for dialect in DIALECTS:
        try:
            parse(text, dialect)
        except YamlError:
            continue


@pytest.mark.parametrize("field", ["name: gem", "description: d", "metadata:\n  a: b", "license: MIT"])
def test_codex_takes_each_field_that_it_reads_only_once(field: str) -> None:
    others = {"name": "name: gem", "description": "description: d"}
    name = field.partition(":")[0]
    header = "\n".join([*others.values(), *([] if name in others else [field]), field])
    (skill,) = codex.skills(
        Workspace(Path("/home/u"), {}, Path("/nowhere")), OneFile(f"---\n{header}\n---\n".encode())
    )
    assert skill.accepted == (name == "license")
    if not skill.accepted:
        assert f"duplicate field `{name}`" in skill.notes[0].message


def test_a_header_that_is_not_yaml_is_read_by_lines_and_deeper_lines_continue() -> None:
    header = read("---\n  name: a: b: c\ndescription: one\n  two: three\n\tfour\nlicense: x\n---\nbody")
    assert header.remarks == ("broken",)
    fields = {key: header.text(key) for key in header.fields}
    assert fields == {"name": "a: b: c", "description": "one two: three four", "license": "x"}


def test_in_a_header_that_is_not_yaml_no_word_means_null() -> None:
    header = read("---\nname: ~\nlicense: a: [b\ndescription:\n  null\n---\nbody")
    assert header.remarks == ("broken",)
    assert (header.text("name"), header.text("description")) == ("~", "null")


def test_a_control_character_does_not_break_a_header() -> None:
    header = read("---\nname: bell\ndescription: a \x07 rings\n---\nbody")
    assert (header.remarks, header.text("description")) == ((), "a \x07 rings")
