"""A laptop that joins a team's server."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path


async def login(home: Path, url: str, token: str) -> str:
    """`counsel login`, with the token on its standard input."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "counsel", "login", url, "--token-stdin"),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(token.encode()), 60)
    assert process.returncode == 0, out.decode()
    return out.decode()
