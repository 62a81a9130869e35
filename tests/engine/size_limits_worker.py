"""Asks a server that never stops answering, in a process of its own; prints the outcome and the peak memory."""

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
    results = {}
    try:
        job = await engine.submit(ChatRequest(prompt="hi", model="deepseek/deepseek-chat"), local_caller())
        result = (await engine.wait(job)).to_json()
        results = {"length": len(result["content"]), "finish": result["metadata"]["finish_reason"]}
    except CounselError as error:
        results = {"code": error.code}
    await engine.close()
    json.dump({**results, "mib": most() - before}, sys.stdout)


asyncio.run(main())
