"""One question to a server that never ends, in a process of its own: what it came to, and the most memory that it took."""

from __future__ import annotations

import asyncio
import json
import resource
import sys

from counsel.caller import local_caller
from counsel.engine.engine import open_engine
from counsel.errors import CounselError
from counsel.requests import ChatRequest


def most() -> float:
    """MiB; on Linux `ru_maxrss` is in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def main() -> None:
    engine = await open_engine()
    before = most()
    shown = {}
    try:
        job = await engine.submit(ChatRequest(prompt="hi", model="deepseek/deepseek-chat"), local_caller())
        result = (await engine.wait(job)).to_json()
        shown = {"length": len(result["content"]), "finish": result["metadata"]["finish_reason"]}
    except CounselError as error:
        shown = {"code": error.code}
    await engine.close()
    json.dump({**shown, "mib": most() - before}, sys.stdout)


asyncio.run(main())
