"""A home or a parent folder that belongs to another user, as after `sudo -u` or in a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.doctor import checks
from counsel.engine.jobs import tags
from counsel.overview import agents_overview


@pytest.fixture
def unreachable_folder(tmp_path: Path) -> Iterator[Path]:
    own = Caller(
        "test", cwd=tmp_path, settings=settings.load({"HOME": str(tmp_path), "COUNSEL_HOME": str(tmp_path)})
    )
    checks.examine(own)  # imports what it needs: Python itself may be out of another user's reach
    agents_overview(own)
    folder = tmp_path / "theirs" / "inside"
    folder.mkdir(parents=True)
    (tmp_path / "theirs").chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            folder.stat()
        yield folder
    finally:
        if root:
            os.seteuid(0)
        (tmp_path / "theirs").chmod(0o700)


@pytest.fixture
def caller(unreachable_folder: Path) -> Caller:
    env = {
        "HOME": str(unreachable_folder),
        "PATH": "/usr/bin:/bin",
        "COUNSEL_HOME": str(unreachable_folder / "counsel"),
    }
    return Caller("test", cwd=unreachable_folder, settings=settings.load(env))


def test_a_question_can_be_asked_from_there(unreachable_folder: Path) -> None:
    assert tags.project(unreachable_folder) == str(unreachable_folder)


def test_agents_are_listed(caller: Caller) -> None:
    assert [matches["agent"] for matches in agents_overview(caller)] == [
        "claude",
        "codex",
        "gemini",
        "cursor",
        "opencode",
    ]


def test_no_check_of_the_doctors_breaks(caller: Caller) -> None:
    assert [finding for finding in checks.examine(caller) if "the check failed" in finding.what] == []
