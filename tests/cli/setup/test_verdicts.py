"""How setup reads what an agent's own command prints about counsel, and how it ends a command that hangs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counsel.cli.setup import verify as setup_verify


@pytest.mark.parametrize(
    ("check", "line", "connects"),
    [
        ("_claude", "counsel: counsel stdio - ✔ Connected", True),
        ("_claude", "counsel: counsel stdio - ✘ Failed to connect", False),
        ("_claude", "", False),
        ("_gemini", "✓ counsel: counsel stdio (stdio) - Connected", True),
        ("_gemini", "✗ counsel: counsel stdio (stdio) - Disconnected", False),
        ("_gemini", "", False),
    ],
)
async def test_only_a_connection_is_a_success(
    monkeypatch: pytest.MonkeyPatch, check: str, line: str, connects: bool
) -> None:
    async def mcp_list(_step: Any, _env: Any) -> str:
        return f"other: x - Connected\n{line}\n"

    monkeypatch.setattr(setup_verify, "_mcp_list", mcp_list)
    verdict = await getattr(setup_verify, check)(None, {})
    assert verdict[0] is connects
    if not connects:
        assert (line or "no line about counsel") in verdict[1]


async def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 600 & echo ready; wait", stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"ready\n"
        await setup_verify._kill(process)
        assert process.returncode == -9
        assert await process.stdout.read() == b""  # at an end only when the child, too, has closed it
    await setup_verify._kill(process)  # already gone
