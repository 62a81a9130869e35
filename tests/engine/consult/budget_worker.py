"""A process that asks one question many times at once and prints the codes of the outcomes.

Usage: budget_worker.py COUNT. Environment variables set the vendors' addresses and the budget.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import CounselError
from counsel.requests import ChatRequest


async def main(count: int) -> None:
    config = settings.load()
    caller = Caller("worker", cwd=Path.cwd(), settings=config)
    engine = await open_engine(config.home)
    engine.register_caller(caller)
    _say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    codes = await asyncio.gather(*(_ask(engine, caller) for _ in range(count)))
    _say(json.dumps(Counter(codes)))
    await engine.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _ask(engine: Engine, caller: Caller) -> str:
    try:
        await engine.wait(await engine.submit(ChatRequest(prompt="hello", model="penny"), caller))
    except CounselError as error:
        return error.code
    return "answered"


asyncio.run(main(int(sys.argv[1])))
