"""What an engine needs to work in a team: which servers are alive, and the queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from counsel.engine.jobs.owners import Owners
from counsel.engine.store.protocol import Store, Team
from counsel.engine.team.owners import DatabaseOwners
from counsel.errors import ConfigInvalid
from counsel.settings import load as load_settings

if TYPE_CHECKING:
    from counsel.engine.jobs.runner import Runner
    from counsel.engine.team.queue.queue import TeamQueue


def owners(team: Team) -> Owners:
    return DatabaseOwners(team.presence)


async def open_queue(runner: Runner, store: Store, team: Team, home: Path, *, takes_jobs: bool) -> TeamQueue:
    """An open queue, which offers and takes jobs. Raises `ConfigInvalid` if procrastinate is not installed."""
    try:
        from counsel.engine.team.queue.queue import TeamQueue
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("procrastinate"):
            raise
        raise ConfigInvalid(
            "The package procrastinate, which distributes a team's jobs, is not installed.",
            hint="Run `pip install 'counsel[team]'`, or unset COUNSEL_DATABASE.",
        ) from None
    concurrency = load_settings({**os.environ, "COUNSEL_HOME": str(home)}).concurrency
    queue = TeamQueue(runner, store, team.queue, concurrency, str(home), takes_jobs=takes_jobs)
    await queue.open()
    return queue
