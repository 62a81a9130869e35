"""Everything that can happen to a team's processes, all at once, while clients ask and follow."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fake import FakeProcess, marked
from support.postgres_proxy import PostgresProxy
from support.postgres_server import PostgresServer
from team import checks, load
from team.fleet import Fleet, Member

# Seconds. An owner that is not seen for 15 seconds counts as dead (docs/decisions/23-presence-in-postgresql.md).
SUSPENDED = 20.0
# Seconds until the vendor begins to answer calls that are in progress when their process is suspended. When it
# continues, it has their answers, and some of its jobs have ended elsewhere while others are still running there.
SLOW = (4.0, 9.0, 16.0)


@dataclass(frozen=True)
class Plan:
    servers: int
    workers: int
    chats: int
    councils: int
    conversations: int
    turns: int
    kills: int
    restarts: int  # of PostgreSQL
    seconds: float  # in which questions are asked and processes killed
    limit: float  # seconds until all jobs must have ended
    seed: int = 1

    @property
    def jobs(self) -> int:
        slow = len(SLOW) * (1 if self.workers else 2)
        return self.chats + self.councils + self.conversations * self.turns + slow


class Storm:
    def __init__(
        self,
        plan: Plan,
        fleet: Fleet,
        server: PostgresServer,
        fake: FakeProcess,
        cut_off: tuple[Member, PostgresProxy],
    ) -> None:
        self._fake = fake
        self._plan = plan
        self._fleet = fleet
        self._server = server
        self._cut = cut_off
        self.done: Counter[str] = Counter()
        self.submissions: list[load.Submission] = []

    async def run(self) -> None:
        async with asyncio.timeout(self._plan.limit), asyncio.TaskGroup() as group:
            self._group = group
            for job in self._lone():
                group.create_task(self._ask(job, self._fleet.random.uniform(0, self._plan.seconds)))
            for number in range(self._plan.conversations):
                group.create_task(self._converse(group, f"conversation-{number}"))
            group.create_task(self._kill())
            group.create_task(self._suspend())
            group.create_task(self._cut_off())
            for number in range(self._plan.restarts):
                when = self._plan.seconds * (number + 1) / (self._plan.restarts + 1)
                group.create_task(self._restart_postgres(when))

    def missing(self, numbers: Mapping[str, int]) -> list[str]:
        """The parts of the plan that did not happen: a storm without its faults proves nothing."""
        plan = self._plan
        kinds = {
            "kill -9": plan.kills,
            "SIGSTOP": 1,
            "database cut off": 1,
            "restart of PostgreSQL": plan.restarts,
        }
        counts = {
            kind: sum(count for event, count in self.done.items() if event.startswith(kind)) for kind in kinds
        }
        problems = [
            f"{counts[kind]} of {count}: {kind}" for kind, count in kinds.items() if counts[kind] != count
        ]
        return problems + [
            f"no {event}" for event in ("adopted", "followers' reconnects") if not numbers[event]
        ]

    # ── questions ────────────────────────────────────────────────────────────────────────────────────

    def _lone(self) -> Sequence[load.Submission]:
        chats = [load.chat(f"question {number:04d}.") for number in range(self._plan.chats)]
        councils = [load.consensus(f"dispute {number:04d}.") for number in range(self._plan.councils)]
        return chats + councils

    async def _ask(self, job: load.Submission, when: float) -> None:
        await asyncio.sleep(when)
        await load.submit(self._fleet, job)
        self.submissions.append(job)
        await load.follow(self._fleet, job)

    async def _converse(self, group: asyncio.TaskGroup, name: str) -> None:
        """Ask each turn once the previous one was accepted, on any server, where it waits for its turn."""
        for number in range(self._plan.turns):
            job = load.chat(f"turn {number:02d} of {name}.", name)
            await load.submit(self._fleet, job)
            self.submissions.append(job)
            group.create_task(load.follow(self._fleet, job))
            await asyncio.sleep(self._plan.seconds / self._plan.turns / 2)

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────

    async def _kill(self) -> None:
        """Kill one process after another; each is restarted at once, as systemd and Kubernetes do."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.kills):
                await asyncio.sleep(self._plan.seconds / self._plan.kills)
                member = self._fleet.random.choice(
                    [member for member in self._fleet.members if not member.is_suspended]
                )
                await member.kill()
                self.done[f"kill -9 of a {member.kind}"] += 1
                await member.start()
                group.create_task(member.ready(self._fleet.session))

    async def _suspend(self) -> None:
        await asyncio.sleep(self._plan.seconds / 4)
        member = self._fleet.a_server(besides=self._cut[0])
        await self._occupy(member)
        member.signal(signal.SIGSTOP)
        await asyncio.sleep(SUSPENDED)
        member.signal(signal.SIGCONT)
        self.done[f"SIGSTOP for {SUSPENDED:.0f} s"] += 1

    async def _cut_off(self) -> None:
        """Cut its connections, and refuse new ones for longer than its heartbeats; the process stays alive."""
        member, proxy = self._cut
        await asyncio.sleep(self._plan.seconds / 3)
        if member.kind == "serve":
            await self._occupy(member)
        proxy.refuses = True
        proxy.cut_all()
        await asyncio.sleep(SUSPENDED)
        proxy.refuses = False
        self.done[f"database cut off from {self._cut[0].name} for {SUSPENDED:.0f} s"] += 1

    async def _occupy(self, member: Member) -> None:
        """Ask calls that are in progress when a process is suspended, and whose answers it has when it continues."""
        jobs = [
            load.chat(f"slow {number} of {member.name}. {marked(latency=seconds)}")
            for number, seconds in enumerate(SLOW)
        ]
        for job in jobs:
            await load.submit(self._fleet, job, member)
            self.submissions.append(job)
            self._group.create_task(load.follow(self._fleet, job))
        text = f"of {member.name}."
        await asyncio.to_thread(self._fake.wait_for, contains=text, count=len(SLOW), timeout=60)

    async def _restart_postgres(self, when: float) -> None:
        await asyncio.sleep(when)
        await asyncio.to_thread(self._server.stop)
        self._server.start()
        await asyncio.to_thread(self._server.wait)
        self.done["restart of PostgreSQL"] += 1


async def storm(
    plan: Plan, folder: Path, server: PostgresServer, url: str, fake: FakeProcess, env: dict[str, str]
) -> checks.Outcome:
    """Run the plan; return what is wrong, and what happened in numbers."""
    fake.set(default={"latency": 0.3, "chunk_delay": 0.1, "deltas": 4})
    server.execute(checks.WATCH, "counsel")
    try:
        few = {"COUNSEL_CONCURRENCY": "4"}  # so that jobs wait in the queue, and workers take them
        async with PostgresProxy(url) as proxy, Fleet(folder, url, env | few, plan.seed) as fleet:
            for number in range(plan.servers - (0 if plan.workers else 1)):
                fleet.add("serve", f"server-{number}")
            for number in range(1, plan.workers):
                fleet.add("worker", f"worker-{number}")
            kind = "worker" if plan.workers else "serve"
            cut_off = fleet.add(kind, f"{kind}-cut", database=proxy.url)
            await fleet.start()
            weather = Storm(plan, fleet, server, fake, (cut_off, proxy))
            try:
                await weather.run()
            except* TimeoutError:
                pass
            outcome = await asyncio.to_thread(
                checks.examine,
                lambda sql: server.execute(sql, "counsel"),
                fake.calls,
                weather.submissions,
                fleet.programs,
            )
            if len(weather.submissions) != plan.jobs or not all(
                submission.end for submission in weather.submissions
            ):
                open_ = [submission.prompt for submission in weather.submissions if not submission.end]
                outcome.problems.append(
                    f"{len(weather.submissions)} of {plan.jobs} asked; not ended: {open_[:10]}"
                )
            outcome.numbers |= weather.done
            outcome.problems += weather.missing(outcome.numbers)
            if outcome.problems:
                for member in fleet.members:
                    sys.stderr.write(f"── {member.name}\n{member.log[-3000:]}\n")
            return outcome
    finally:
        server.execute(checks.UNWATCH, "counsel")
