"""A SKILL.md is read leniently and checked against the rules: every remark, every finding, all limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel.skills.check import check_skill
from counsel.skills.frontmatter import read


@pytest.mark.parametrize(
    ("text", "remarks", "fields", "body"),
    [
        ("---\nname: a\n---\nBody\n", (), {"name": "a"}, "Body\n"),
        ("\n \n--- \nname: a\n--- \n\nBody", (), {"name": "a"}, "\nBody"),
        ("---\nname: a\n...\nBody", (), {"name": "a"}, "Body"),
        ("\ufeff---\nname: a\n---\n", ("bom",), {"name": "a"}, ""),
        ("---\r\nname: a\r\n---\r\nBody\r\n", ("crlf",), {"name": "a"}, "Body\n"),
        ("---\rname: a\r---\rBody", ("crlf",), {"name": "a"}, "Body"),
        ("Body", ("none",), {}, "Body"),
        ("\ufeffBody\r\n", ("bom", "crlf", "none"), {}, "Body\n"),
        ("--- x\nname: a\n---\n", ("none",), {}, "--- x\nname: a\n---\n"),
        ("---\nname: a\n  more\n# note\nBody: no\ntext\n", ("unclosed",), {"name": "a more", "Body": "no"}, "text\n"),
        ("---\nname: [a\nother: 'b'\n---\n", ("broken",), {"name": "[a", "other": "b"}, ""),
        ("---\nname: [a\ntext: >\n  one\n  two\n---\n", ("broken",), {"name": "[a", "text": "one two"}, ""),
        ("---\nname: [a\n\n  b\nx: \"'\"\ny: 'z\nz: '\n---\n", ("broken",), {"name": "[a b", "x": "'", "y": "'z", "z": "'"}, ""),
        ("---\n- a\n---\n", ("broken",), {}, ""),
        ("---\n---\nBody", (), {}, "Body"),
        ("---\n\n---\nBody", (), {}, "Body"),
    ],
)  # fmt: skip
def test_a_header_is_read_with_remarks(
    text: str, remarks: tuple[str, ...], fields: dict[str, str], body: str
) -> None:
    header = read(text)
    assert header.remarks == remarks
    assert {key: header.text(key) for key in header.fields} == fields
    assert header.body == body
    assert header.present is ("none" not in remarks)


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read, Write", ("Read", "Write")),
        ("Read Write", ("Read", "Write")),
        ("[Read, 'Bash(git log)']", ("Read", "Bash(git log)")),
        ("Bash(git log, git show) Read", ("Bash(git log, git show)", "Read")),
        ("", ()),
    ],
)
def test_a_list_may_be_text(value: str, tools: tuple[str, ...]) -> None:
    assert read(f"---\nallowed-tools: {value}\n---\n").list("allowed-tools") == tools
    assert read("---\nname: a\n---\n").list("allowed-tools") == ()


def findings(header: str, folder: str = "a") -> dict[str, Any]:
    return {finding.rule: finding for finding in check_skill(read(header), Path("/skills") / folder)}


def valid_skill(**fields: str) -> str:
    arguments = {"name": "a", "description": "Does it.", **fields}
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in arguments.items()) + "---\n"


def test_a_good_skill_has_four_good_findings() -> None:
    result = findings(valid_skill())
    assert list(result) == ["frontmatter", "name", "folder", "description"]
    assert all(finding.ok for finding in result.values())
    assert [finding.message for finding in result.values()] == [
        "YAML between two lines `---`",
        "a",
        "a",
        "8 characters",
    ]
    assert not any(finding.fix for finding in result.values())


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("\ufeff" + valid_skill(), "byte-order mark"),
        ("text", "frontmatter is missing"),
        ("---\nname: a\n", "not closed"),
        ("---\nname: [a\n---\n", "not valid YAML"),
    ],
)
def test_a_bad_header_is_a_finding_with_what_to_do(text: str, advice: str) -> None:
    finding = findings(text)["frontmatter"]
    assert not finding.ok
    assert advice in finding.message
    assert finding.fix


@pytest.mark.parametrize(
    ("name", "ok", "mend"),
    [
        ("a-1-b", True, ""),
        ("x" * 64, True, ""),
        ("x" * 65, False, "Use at most 64."),
        ("My Skill!", False, "Rename it, for example to `my-skill`."),
        ("a--b", False, "Rename it, for example to `a-b`."),
        ("é", False, "Rename it."),
        ("", False, "Add `name:` with the folder's name."),
    ],
)
def test_what_a_skills_name_may_be(name: str, ok: bool, mend: str) -> None:
    result = findings(valid_skill(name=name), name)
    assert (result["name"].ok, result["name"].fix) == (ok, mend)
    assert result["folder"].ok


def test_the_folder_has_the_skills_name() -> None:
    finding = findings(valid_skill(), "b")["folder"]
    assert (finding.ok, finding.message) == (False, "the folder is named 'b', the skill 'a'")
    assert findings(valid_skill(name=""), "b")["folder"].ok  # without a name nothing differs


def test_descriptions_have_a_length() -> None:
    assert findings(valid_skill(description="x" * 1_024))["description"].ok
    long = findings(valid_skill(description="x" * 1_025))["description"]
    assert (long.ok, long.message) == (False, "the description has 1,025 characters, too long")
    assert findings(valid_skill(description=""))["description"].message == "no description"


def test_optional_fields_are_looked_at_where_they_are_given() -> None:
    assert "compatibility" not in findings(valid_skill(compatibility="x" * 500))
    assert not findings(valid_skill(compatibility="x" * 501))["compatibility"].ok
    assert "metadata" not in findings(valid_skill(metadata="\n  a: b"))
    assert "metadata" not in findings(valid_skill(metadata=""))
    assert findings(valid_skill(metadata="'~'"))["metadata"].message == "metadata is '~'"
    assert findings(valid_skill(metadata="[a, b]"))["metadata"].message == "metadata is 'a, b'"
    assert findings(valid_skill())["name"].as_dict() == {"rule": "name", "ok": True, "words": "a", "mend": ""}
