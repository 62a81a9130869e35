"""Owners of jobs on several machines, by presence in the database (docs/decisions/23-presence-in-postgresql.md)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection

from counsel.engine.jobs import process_identity
from counsel.engine.jobs.owners import NO_OWNER, Life
from counsel.engine.store.protocol import Presence

_FRESH = 0.5  # seconds for which an answer of the database is used again: a list of jobs asks about each


class DatabaseOwners:
    def __init__(self, presence: Presence) -> None:
        self.name = f"{process_identity.this().name()}-{secrets.token_hex(6)}"
        self._presence = presence
        self._known: dict[str, tuple[float, Life]] = {}  # by owner: when it was read, and what

    @property
    def gaps(self) -> int:
        return self._presence.gaps

    async def begin(self) -> None:
        await self._presence.hold(self.name)

    def hold(self) -> None:
        """The listener renews the presence, whether or not jobs run."""

    def is_sure(self) -> bool:
        return self._presence.is_sure()

    async def sure(self) -> None:
        await self._presence.sure()

    def may_judge(self) -> bool:
        return self._presence.may_judge()

    async def state(self, owner: str) -> Life:
        return (await self._states({owner}))[owner]

    async def dead(self, owners: Collection[str]) -> set[str]:
        return {owner for owner, life in (await self._states(set(owners))).items() if life == "dead"}

    async def tidy(self, job_owners: Collection[str]) -> None:
        """The store's sweep deletes the rows of owners that died long ago."""
        self._known = {owner: known for owner, known in self._known.items() if owner in job_owners}

    async def release(self, *, owns_jobs: bool = False) -> None:
        """A row that is no longer renewed says that this process is dead; no row says nothing."""
        if not owns_jobs:
            await self._presence.release(self.name)

    async def _states(self, owners: set[str]) -> dict[str, Life]:
        now = time.monotonic()
        states: dict[str, Life] = {}
        for owner in owners:
            if owner == NO_OWNER:
                states[owner] = "dead"
            elif owner == self.name:
                states[owner] = "alive"
            elif (known := self._known.get(owner)) and now - known[0] < _FRESH:
                states[owner] = known[1]
        if missing := owners - states.keys():
            read = await self._presence.states(missing)
            for owner in missing:
                states[owner] = life = read.get(owner, "unknown")
                self._known[owner] = (now, life)
        return states
