"""An engine in a process that may be killed: it submits jobs by key (the same key is the same job) and waits for
all."""

from __future__ import annotations

import asyncio
import sys

from counsel.caller import local_caller
from counsel.engine.engine import open_engine
from counsel.requests import ConsensusRequest

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")


async def main(count: int) -> None:
    caller = local_caller("worker")
    engine = await open_engine(caller.settings.home)
    jobs = [
        await engine.submit(
            ConsensusRequest(prompt=f"question {n:04d}.", models=MODELS),
            caller,
            background=True,
            key=f"job-{n}",
        )
        for n in range(count)
    ]
    print("submitted", flush=True)
    for job in jobs:
        await engine.wait(job)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
