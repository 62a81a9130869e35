"""Real clients and agents from npm (`make clients`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(
    os.environ.get("COUNSEL_TEST_CLIENTS") or ROOT / ".cache" / "clients" / "node_modules" / ".bin"
)
# Node keeps what it has compiled: half a second of a start of Gemini CLI.
COMPILED = {"NODE_COMPILE_CACHE": str(ROOT / ".cache" / "node-compile-cache")}


def program(name: str) -> str:
    """The program's path. If it is missing, the test is skipped with the reason, and fails in CI."""
    path = shutil.which(name, path=str(CLIENTS))
    if path is None:
        missing(f"{name} is not in {CLIENTS}: run `make clients` or set COUNSEL_TEST_CLIENTS")
    return path


def missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def environment(home: Path, **more: str) -> dict[str, str]:
    path = f"{CLIENTS}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", **more}
