"""Changes in a git repository: what is compared, and that a hostile repository runs nothing and leads nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from counsel.engine.context import git_change
from counsel.errors import InvalidArgument, NotFound
from support.planted import git, repository

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def test_the_working_tree_then_the_branch_then_nothing(project: Path) -> None:
    change = git_change.collect(project, ENV)
    assert change.about == "working tree against HEAD"
    assert "+def find_user(db, name):" in change.diff
    assert " def last_page(items):" in change.diff  # the whole file
    git(project, "checkout", "-qb", "topic")
    git(project, "commit", "-qam", "After")
    change = git_change.collect(project, ENV)
    assert change.about.startswith("HEAD since it branched off main (")
    assert "+def find_user(db, name):" in change.diff
    git(project, "checkout", "-q", "main")
    assert git_change.collect(project, ENV).diff == ""


def test_a_repository_whose_default_branch_has_another_name_says_so(project: Path) -> None:
    git(project, "checkout", "-qb", "topic")
    git(project, "branch", "-m", "main", "trunk")
    assert git_change.collect(project, ENV).note == ""
    git(project, "commit", "-qam", "After")
    change = git_change.collect(project, ENV)
    assert (change.diff, change.about) == ("", "working tree against HEAD")
    assert change.note == "There is no branch main or master to compare HEAD with: name a BASE."


def test_a_base_is_where_the_branches_parted(project: Path) -> None:
    git(project, "checkout", "-qb", "topic")
    git(project, "commit", "-qam", "After")
    git(project, "checkout", "-q", "main")
    (project / "other.py").write_text("x = 1\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "Later, on main")
    git(project, "checkout", "-q", "topic")
    (project / "store.py").write_text("uncommitted\n")
    change = git_change.collect(project, ENV, base="main")
    assert "other.py" not in change.diff
    assert "uncommitted" not in change.diff
    assert change.note == "Uncommitted changes are not included."


def test_staged_changes_and_untracked_files(project: Path) -> None:
    git(project, "add", "tokens.py")
    (project / "new.py").write_text("x\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "a.log").write_text("x\n")
    change = git_change.collect(project / ".", ENV, staged=True)
    assert "tokens.py" in change.diff
    assert "store.py" not in change.diff
    assert set(change.untracked) == {".gitignore", "new.py"}


def test_another_commit_of_a_submodule_is_listed_and_its_folder_is_not_read(project: Path) -> None:
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored")
    (project / "vendored").mkdir()
    (project / "vendored" / ".git").write_text("gitdir: /nonexistent\n")
    assert "+Subproject commit 1111" in git_change.collect(project, ENV, staged=True).diff
    git(project, "commit", "-qm", "With a submodule")
    git(project, "update-index", "--cacheinfo", f"160000,{'2' * 40},vendored")
    assert "vendored" not in git_change.collect(project, ENV).diff
    git(project, "commit", "-qm", "A newer one")
    assert "+Subproject commit 2222" in git_change.collect(project, ENV, base="HEAD~1").diff


def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    assert "+x = 1" in git_change.collect(tmp_path, ENV).diff
    assert "+x = 1" in git_change.collect(tmp_path, ENV, staged=True).diff
    with pytest.raises(InvalidArgument, match="no commit 'main'"):
        git_change.collect(tmp_path, ENV, base="main")


def test_linked_worktrees_subfolders_and_odd_names(project: Path, tmp_path: Path) -> None:
    (project / "deep").mkdir()
    name = 'deep/ä "b"\tc.py'
    (project / name).write_text("x = 1\n")
    git(project, "add", ".")
    change = git_change.collect(project / "deep", ENV)
    assert change.root == project
    from counsel.engine.consult.review import diff

    assert name in [file.path for file in diff.parse(change.diff)]
    git(project, "commit", "-qam", "After")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    (tmp_path / "linked" / "store.py").write_text("changed\n")
    change = git_change.collect(tmp_path / "linked", ENV)
    assert (change.root, "+changed" in change.diff) == (tmp_path / "linked", True)


def test_line_endings_and_modes_are_the_users(project: Path) -> None:
    """With Windows' setting, or on a file system without modes, only what the user changed is a change."""
    git(project, "config", "core.autocrlf", "true")
    git(project, "config", "core.fileMode", "no")
    (project / "store.py").write_bytes(b"a\r\nb\r\n")
    git(project, "commit", "-qam", "Converted")
    (project / "store.py").write_bytes(b"a\r\nB\r\n")
    (project / "tokens.py").chmod(0o755)
    change = git_change.collect(project, ENV)
    assert change.diff.endswith("@@ -1,2 +1,2 @@\n a\n-b\n+B\n")
    assert change.diff.count("diff --git") == 1


def test_a_shallow_clone_says_what_is_missing(project: Path, tmp_path: Path) -> None:
    git(project, "checkout", "-qb", "topic")
    git(project, "commit", "-qam", "After")
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{project}", "clone")
    with pytest.raises(InvalidArgument, match="no common commit") as excinfo:
        git_change.collect(tmp_path / "clone", ENV, base="origin/main")
    assert "fetch-depth" in str(excinfo.value.hint)


def test_a_folder_without_a_repository_and_a_name_without_a_commit(tmp_path: Path, project: Path) -> None:
    with pytest.raises(NotFound, match="not in a git repository"):
        git_change.collect(tmp_path, ENV)
    for name in ("--output=x", "nope", "HEAD~99", "a\nb"):
        with pytest.raises(InvalidArgument):
            git_change.collect(project, ENV, base=name)
    assert not (project / "x").exists()


# ── hostile repositories ─────────────────────────────────────────────────────────────────────────────


def _armed(project: Path, program: Path) -> None:
    """Set up every known way in which a repository can make git run a program."""
    program.write_text('#!/bin/sh\necho ran >> "$(dirname "$0")/ran"\ncat\n')
    program.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "pager.diff",
        "uploadpack.packObjectsHook",
        "gpg.program",
        "alias.diff",
        "alias.rev-parse",
    ):
        git(project, "config", name, f"!{program}" if name.startswith("alias") else str(program))
    git(project, "config", "filter.evil.required", "true")
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        (hooks / hook).write_bytes(program.read_bytes())
        (hooks / hook).chmod(0o755)
    (project / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (project / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")


def test_a_hostile_repository_runs_nothing(project: Path, tmp_path: Path) -> None:
    program, ran = tmp_path / "evil", tmp_path / "ran"
    _armed(project, program)
    subprocess.run(["git", "diff"], cwd=project, capture_output=True, check=False, timeout=60, env=ENV)
    assert ran.exists()  # git itself does run it
    ran.unlink()
    hostile = {
        **ENV,
        "GIT_EXTERNAL_DIFF": str(program),
        "GIT_PAGER": str(program),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(program),
    }
    assert "+def find_user" in git_change.collect(project, hostile).diff
    git_change.collect(project, hostile, staged=True)
    git_change.collect(project, hostile, base="HEAD")
    assert not ran.exists()
    assert not (project / ".git" / "index.lock").exists()


def test_a_missing_object_is_not_fetched(project: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(project, "commit", "-qam", "After")
    for value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::sh -c 'echo ran > {ran}'"),
    ):
        git(project, "config", *value)
    blob = git(project, "rev-parse", "HEAD~1:store.py").strip()
    (project / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises((NotFound, InvalidArgument)):
        git_change.collect(project, ENV, base="HEAD~1")
    assert not ran.exists()


@pytest.fixture
def submodule(project: Path, tmp_path: Path) -> Path:
    """A submodule of `project` with a change. Its git folder is in the project's."""
    inner = repository(tmp_path / "inner")
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vendored")
    (project / "vendored" / "store.py").write_text("changed in the submodule\n")
    return project / "vendored"


def test_the_change_of_a_submodule_is_read_in_its_own_folder(submodule: Path) -> None:
    assert (submodule / ".git").is_file()
    change = git_change.collect(submodule, ENV)
    assert (change.root, "+changed in the submodule" in change.diff) == (submodule, True)


@pytest.mark.parametrize("worktree", ["../../../..", "../../..", None])
def test_a_submodules_git_folder_that_belongs_to_another_folder_is_not_followed(
    project: Path, submodule: Path, worktree: str | None
) -> None:
    git_folder = project / ".git" / "modules" / "vendored"
    if worktree is None:
        git(git_folder, "config", "--file", "config", "--unset", "core.worktree")
    else:
        git(git_folder, "config", "--file", "config", "core.worktree", worktree)
    with pytest.raises(InvalidArgument, match="leads to another repository"):
        git_change.collect(submodule, ENV)


def test_a_change_that_is_too_large_is_compared_with_less_around_it_and_then_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "long.py").write_text("".join(f"line {number}\n" for number in range(2_000)))
    git(project, "add", ".")
    git(project, "commit", "-qm", "Long")
    (project / "long.py").write_text("".join(f"line {number}\n" for number in range(1, 2_000)))
    whole = git_change.collect(project, ENV).diff
    assert " line 1999\n" in whole
    monkeypatch.setattr(git_change, "LARGEST", len(whole))
    brief = git_change.collect(project, ENV).diff
    assert "-line 0\n" in brief
    assert " line 1999\n" not in brief
    monkeypatch.setattr(git_change, "LARGEST", len(brief))
    with pytest.raises(InvalidArgument, match="The change is larger than"):
        git_change.collect(project, ENV)


def test_without_git_a_diff_can_be_passed(project: Path, tmp_path: Path) -> None:
    for folder, words in (
        (tmp_path / "empty", "git was not found"),
        (tmp_path / "broken", "git cannot be started"),
    ):
        folder.mkdir()
        if folder.name == "broken":
            (folder / "git").write_text("#!/nowhere/sh\n")
            (folder / "git").chmod(0o755)
        with pytest.raises(NotFound, match=words) as excinfo:
            git_change.collect(project, {**ENV, "PATH": str(folder)})
        assert "--diff" in (excinfo.value.hint or "")


def test_of_the_files_that_git_does_not_know_the_first_ones_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_change, "_MOST_UNTRACKED", 2)
    for name in ("b", "a", "c"):
        (project / name).touch()
    assert git_change.collect(project, ENV).untracked == ("a", "b")


def test_before_the_first_commit_nothing_can_be_compared_with_a_base(tmp_path: Path, project: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "fetch", "-q", str(project), "HEAD:refs/heads/other")
    with pytest.raises(InvalidArgument, match="no commits yet") as excinfo:
        git_change.collect(tmp_path, ENV, base="other")
    assert "--staged" in (excinfo.value.hint or "")


def test_a_git_folder_of_another_repository_is_not_followed(project: Path, tmp_path: Path) -> None:
    """Otherwise a folder could cause the user's other code to be sent."""
    git(project, "commit", "-qam", "After")
    by_file, by_link = tmp_path / "file", tmp_path / "link"
    by_file.mkdir()
    (by_file / ".git").write_text(f"gitdir: {project}/.git\n")
    by_link.mkdir()
    (by_link / ".git").symlink_to(project / ".git")
    for folder in (by_file, by_link):
        with pytest.raises(InvalidArgument, match="leads to another repository"):
            git_change.collect(folder, ENV)


def test_a_work_tree_elsewhere_is_not_read(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "private"
    secret.mkdir()
    (secret / "store.py").write_text("private\n")
    git(project, "config", "core.worktree", str(secret))
    change = git_change.collect(project, ENV)
    assert change.root == project
    assert "private" not in change.diff


def test_a_link_in_the_work_tree_is_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private text\n")
    (project / "store.py").unlink()
    (project / "store.py").symlink_to(tmp_path / "private")
    assert "private text" not in git_change.collect(project, ENV).diff
