"""A user for whom `counsel servers` runs, with four agents installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.user import User

GOLDEN = Path(__file__).parent.parent / "golden"
TINY = Path(__file__).parent / "mcp_server.py"
QUICK = Path(__file__).parent / "quick_mcp_server.py"


@pytest.fixture
def user(user: User) -> User:
    user.command = "servers"
    user.install("claude", "codex", "gemini", "cursor")
    return user


def golden(client: str, case: str, *parts: str) -> str:
    with GOLDEN.joinpath(client, case, *parts).open(newline="") as file:
        return file.read()


@pytest.fixture(scope="session")
def tiny_port() -> Iterator[int]:
    """A real MCP server on loopback: /mcp is streamable HTTP, /events/sse is SSE."""
    with subprocess.Popen(
        [sys.executable, str(TINY), "http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
