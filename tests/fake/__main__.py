"""`python -m fake --port 0`: prints one JSON line with its addresses, serves until SIGTERM.

`--host` reads lines instead: `start` starts a fake on a free port and prints that JSON line, `stop PORT` stops it and
prints `null`; all of them end with stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from typing import Any

from .server import FakeAPI


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fake", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", action="store_true", help="start and stop fakes as the lines of stdin say")
    options = parser.parse_args()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.host:
        host = asyncio.create_task(serve_lines())
        host.add_done_callback(lambda _: stop.set())
        await stop.wait()
        host.cancel()
        return
    fake = await FakeAPI().start(options.port)
    reply(addresses(fake))
    await stop.wait()
    await fake.stop()


async def serve_lines() -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    fakes: dict[int, FakeAPI] = {}
    while line := (await lines.readline()).decode().split():
        if line == ["start"]:
            fake = await FakeAPI().start()
            fakes[fake.port] = fake
            reply(addresses(fake))
        else:
            await fakes.pop(int(line[1])).stop()
            reply(None)


def addresses(fake: FakeAPI) -> dict[str, Any]:
    return {"url": fake.url, "v1": fake.v1, "port": fake.port, "pid": os.getpid()}


def reply(document: Any) -> None:
    sys.stdout.write(f"{json.dumps(document)}\n")
    sys.stdout.flush()


asyncio.run(main())
