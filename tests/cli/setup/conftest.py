"""A user for whom `counsel setup` runs, with no agent of this machine on PATH."""

from __future__ import annotations

import os

import pytest

from support.user import User


@pytest.fixture
def user(user: User, monkeypatch: pytest.MonkeyPatch) -> User:
    user.command = "setup"
    user.install()
    monkeypatch.setenv("PATH", f"{user.programs}{os.pathsep}/usr/bin:/bin")
    monkeypatch.delenv("COUNSEL_HOME")  # an entry names it where it is set
    return user
