"""A team's servers: jobs per second and CPU per job on SQLite and PostgreSQL, and how many live streams they carry.

    python -m bench.team [JOBS]

Jobs: chats to a fake vendor that answers at once, 32 at a time, spread over one, two and four servers. CPU is that of
counsel's processes and of PostgreSQL's. Streams: jobs of one server whose vendor sends 20 deltas a second, each followed on
another server; an event's delay is from when its owner made it until the follower has it. More and more streams, until the
p95 passes 500 ms. A busy machine changes all times; CPU per job and ratios stay comparable.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fake import FakeProcess
from support.postgres_server import PostgresServer, required
from support.provider_keys import keys
from team import load
from team.fleet import Fleet, Member

AT_ONCE = 32
STREAMS = (10, 20, 40, 80, 160, 320)
LIMIT = 0.5  # seconds of p95
SECONDS = 8.0  # of each stream
_TICK = os.sysconf("SC_CLK_TCK")


def cpu(pids: Iterable[int], *, children: bool = False) -> float:
    """Seconds of these processes; `children`: also of those that they have started, alive or not."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15] if children else fields[11:13]))
        if children:
            total += round(cpu(descendants(pid)) * _TICK)
    return total / _TICK


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


async def jobs(fleet: Fleet, count: int) -> float:
    """Seconds for so many questions."""
    room = asyncio.Semaphore(AT_ONCE)

    async def ask(number: int) -> None:
        body = {"prompt": f"question {number}", "model": "gpt-5", "mode": "sync"}
        async with (
            room,
            fleet.session.post(
                f"{fleet.members[number % len(fleet.members)].url}/api/jobs", json=body
            ) as response,
        ):
            assert response.status == 200, await response.text()
            await response.read()

    began = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(count)))
    return time.perf_counter() - began


async def throughput(
    folder: Path, server: PostgresServer | None, servers: int, fake: FakeProcess, count: int
) -> None:
    fake.set(default={})
    url = server.url("counsel") if server else ""
    async with Fleet(folder, url, keys(fake)) as fleet:
        for number in range(servers):
            fleet.add("serve", f"server-{number}")
        await fleet.start()
        await jobs(fleet, AT_ONCE * servers)  # the first calls import and connect
        pids = [member.pid for member in fleet.members]
        before, database = cpu(pids), cpu([server.pid], children=True) if server else 0.0
        seconds = await jobs(fleet, count)
        ours = (cpu(pids) - before) / count * 1000
        theirs = ((cpu([server.pid], children=True) if server else 0.0) - database) / count * 1000
    name = f"PostgreSQL, {servers} server{'s' if servers > 1 else ''}" if server else "SQLite, 1 server"
    print(
        f"{name:<24}{count / seconds:8.1f} jobs/s {ours:8.2f} ms CPU/job {theirs:8.2f} ms PostgreSQL/job",
        flush=True,
    )


async def streams(folder: Path, server: PostgresServer, fake: FakeProcess) -> None:
    deltas = int(SECONDS * 20)
    words = " ".join(f"word{number:04d}" for number in range(deltas))
    fake.set(default={"text": words, "deltas": deltas, "chunk_delay": 0.05})
    async with Fleet(folder, server.url("counsel"), {**keys(fake), "COUNSEL_CONCURRENCY": "1000"}) as fleet:
        runs, follows = fleet.add("serve", "runs"), fleet.add("serve", "follows")
        await fleet.start()
        for count in STREAMS:
            before = cpu([runs.pid]), cpu([follows.pid]), cpu([server.pid], children=True)
            delays = await followed(fleet, runs, follows, count)
            after = cpu([runs.pid]), cpu([follows.pid]), cpu([server.pid], children=True)
            used = [
                f"{(later - earlier) / SECONDS * 100:4.0f} %"
                for earlier, later in zip(before, after, strict=True)
            ]
            p50, p95 = statistics.median(delays), statistics.quantiles(delays, n=20)[18]
            print(
                f"{count:4} streams: {len(delays):6} events, delay p50 {p50 * 1000:5.0f} ms, p95 {p95 * 1000:5.0f} ms; "
                f"CPU of the owner {used[0]}, of the follower {used[1]}, of PostgreSQL {used[2]}",
                flush=True,
            )
            if p95 > LIMIT:
                return


async def followed(fleet: Fleet, runs: Member, follows: Member, count: int) -> list[float]:
    delays: list[float] = []

    async def one(number: int) -> None:
        body = {"prompt": f"stream {number}", "model": "gpt-5", "mode": "background"}
        async with fleet.session.post(f"{runs.url}/api/jobs", json=body) as response:
            job = (await response.json())["job_id"]
        async with fleet.session.get(f"{follows.url}/api/jobs/{job}/events") as response:
            async for _, event in load.events(response):
                if event["kind"] == "text":
                    delays.append(time.time() - event["at"])

    await asyncio.gather(*(one(number) for number in range(count)))
    return delays


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    server = PostgresServer(required())
    try:
        with FakeProcess() as fake:
            for servers in (0, 1, 2, 4):
                with tempfile.TemporaryDirectory() as folder, server.migrated():
                    database = server if servers else None
                    asyncio.run(throughput(Path(folder), database, servers or 1, fake, count))
            with tempfile.TemporaryDirectory() as folder, server.migrated():
                asyncio.run(streams(Path(folder), server, fake))
    finally:
        server.end()
    print(f"load average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
