"""Which files of a folder are sent, and why others are left out."""

from __future__ import annotations

from pathlib import Path

from counsel.engine.context import expand


def test_why_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    for folder in (base / "src" / "build", base / ".git", base / "node_modules", outside):
        folder.mkdir(parents=True)
    for name in ("a.py", "src/b.py", "src/build/c.py", "notes.log", ".git/config", "node_modules/d.js"):
        (base / name).write_text("x")
    (base / ".gitignore").write_text("build/\n*.log\n")
    (base / "build").symlink_to(outside)
    (base / "inside.py").symlink_to(base / "a.py")
    expansion = expand.folder(base, [])
    assert [str(path.relative_to(base)) for path in expansion.files] == [".gitignore", "a.py", "src/b.py"]
    assert (
        {str(entry.path.relative_to(base)): entry.why for entry in expansion.left_out}
        == {
            ".git": "it is git's own folder",
            "node_modules": "it contains installed packages",
            "notes.log": "ignored by .gitignore",
            "src/build": "ignored by .gitignore",
            "build": "a link that leads out of the folder",  # as in git, a rule for folders does not apply to links
        }
    )


def test_a_pattern_and_the_folder_before_it(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "sub/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert expand.has_pattern("src/*.py")
    assert not expand.has_pattern("src/a.py")
    base, pattern = expand.split(tmp_path / "sub" / "*.py")
    assert (base, pattern) == (tmp_path / "sub", "*.py")
    assert expand.split(tmp_path / "a.py") == (tmp_path / "a.py", "")
    assert [path.name for path in expand.matching(tmp_path, "*.py", []).files] == ["a.py"]
    assert [path.name for path in expand.matching(tmp_path, "**/*.py", []).files] == ["a.py", "c.py"]
