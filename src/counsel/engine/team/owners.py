"""Owners of jobs on several machines, by presence in the database (docs/decisions/23-presence-in-postgresql.md)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection

from counsel.engine.jobs import process_identity
from counsel.engine.jobs.owners import NO_OWNER, Life
from counsel.engine.store.protocol import Presence

_FRESH = 0.5  # seconds for which a state is cached, as a list of jobs asks about each job's owner


class DatabaseOwners:
    def __init__(self, presence: Presence) -> None:
        self.name = f"{process_identity.current().name()}-{secrets.token_hex(6)}"
        self._presence = presence
        self._states_cache: dict[
            str, tuple[float, Life]
        ] = {}  # by owner: when the state was read, and the state

    @property
    def gaps(self) -> int:
        return self._presence.gaps

    async def begin(self) -> None:
        await self._presence.hold(self.name)

    def hold(self) -> None:
        """Nothing to do: the listener renews the presence, whether or not jobs run."""

    def is_sure(self) -> bool:
        return self._presence.is_sure()

    async def sure(self) -> None:
        await self._presence.sure()

    def may_judge(self) -> bool:
        return self._presence.may_judge()

    async def state(self, owner: str) -> Life:
        return (await self._states({owner}))[owner]

    async def dead(self, owners: Collection[str]) -> set[str]:
        return {owner for owner, state in (await self._states(set(owners))).items() if state == "dead"}

    async def tidy(self, job_owners: Collection[str]) -> None:
        """Forget other owners here. The store's sweep deletes the rows of owners that died long ago."""
        self._states_cache = {
            owner: entry for owner, entry in self._states_cache.items() if owner in job_owners
        }

    async def release(self, *, owns_jobs: bool = False) -> None:
        """Remove the row unless jobs remain: an expired row proves that this process is dead, a missing one nothing."""
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
            elif (entry := self._states_cache.get(owner)) and now - entry[0] < _FRESH:
                states[owner] = entry[1]
        if missing := owners - states.keys():
            stored_states = await self._presence.states(missing)
            for owner in missing:
                states[owner] = state = stored_states.get(owner, "unknown")
                self._states_cache[owner] = (now, state)
        return states
