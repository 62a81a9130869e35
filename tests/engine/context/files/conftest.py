"""A project inside the user's home, and its caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def caller(project: Path) -> Callable[..., Caller]:
    def make(roots: Any = (), cwd: Any = project, **env: str) -> Caller:
        home = {"HOME": str(project.parent), "COUNSEL_HOME": str(project.parent.parent / "counsel")}
        return Caller(cwd=cwd, roots=tuple(roots), settings=settings.load({**home, **env}))

    return make
