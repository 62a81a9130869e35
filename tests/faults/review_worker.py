"""An engine in a process that may be killed: it reviews a repository, always by the same key, and prints the result."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from counsel.caller import local_caller
from counsel.engine.consult.review import source
from counsel.engine.engine import open_engine

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")


async def main(project: Path) -> None:
    caller = replace(local_caller("worker"), cwd=project)
    engine = await open_engine(caller.settings.home)
    request = source.request(source.from_git(caller), MODELS)
    job = await engine.submit(request, caller, background=True, key="the-review")
    print(json.dumps((await engine.wait(job)).to_json()))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
