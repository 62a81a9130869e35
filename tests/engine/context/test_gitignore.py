"""Patterns mean what they mean to git (each row was checked with `git check-ignore`), and hostile ones take no time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.engine.context import expand, gitignore
from counsel.engine.context.path_patterns import PathPattern
from counsel.errors import InvalidArgument, NotFound

# lines of .gitignore, a path, whether git ignores it (a path that ends in / is a folder)
ROWS: list[tuple[str, str, bool]] = [
    ("*.log", "a.log", True),
    ("*.log", "deep/er/a.log", True),
    ("*.log", "a.logs", False),
    ("/top.txt", "top.txt", True),
    ("/top.txt", "deep/top.txt", False),
    ("doc/a.txt", "doc/a.txt", True),
    ("doc/a.txt", "x/doc/a.txt", False),
    ("build/", "build/", True),
    ("build/", "x/build/", True),
    ("build/", "build", False),
    ("**/cache", "a/b/cache", True),
    ("a/**/z", "a/z", True),
    ("a/**/z", "a/b/c/z", True),
    ("a/**", "a/b", True),
    ("a/**", "a/b/c", True),
    ("*.log\n!keep.log", "keep.log", False),
    ("!keep.log\n*.log", "keep.log", True),
    ("# *.py", "a.py", False),
    ("\\#a", "#a", True),
    ("\\!a", "!a", True),
    ("a\\*", "a*", True),
    ("a\\*", "ab", False),
    ("[ab].c", "a.c", True),
    ("[!ab].c", "a.c", False),
    ("[^ab].c", "z.c", True),
    ("x?z", "xyz", True),
    ("trail  ", "trail", True),
    ("*", ".hidden", True),
    ("", "a", False),
    ("/", "a", False),
    ("foo/*", "foo/a", True),
]


@pytest.mark.parametrize(("lines", "name", "ignored"), ROWS)
def test_a_pattern_means_what_it_means_to_git(tmp_path: Path, lines: str, name: str, ignored: bool) -> None:
    (tmp_path / ".gitignore").write_text(lines + "\n")
    rules = gitignore.of(tmp_path)
    assert gitignore.ignores(rules, tmp_path / name.rstrip("/"), is_folder=name.endswith("/")) is ignored


def test_rules_of_folders_above_the_repository_and_the_user_apply(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git/info").mkdir(parents=True)
    (repository / "sub").mkdir()
    (tmp_path / ".gitignore").write_text("outside.txt\n")
    (tmp_path / "git").mkdir()
    (tmp_path / "git/ignore").write_text("mine.txt\n")
    (repository / ".git/info/exclude").write_text("excluded.txt\n")
    (repository / ".gitignore").write_text("/sub/a.txt\n")
    rules = gitignore.for_folder(repository / "sub", {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)
    names = ("mine.txt", "excluded.txt", "a.txt", "outside.txt")
    ignored = [gitignore.ignores(rules, repository / "sub" / name, is_folder=False) for name in names]
    assert ignored == [True, True, True, False]


def test_a_gitignore_that_is_not_a_file_has_no_rules(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    assert gitignore.of(tmp_path) == []
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.gitignore").mkdir()
    assert gitignore.of(tmp_path / "a") == []
    (tmp_path / "b").mkdir()
    (tmp_path / "b/.gitignore").symlink_to("/dev/zero")
    assert gitignore.of(tmp_path / "b") == []


@pytest.mark.parametrize("text", ["*a" * 60 + "b", "**/" * 60 + "b", "?" * 200 + "*" * 60, "[" * 300])
def test_a_hostile_pattern_takes_no_time(text: str) -> None:
    """With plain backtracking, the first pattern would take longer than the age of the universe."""
    pattern = PathPattern.of(text)
    assert pattern is None or not pattern.matches(["a" * 255] * 60)


def test_a_pattern_with_thousands_of_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="too long for a pattern"):
        expand.matching(tmp_path, "*/" * 1000, [])
    with pytest.raises(NotFound):
        expand.folder(tmp_path / "none", [])


def test_an_endless_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(InvalidArgument, match="contains more than 3 files"):
        expand.folder(tmp_path, [])


def test_a_pattern_visits_only_folders_that_can_match(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/x.py").touch()
    (tmp_path / "y.py").touch()
    (tmp_path / "a/b").chmod(0)
    try:
        result = expand.matching(tmp_path, "*.py", [])
    finally:
        (tmp_path / "a/b").chmod(0o700)
    assert [path.name for path in result.files] == ["y.py"]
    assert result.left_out == []
