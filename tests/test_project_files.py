"""Files beside the code that people and CI rely on: workflows, issue forms, hooks, CONTRIBUTING.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import hygiene

ROOT = Path(__file__).parent.parent
YAML = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"])
VERBS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def named_verbs(text: str) -> set[str]:
    return set(re.findall(r"(?:run: |`|^)make ([a-z-]+)", text, re.MULTILINE))


def test_there_are_workflows_forms_and_hooks() -> None:
    names = {str(path.relative_to(ROOT)) for path in YAML}
    forms = {f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "feature", "config")}
    assert names >= {
        ".github/workflows/ci.yml",
        ".github/workflows/release.yml",
        ".pre-commit-config.yaml",
        *forms,
    }


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_has_no_tabs_and_indents_by_two(path: Path) -> None:
    """No YAML reader is among the tools, so this checks what breaks by hand: tabs, odd indents, unclosed brackets."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        where = f"{path.name}:{number}"
        assert "\t" not in line, where
        assert (len(line) - len(line.lstrip(" "))) % 2 == 0, where
        if not line.lstrip().startswith("#"):
            assert line.count("[") == line.count("]"), where
            assert line.count("{") == line.count("}"), where


@pytest.mark.parametrize(
    "path", [*YAML, ROOT / "CONTRIBUTING.md", ROOT / "README.md"], ids=lambda path: path.name
)
def test_every_verb_that_is_called_exists(path: Path) -> None:
    assert named_verbs(path.read_text("utf-8")) <= VERBS


def test_contributing_explains_every_verb() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert set(re.findall(r"`make ([a-z-]+)`", text)) == VERBS


def test_ci_calls_the_verbs_and_covers_the_supported_versions() -> None:
    ci = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert named_verbs(ci) == {"test", "dist"}
    classifiers = re.findall(r'Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert re.findall(r"python: \[(.*)\]", ci) == [", ".join(f'"{version}"' for version in classifiers)]
    assert "macos" in ci


def test_actions_are_pinned_by_commit_and_get_no_rights_that_they_do_not_need() -> None:
    for path in ROOT.glob(".github/workflows/*.yml"):
        text = path.read_text("utf-8")
        actions = re.findall(r"uses: (\S+)", text)
        assert actions
        assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
        assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
        assert "secrets." not in text
    assert (ROOT / ".github/workflows/release.yml").read_text("utf-8").count(": write") == 1  # id-token


def test_files_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`((?:src|tests|tools|docs|\.github)/[\w/.-]+)`", text) + re.findall(
        r"\]\(([\w/.-]+)\)", text
    )
    assert len(paths) > 20
    exceptions = {"tools/list"}  # an MCP method
    missing = [path for path in paths if "NAME" not in path and not (ROOT / path).exists()]
    assert set(missing) <= exceptions


def test_every_decision_is_in_the_index_and_names_files_that_exist() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert re.findall(r"\((\d\d-[\w-]+\.md)\)", index) == [path.name for path in records]
    for path in records:
        text = path.read_text("utf-8")
        assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
            "How to check",
        ]
        paths = re.findall(r"`((?:tests|bench|src)/[\w/.-]+)`", text)
        assert [name for name in paths if not (ROOT / name).exists()] == [], path.name


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"fine\n", ""),
        (b"<<<<<<< HEAD\n", "conflict markers"),
        (b"-----BEGIN RSA PRIVATE KEY-----\n", "private key"),
        (b"a\r\n", "Windows line ends"),
        (b"a \n", "ends with spaces"),
        (b"a", "does not end with a newline"),
        (b"x" * 600_000 + b"\n", "600,001 bytes"),
    ],
)
def test_the_hook_finds_what_does_not_belong(data: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    command = [sys.executable, "-m", "tools.hygiene", str(file)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == (1 if words else 0)
    assert words in process.stdout
    assert bool(list(hygiene.problems(data))) == bool(words)
