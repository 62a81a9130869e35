from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any


async def serve(home: Path, *args: str, **env: str) -> tuple[Any, str, str]:
    """`counsel serve` on a free port: its process, its address and what it has written to stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "counsel", "serve", "--port", "0", *args),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home), **env},
        cwd=env.get("CLIENT_CWD"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    output = ""
    while not (match := re.search(r"(http://\S+)/mcp", output)):
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line, output
        output += line.decode()
    return process, match[1], output
