"""Runs clients of `/v1` from npm and PyPI (`make clients`) as processes of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from support.api_client import TOKEN
from support.client_programs import ROOT, missing

_PACKAGES = ROOT / ".cache" / "sdks" / "node_modules"
_PYTHON = ROOT / ".cache" / "python"
_TOO_NEW = {"aider": (3, 13)}  # the first Python for which the client has no release


def python(client: str, program: str = "python") -> str:
    """A program in the environment of one of the Python clients."""
    path = _PYTHON / client / "bin" / program
    if not path.exists():
        if sys.version_info >= _TOO_NEW.get(client, (4,)):
            pytest.skip(f"{client} has no release for this Python")
        missing(f"{client} is not in {_PYTHON}: run `make clients`")
    return str(path)


def node_project(folder: Path) -> Path:
    """A folder in which scripts can import the packages from npm."""
    if not _PACKAGES.is_dir():
        missing(f"{_PACKAGES} does not exist: run `make clients`")
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(_PACKAGES)
    return folder


def node() -> str:
    return shutil.which("node") or missing("node is not installed")


def environment(home: Path, url: str, **more: str) -> dict[str, str]:
    """Without this machine's own keys and settings. `COUNSEL_URL` is the server's address."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "COUNSEL_URL": url,
        "COUNSEL_TOKEN": TOKEN,
        **more,
    }


async def run(*command: str, cwd: Path, env: dict[str, str], expect: int | None = 0) -> str:
    """Run a command and return its output on both streams. `expect`: the exit code; None: any."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 600)  # against a hang
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace")
    assert expect is None or process.returncode == expect, text
    return text
