from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from doors.window import daemon_pid, gone


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A COUNSEL_HOME whose daemon ends with the test."""
    (tmp_path / "home").mkdir()
    yield tmp_path / "home"
    if (pid := daemon_pid(tmp_path / "home")) is not None:
        os.kill(pid, signal.SIGKILL)
        await gone(tmp_path / "home")
