"""Our transport and wires against plain aiohttp: CPU of one call with a stream of 20 deltas, in one run.

`python -m bench.wires`. The fake vendor runs in a separate process, so its work is not counted.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import aiohttp

from counsel.models.transport import Transport
from counsel.models.wires import WIRES
from counsel.types import Call, Endpoint, Model, Provider, Turn
from fake import FakeProcess

CALLS, ROUNDS = 150, 5
CALL = Call((Turn("user", "hello " * 50),))


async def measured(once: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of CPU per call."""
    await once()
    before = time.process_time()
    for _ in range(CALLS):
        await once()
    return (time.process_time() - before) / CALLS * 1000


async def compare(fake: FakeProcess, wire: str) -> tuple[float, float]:
    base = fake.v1 if wire.startswith("openai") else fake.url
    model, endpoint = Model("m", wire, "m"), Endpoint(Provider(wire, wire, wire, base), base, "k")
    request = WIRES[wire].prepare(CALL, model, endpoint)
    transport = Transport()

    async def bare() -> None:
        async with session.post(request.url, json=request.body, headers=request.headers) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    json.loads(line[6:])

    async def ours() -> None:
        async for _ in transport.stream(CALL, model, endpoint):
            pass

    pairs = []
    async with aiohttp.ClientSession() as session:
        for _ in range(ROUNDS):
            pairs.append((await measured(bare), await measured(ours)))  # noqa: PERF401 (one after the other)
    await transport.close()
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


async def main() -> None:
    with FakeProcess() as fake:
        fake.set(default={"deltas": 20, "text": "a few words more " * 20})
        print(f"{'wire':20}{'bare aiohttp':>14}{'counsel':>10}{'ratio':>8}   (ms CPU per call, 20 deltas)")
        for wire in WIRES:
            bare, ours = await compare(fake, wire)
            print(f"{wire:20}{bare:14.3f}{ours:10.3f}{ours / bare:8.2f}")


if __name__ == "__main__":
    asyncio.run(main())
