"""The engine with the rows of one owner: a person, or the machine itself ("")."""

from __future__ import annotations

from counsel.engine.engine import Engine
from counsel.engine.history.archive import Archive
from counsel.engine.jobs.running import Running
from counsel.people import Person, owners_seen_by


class ScopedEngine(Engine):
    """Shares everything with the whole engine but what can be seen."""

    def __init__(self, whole: Engine, owner: str) -> None:
        self._whole = whole
        self._owner = owner
        self.home = whole.home
        self.store = whole.store.scoped(owner)
        self.router = whole.router
        self.budgets = whole.budgets
        self.summariser = whole.summariser
        self.runner = whole.runner
        self.archive = Archive(whole.home, self.store)

    @property
    def _summaries_late(self) -> float:
        return self._whole._summaries_late  # noqa: SLF001 - this is the same engine

    @_summaries_late.setter
    def _summaries_late(self, until: float) -> None:
        self._whole._summaries_late = until  # noqa: SLF001 - this is the same engine

    def for_person(self, person: Person, token: str = "", address: str = "") -> Engine:
        return self._whole.for_person(person, token, address)

    def _running(self, job_id: str) -> Running | None:
        return self._mine(super()._running(job_id))

    def _ended(self, job_id: str) -> Running | None:
        return self._mine(super()._ended(job_id))

    def _mine(self, running: Running | None) -> Running | None:
        return running if running and running.job.caller.owner in owners_seen_by(self._owner) else None


class MachineEngine(ScopedEngine):
    """For the daemon, commands and Python on a machine that has a team's database: what belongs to nobody of the team."""

    def __init__(self, whole: Engine) -> None:
        super().__init__(whole, "")

    @property
    def is_team(self) -> bool:
        return False

    async def close(self, *, keep: bool = False) -> None:
        await self._whole.close(keep=keep)
