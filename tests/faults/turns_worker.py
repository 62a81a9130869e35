"""An engine in a process that may be killed: each line of stdin is a turn to submit, each line of stdout its job.

With `starve` it has no file descriptor left: it can check no process, and must consider none dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys

from counsel.caller import local_caller
from counsel.engine.engine import open_engine
from counsel.requests import ChatRequest


def use_up_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with contextlib.suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)


async def main() -> None:
    caller = local_caller("worker")
    engine = await open_engine(caller.settings.home)
    engine.register_caller(caller)
    loop = asyncio.get_running_loop()
    lines = loop.run_in_executor(None, sys.stdin.readline)
    if sys.argv[1:] == ["starve"]:
        use_up_descriptors()
    print("ready", flush=True)
    while line := await lines:
        lines = loop.run_in_executor(None, sys.stdin.readline)
        turn = json.loads(line)
        request = ChatRequest(prompt=turn["prompt"], model="gpt-5", continuation_id=turn["conversation"])
        job = await engine.submit(request, caller, background=True, key=turn["key"])
        print(job, flush=True)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
