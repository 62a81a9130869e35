"""A team's servers: jobs per second and CPU per job on SQLite and PostgreSQL, and how many live streams they handle.

    python -m bench.team [JOBS] [servers workers streams]

Jobs: chats with a fake vendor that answers at once, 32 at a time. `servers`: one, two and four servers, each of which
runs its own jobs. `workers`: one server that only answers requests, and one, two and four workers that run all jobs.
CPU is that of counsel's processes and of PostgreSQL's.

Streams: jobs of one, two and four workers whose vendor sends 20 deltas a second, each followed at a server. An event's
delay is the time from its owner to the follower. The number of streams grows until the p95 exceeds 500 ms. On a busy
machine all times change; CPU per job and ratios stay comparable.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fake import FakeProcess
from support.postgres_server import PostgresServer, required_programs
from support.provider_keys import keys
from team import load
from team.fleet import Fleet, Member

AT_ONCE = 32
STREAMS = (20, 80, 160, 240, 320, 400, 480, 640, 960)
WORKERS = (1, 2, 4)
LIMIT = 0.5  # seconds of p95
SECONDS = 8.0  # the length of a measurement
LENGTH = 120  # seconds of each stream: it is cancelled after the measurement
MANY = dict.fromkeys(
    (
        "COUNSEL_CONCURRENCY",
        "COUNSEL_MAX_CONCURRENT",
        "COUNSEL_MAX_CONCURRENT_PER_PROVIDER",
        "COUNSEL_MAX_CONNECTIONS",
    ),
    "4000",
)
_TICK = os.sysconf("SC_CLK_TCK")


def cpu(pids: Iterable[int], *, children: bool = False) -> float:
    """CPU seconds of these processes; `children`: and of those that they started, alive or not."""
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
    child_ids = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        child_ids += [int(child) for child in task.read_text().split()]
    return child_ids


async def jobs(fleet: Fleet, count: int) -> float:
    """Seconds for `count` questions."""
    room = asyncio.Semaphore(AT_ONCE)
    servers = [member for member in fleet.members if member.kind == "serve"]

    async def ask(number: int) -> None:
        body = {"prompt": f"question {number}", "model": "gpt-5", "mode": "sync"}
        async with (
            room,
            fleet.session.post(f"{servers[number % len(servers)].url}/api/jobs", json=body) as response,
        ):
            assert response.status == 200, await response.text()
            await response.read()

    began = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(count)))
    return time.perf_counter() - began


async def throughput(
    folder: Path,
    server: PostgresServer | None,
    fake: FakeProcess,
    count: int,
    *,
    servers: int = 1,
    workers: int = 0,
) -> None:
    """Print jobs per second and CPU per job. Without a PostgreSQL server: on SQLite. Workers, if any, run all jobs."""
    fake.set(default={})
    async with Fleet(folder, server.url("counsel") if server else "", keys(fake)) as fleet:
        await _start(fleet, servers, workers)
        await jobs(fleet, AT_ONCE * max(servers, workers))  # the first calls import and connect
        pids = [member.pid for member in fleet.members]
        before, database = cpu(pids), cpu([server.pid], children=True) if server else 0.0
        seconds = await jobs(fleet, count)
        ours = (cpu(pids) - before) / count * 1000
        theirs = ((cpu([server.pid], children=True) if server else 0.0) - database) / count * 1000
    name = f"{'PostgreSQL' if server else 'SQLite'}, {_count_noun(workers or servers, 'worker' if workers else 'server')}"
    print(
        f"{name:<24}{count / seconds:8.1f} jobs/s {ours:8.2f} ms CPU/job {theirs:8.2f} ms PostgreSQL/job",
        flush=True,
    )


async def _start(fleet: Fleet, servers: int, workers: int, **env: str) -> None:
    """Start servers, which run jobs only if there are no workers, and workers."""
    server_env = env | ({"COUNSEL_CONCURRENCY": "0"} if workers else {})
    for number in range(servers):
        fleet.add("serve", f"server-{number}", **server_env)
    for number in range(workers):
        fleet.add("worker", f"worker-{number}", **env)
    await fleet.start()
    for member in fleet.members:
        while member.kind == "worker" and "runs up to" not in member.log:  # noqa: ASYNC110 - a log file has no event
            await asyncio.sleep(0.1)


async def streams(folder: Path, server: PostgresServer, fake: FakeProcess, workers: int) -> None:
    deltas = LENGTH * 20
    words = " ".join(f"word{number:04d}" for number in range(deltas))
    fake.set(default={"text": words, "deltas": deltas, "chunk_delay": 0.05})
    async with Fleet(folder, server.url("counsel"), keys(fake)) as fleet:
        await _start(fleet, 1, workers, **MANY)
        follower, *owners = fleet.members
        groups = [[member.pid for member in owners], [follower.pid], [server.pid]]
        most = 0
        for count in STREAMS:
            results = await Followers(fleet, follower, count).measure(groups)
            if results is None:
                print(f"{_count_noun(workers, 'worker')}, {count:4} streams: not all began", flush=True)
                break
            delays, used = results
            p50, p95 = statistics.median(delays), statistics.quantiles(delays, n=20)[18]
            shares = [f"{seconds / SECONDS * 100:4.0f} %" for seconds in used]
            print(
                f"{_count_noun(workers, 'worker')}, {count:4} streams: {len(delays) / SECONDS:6.0f} events/s, "
                f"delay p50 {p50 * 1000:5.0f} ms, p95 {p95 * 1000:5.0f} ms; "
                f"CPU of the owners {shares[0]}, of the follower {shares[1]}, of PostgreSQL {shares[2]}",
                flush=True,
            )
            if p95 > LIMIT:
                break
            most = count
        print(f"{_count_noun(workers, 'worker')}: {most} streams within {LIMIT * 1000:.0f} ms", flush=True)


class Followers:
    """Concurrent streams, all followed at one server."""

    def __init__(self, fleet: Fleet, server: Member, count: int) -> None:
        self._fleet = fleet
        self._server = server
        self._count = count
        self._began = 0
        self._all = asyncio.Event()
        self._jobs: list[str] = []
        self._delays: list[float] = []

    async def measure(self, groups: list[list[int]]) -> tuple[list[float], list[float]] | None:
        """The delays in `SECONDS`, and the CPU that each group of processes used; None if not all streams began."""
        tasks = [asyncio.ensure_future(self._follow(number)) for number in range(self._count)]
        try:
            async with asyncio.timeout(LENGTH / 2):
                await self._all.wait()
            await asyncio.sleep(1)
            before = self._used(groups)
            self._delays.clear()
            await asyncio.sleep(SECONDS)
            delays = [*self._delays]
            return delays, [late - early for late, early in zip(self._used(groups), before, strict=True)]
        except TimeoutError:
            return None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(self._cancel(job) for job in self._jobs))

    def _used(self, groups: list[list[int]]) -> list[float]:
        database = groups[-1]
        return [cpu(group, children=group is database) for group in groups]

    async def _follow(self, number: int) -> None:
        body = {"prompt": f"stream {number}", "model": "gpt-5", "mode": "background"}
        async with self._fleet.session.post(f"{self._server.url}/api/jobs", json=body) as response:
            job = (await response.json())["job_id"]
        self._jobs.append(job)
        has_begun = False
        async with self._fleet.session.get(f"{self._server.url}/api/jobs/{job}/events") as response:
            async for _, event in load.events(response):
                if event["kind"] != "text":
                    continue
                self._delays.append(time.time() - event["at"])
                if not has_begun:
                    has_begun = True
                    self._began += 1
                    if self._began == self._count:
                        self._all.set()

    async def _cancel(self, job: str) -> None:
        async with self._fleet.session.post(f"{self._server.url}/api/jobs/{job}/cancel") as response:
            await response.read()


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def main() -> None:
    words = sys.argv[1:]
    count = next((int(word) for word in words if word.isdigit()), 400)
    parts = {word for word in words if not word.isdigit()} or {"servers", "workers", "streams"}
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    server = PostgresServer(required_programs())

    def measure(work: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
        """Run the measurement with its own database and folder."""
        with tempfile.TemporaryDirectory() as folder, server.migrated():
            asyncio.run(work(Path(folder)))

    try:
        with FakeProcess() as fake:
            if parts & {"servers", "workers"}:
                measure(lambda folder: throughput(folder, None, fake, count))
            for number in WORKERS if "servers" in parts else ():
                measure(lambda folder: throughput(folder, server, fake, count, servers=number))  # noqa: B023 - called at once
            for number in WORKERS if "workers" in parts else ():
                measure(lambda folder: throughput(folder, server, fake, count, workers=number))  # noqa: B023 - called at once
            for number in WORKERS if "streams" in parts else ():
                measure(lambda folder: streams(folder, server, fake, number))  # noqa: B023 - called at once
    finally:
        server.end()
    print(f"load average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
