"""Owners of jobs: how this process shows that it is alive, and which others are.

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
        """This process's unique name."""

    @property
    def gaps(self) -> int:
        """How often others may have considered this process dead and taken its jobs."""

    async def begin(self) -> None:
        """Called before the first job: returns when other processes can see that this one is alive."""

    def hold(self) -> None:
        """Show that this process is alive. Called a few times a second while jobs run."""

    def is_sure(self) -> bool:
        """Whether no other process can consider this one dead."""

    async def sure(self) -> None:
        """Wait until no other process can consider this one dead; otherwise both could send the same call."""

    def may_judge(self) -> bool:
        """Whether other owners may be declared dead now."""

    async def state(self, owner: str) -> Life: ...

    async def dead(self, owners: Collection[str]) -> set[str]:
        """The owners that are dead."""

    async def tidy(self, job_owners: Collection[str]) -> None:
        """Forget dead owners, except `job_owners`, which still own jobs."""

    async def release(self, *, owns_jobs: bool = False) -> None:
        """Called when this process ends. `owns_jobs`: its jobs could not be released, so others must be able to see its
        death."""


class FileOwners:
    """A locked file per process: certain, but only on one machine."""

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

    async def tidy(self, job_owners: Collection[str]) -> None:
        await asyncio.to_thread(self._file.tidy, job_owners)

    async def release(self, *, owns_jobs: bool = False) -> None:  # noqa: ARG002 - a dead process's lock is free in any case
        self._file.release()
