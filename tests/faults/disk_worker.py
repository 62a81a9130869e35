"""An engine that runs a command per line on a disk that may fail: a question, sweep, backup, check, look."""

from __future__ import annotations

import asyncio
import json
import sys

from counsel.caller import local_caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.store.sqlite import backups, upkeep
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore
from counsel.errors import CounselError
from counsel.requests import ChatRequest


def database(engine: Engine) -> Database:
    """As `support.database`, which a worker cannot import."""
    assert isinstance(engine.store, SqliteStore)
    return engine.store.database


async def do(engine: Engine, command: str) -> object:
    if command == "sweep":
        return await upkeep.sweep(database(engine))
    if command == "backup":
        return str(await asyncio.to_thread(backups.attempt, database(engine).path))
    if command == "check":
        return await asyncio.to_thread(database(engine).check)
    if command == "look":
        await asyncio.wrap_future(database(engine).examine())
        return database(engine).problem
    job = await engine.submit(ChatRequest(prompt=command, model="gpt-5"), local_caller("worker"))
    result = (await engine.wait(job)).to_json()
    return {"content": result["content"], "warnings": result.get("metadata", {}).get("warnings", [])}


async def main() -> None:
    engine = await open_engine(local_caller("worker").settings.home)
    print(json.dumps({"problem": database(engine).problem}), flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        try:
            reply = await do(engine, line)
        except CounselError as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), flush=True)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
