"""The cost of deleting expired jobs: `python -m bench.upkeep [JOBS]`.

Fills a database with expired jobs, deletes them during other writes, and prints how long those writes waited and how
large the files are afterwards.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

from counsel.engine.store.sqlite import files, upkeep
from counsel.engine.store.sqlite.database import Database

_DAY = 86400


def fill(path: Path, jobs: int) -> None:
    Database(path).close()
    at = time.time() - 4 * _DAY
    with closing(sqlite3.connect(path)) as db, db:
        for n in range(jobs):
            job = f"job-{n}"
            db.execute(
                "INSERT INTO jobs (id, tool, conversation, status, background, created, finished, owner, fingerprint, caller, task, models, total, result) "
                "VALUES (?,'chat',?,'completed',0,?,?,'o','f','{}','{}','[]',1,?)",
                (job, f"talk-{n}", at, at, "r" * 2000),
            )
            db.execute("INSERT INTO calls VALUES (?, 'answer', ?, ?)", (job, at, "c" * 1500))
            for seq in range(4):
                db.execute("INSERT INTO events VALUES (?,?,?,'text','0',?)", (job, seq, at, "e" * 400))


async def measure(path: Path) -> None:
    database = Database(path)
    before = files.size(path)
    began = time.monotonic()
    sweeping = asyncio.ensure_future(upkeep.sweep(database))
    waits: list[float] = []
    while not sweeping.done():
        start = time.monotonic()
        await database.write(lambda db: db.execute("UPDATE jobs SET stuck = 0 WHERE id = 'none'"))
        waits.append(time.monotonic() - start)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(sweeping), 0.02)
    took = time.monotonic() - began
    log = files.size(files.wal_files(path)[0])
    waits.sort()
    sys.stdout.write(
        f"{await sweeping:,} jobs deleted in {took:.1f} s; {len(waits)} other writes waited {waits[len(waits) // 2] * 1e3:.0f} ms "
        f"(median), {waits[-1] * 1e3:.0f} ms (longest); file {before / 2**20:.0f} → {files.size(path) / 2**20:.1f} MiB, log {log / 2**20:.1f} MiB\n"
    )
    database.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "home" / "counsel.db"
        fill(path, int(sys.argv[1]) if len(sys.argv) > 1 else 80_000)
        asyncio.run(measure(path))


if __name__ == "__main__":
    main()
