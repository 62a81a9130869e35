"""A backup while jobs run: `python -m team.restore` (`make restore-check`).

`pg_dump` runs while two servers answer questions. The dump is restored into another database, all servers are killed,
and one starts on the restored database: jobs that were open in the dump continue there, and ended ones are intact.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fake import FakeProcess
from support.postgres_server import PostgresServer, programs, required_programs
from support.provider_keys import keys
from team import load
from team.fleet import Fleet
from team.upgrade import ROOT, migrate

JOBS = 60
LIMIT = 180.0  # seconds until the restored jobs must have ended


def run(program: str, *arguments: str) -> None:
    """Run a PostgreSQL program. `initdb` may be a link in a different folder than the other programs."""
    paths = programs()
    assert paths is not None
    executable = shutil.which(program) or (paths / "initdb").resolve().with_name(program)
    subprocess.run([executable, *arguments], check=True)


async def restore(
    folder: Path, server: PostgresServer, url: str, copy_url: str, fake: FakeProcess
) -> dict[str, Any]:
    fake.set(default={"latency": 1.0, "chunk_delay": 0.5, "deltas": 6})
    before = url.partition("?")[0].rpartition("/")[2]
    after = copy_url.partition("?")[0].rpartition("/")[2]
    dump = str(folder / "dump")
    async with Fleet(folder, url, keys(fake)) as fleet:
        for number in range(2):
            fleet.add("serve", f"server-{number}")
        await fleet.start()
        submissions = [
            load.consensus(f"dispute {n:04d}.") if n % 3 == 0 else load.chat(f"question {n:04d}.")
            for n in range(JOBS)
        ]
        following = [
            asyncio.create_task(load.follow_when_asked(fleet, job, n * 0.2))
            for n, job in enumerate(submissions)
        ]
        await asyncio.to_thread(fake.wait_for, count=JOBS // 2, state="finished", timeout=120)
        began = time.monotonic()
        await asyncio.to_thread(run, "pg_dump", "--format=custom", f"--file={dump}", url)
        seconds = time.monotonic() - began
        await asyncio.gather(*following)  # the dump disturbs nothing
        status_counts = Counter(
            str(row[0]) for row in server.execute("SELECT status FROM counsel.jobs", before)
        )
        for member in fleet.members:
            await member.kill()
        await asyncio.to_thread(
            run, "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={copy_url}", dump
        )
        sums = "SELECT status, count(*), sum(attempt) FROM counsel.jobs GROUP BY status"
        restored_sums = {str(row[0]): row[1] for row in server.execute(sums, after)}
        survivor = fleet.members[0]
        survivor.env = {**survivor.env, "COUNSEL_DATABASE": copy_url}
        await survivor.start()
        await survivor.ready(fleet.session)
        until = time.monotonic() + LIMIT
        while server.execute("SELECT 1 FROM counsel.jobs WHERE status = 'processing'", after):
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.5)
        sums_after = {str(row[0]): row[1] for row in server.execute(sums, after)}
        turns = server.execute(
            "SELECT count(*) FROM counsel.jobs j WHERE (SELECT count(*) FROM counsel.messages m WHERE m.job = j.id) != 2",
            after,
        )
        sys.stderr.write("" if set(sums_after) == {"completed"} else survivor.log[-3000:])
    return {
        "seconds of pg_dump": round(seconds, 2),
        "original": status_counts,
        "in the dump": restored_sums,
        "after the restored jobs went on": sums_after,
        "jobs without exactly one turn": turns[0][0],
    }


def main() -> None:
    server = PostgresServer(required_programs())
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            server.empty() as url,
            server.empty() as copy_url,
            FakeProcess() as fake,
        ):
            migrate(url, ROOT / "src")
            report = asyncio.run(restore(Path(folder), server, url, copy_url, fake))
    finally:
        server.end()
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    failures = report["jobs without exactly one turn"] or set(report["after the restored jobs went on"]) != {
        "completed"
    }
    sys.exit(1 if failures or report["original"] != {"completed": JOBS} else 0)


if __name__ == "__main__":
    main()
