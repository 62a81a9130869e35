"""Owners of jobs: how this process shows that it lives, and which others do.

Processes of one machine prove it by file locks (`ownership.py`), servers that share a PostgreSQL database by presence
there (`engine/team/owners.py`, docs/decisions/23-presence-in-postgresql.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from counsel.engine.jobs.ownership import NO_OWNER, Life, Ownership

__all__ = ["NO_OWNER", "FileOwners", "Life", "Owners"]


class Owners(Protocol):
    @property
    def name(self) -> str:
        """Of this process, unique."""

    @property
    def gaps(self) -> int:
        """How often others may have thought that this process was dead: its jobs may be someone else's since then."""

    async def begin(self) -> None:
        """Before the first job: returns when the others can see that this process lives."""

    def hold(self) -> None:
        """Still here. Called a few times a second while jobs run."""

    def is_sure(self) -> bool:
        """No other process can think that this one is dead."""

    async def sure(self) -> None:
        """Until no other process can think that this one is dead. Else it could send a call that another sends, too."""

    def may_judge(self) -> bool:
        """Whether anyone can be said to be dead now."""

    async def state(self, owner: str) -> Life: ...

    async def dead(self, owners: Collection[str]) -> set[str]:
        """Those of them that are dead."""

    async def tidy(self, needed: Collection[str]) -> None:
        """Forget owners that are dead and own nothing any more."""

    async def release(self, *, owns_jobs: bool = False) -> None:
        """This process ends. `owns_jobs`: its jobs could not be released, so others must be able to see that it is dead."""


class FileOwners:
    """By a locked file per process: certain, and only on one machine."""

    gaps = 0

    def __init__(self, folder: Path) -> None:
        self._file = Ownership(folder)

    @property
    def name(self) -> str:
        return self._file.name

    async def begin(self) -> None:
        pass

    def hold(self) -> None:
        self._file.hold()

    def is_sure(self) -> bool:
        return True

    async def sure(self) -> None:
        pass

    def may_judge(self) -> bool:
        return True

    async def state(self, owner: str) -> Life:
        return self._file.state(owner)

    async def dead(self, owners: Collection[str]) -> set[str]:
        return {owner for owner in set(owners) if self._file.dead(owner)}

    async def tidy(self, needed: Collection[str]) -> None:
        await asyncio.to_thread(self._file.tidy, needed)

    async def release(self, *, owns_jobs: bool = False) -> None:  # noqa: ARG002 - a dead process's lock is free in any case
        self._file.release()
