"""`python -m fake --port 0`: prints one JSON line with its addresses, serves until stdin closes or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys

from .server import FakeAPI


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fake", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--until-eof", action="store_true", help="end when stdin closes (the parent died)")
    options = parser.parse_args()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if options.until_eof:

        def read() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                ended.set()

        loop.add_reader(sys.stdin.fileno(), read)
    fake = await FakeAPI().start(options.port)
    sys.stdout.write(
        json.dumps({"url": fake.url, "v1": fake.v1, "port": fake.port, "pid": os.getpid()}) + "\n"
    )
    sys.stdout.flush()
    await ended.wait()
    await fake.stop()


asyncio.run(main())
