"""One consensus with a judge, in a process that may be killed: the same key is the same job."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from counsel.caller import local_caller
from counsel.engine.engine import open_engine
from counsel.requests import ConsensusRequest

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")


async def main(fields: dict[str, Any]) -> None:
    caller = local_caller("worker")
    engine = await open_engine(caller.settings.home)
    choices = tuple(fields.pop("choices", ()))
    request = ConsensusRequest(
        prompt="Tabs or spaces?",
        models=MODELS,
        choices=choices,
        order="sequential",
        judge="deepseek-v3",
        refine="disagreement",
        **fields,
    )
    job = await engine.submit(request, caller, background=True, key="the-one")
    result = (await engine.wait(job)).to_json()
    await engine.close()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
