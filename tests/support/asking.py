"""Asks an engine and waits for the answer."""

from __future__ import annotations

import asyncio
from typing import Any

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.requests import ChatRequest


async def ask(engine: Engine, caller: Caller, prompt: str = "hello", **fields: Any) -> Any:
    job = await engine.submit(ChatRequest(prompt=prompt, **{"model": "gpt-5", **fields}), caller)
    return (await engine.wait(job)).to_json()


async def until_text(engine: Engine, job: str) -> Any:
    while True:
        status = (await engine.status(job)).to_json()["content"]
        if status.get("partial"):
            return status
        await asyncio.sleep(0)
