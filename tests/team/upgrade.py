"""A rolling upgrade under load: `python -m team.upgrade COMMIT` (`make upgrade-check`).

Servers of an earlier release run on its schema. This release migrates the database, then one server after another is
stopped and started again as this release, while clients ask and follow. Nothing may be lost.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from fake import FakeProcess
from support.postgres_server import PostgresServer, required_programs
from support.provider_keys import keys
from team import checks, load
from team.fleet import Fleet

ROOT = Path(__file__).parents[2]
SERVERS = 3
JOBS = 120
SECONDS = 60.0


def earlier_sources(commit: str, folder: Path) -> Path:
    """The sources of an earlier commit; the dependencies are ours."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


def migrate(url: str, source: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "counsel", "database", "migrate", "--database", url],
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        check=True,
    )


async def upgrade(
    folder: Path, source: Path, server: PostgresServer, url: str, fake: FakeProcess
) -> checks.Outcome:
    fake.set(default={"latency": 0.5, "chunk_delay": 0.2, "deltas": 5})
    database = url.partition("?")[0].rpartition("/")[2]
    migrate(url, source)
    server.execute(checks.WATCH, database)
    async with Fleet(folder, url, keys(fake)) as fleet:
        for number in range(SERVERS):
            fleet.add("serve", f"server-{number}", PYTHONPATH=str(source))
        await fleet.start()
        submissions: list[load.Submission] = []

        async def ask(job: load.Submission, when: float) -> None:
            await asyncio.sleep(when)
            await load.submit(fleet, job)
            submissions.append(job)
            await load.follow(fleet, job)

        async def replace() -> None:
            await asyncio.sleep(SECONDS / 4)
            await asyncio.to_thread(migrate, url, ROOT / "src")
            for member in fleet.members:
                await asyncio.sleep(SECONDS / 8)
                await member.stop()
                member.env = {**member.env, "PYTHONPATH": str(ROOT / "src")}
                await member.start()
                await member.ready(fleet.session)

        try:
            async with asyncio.timeout(SECONDS * 4), asyncio.TaskGroup() as group:
                group.create_task(replace())
                for number in range(JOBS):
                    job = (
                        load.chat(f"question {number:04d}.")
                        if number % 6
                        else load.consensus(f"dispute {number:04d}.")
                    )
                    group.create_task(ask(job, number * SECONDS / JOBS))
        except* TimeoutError:
            pass
        outcome = await asyncio.to_thread(
            checks.examine, lambda sql: server.execute(sql, database), fake.calls, submissions, fleet.programs
        )
        outcome.problems += [
            f"{submission.prompt} has not ended" for submission in submissions if not submission.end
        ]
        if outcome.problems:
            for member in fleet.members:
                sys.stderr.write(f"── {member.name}\n{member.log[-2000:]}\n")
        return outcome


def main() -> None:
    server = PostgresServer(required_programs())
    try:
        with tempfile.TemporaryDirectory() as folder, server.empty() as url, FakeProcess() as fake:
            source = earlier_sources(sys.argv[1], Path(folder))
            outcome = asyncio.run(upgrade(Path(folder), source, server, url, fake))
    finally:
        server.end()
    sys.stdout.write(json.dumps({"problems": outcome.problems, **outcome.numbers}, indent=1) + "\n")
    sys.exit(1 if outcome.problems else 0)


if __name__ == "__main__":
    main()
