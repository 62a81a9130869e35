"""The engine restricted to the rows of one owner: a person, or the machine itself ("")."""

from __future__ import annotations

from counsel.engine.engine import Engine
from counsel.engine.history.archive import Archive
from counsel.engine.jobs.running import Running
from counsel.people import Person, owners_seen_by


class ScopedEngine(Engine):
    """Shares everything with the full engine, but shows only what its owner may see."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner
        self.home = engine.home
        self.store = engine.store.scoped(owner)
        self.router = engine.router
        self.budgets = engine.budgets
        self.summariser = engine.summariser
        self.runner = engine.runner
        self.archive = Archive(engine.home, self.store)

    @property
    def _summaries_late(self) -> float:
        return self._engine._summaries_late  # noqa: SLF001 - this is the same engine

    @_summaries_late.setter
    def _summaries_late(self, until: float) -> None:
        self._engine._summaries_late = until  # noqa: SLF001 - this is the same engine

    def for_person(self, person: Person, token: str = "", address: str = "") -> Engine:
        return self._engine.for_person(person, token, address)

    def _running(self, job_id: str) -> Running | None:
        return self._mine(super()._running(job_id))

    def _ended(self, job_id: str) -> Running | None:
        return self._mine(super()._ended(job_id))

    def _mine(self, running: Running | None) -> Running | None:
        return running if running and running.job.caller.owner in owners_seen_by(self._owner) else None


class MachineEngine(ScopedEngine):
    """For the daemon, commands and Python on a machine with a team's database: only jobs that belong to nobody."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "")

    @property
    def is_team(self) -> bool:
        return False

    async def close(self, *, keep: bool = False) -> None:
        await self._engine.close(keep=keep)
