"""The team's database for `counsel people`: whoever can write to it is its operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from counsel.cli import user
from counsel.errors import InvalidArgument
from counsel.people import OPERATOR

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store

T = TypeVar("T")


def run_in_store(work: Callable[[Store], Awaitable[T]], url: str = "") -> T:
    """Run work in the team's database: `url`, else the setting's."""
    from counsel.engine.store import open_store

    settings = user.caller().settings
    database = url or settings.database
    if not database:
        raise InvalidArgument(
            "No database is configured.",
            hint="Set COUNSEL_DATABASE to the team's PostgreSQL database, or use the server's /api/team/people.",
        )

    async def run() -> T:
        store = open_store(settings.home, database=database)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def log_change(name: str, detail: str, url: str = "") -> None:
    """Add a record to the audit log, in the operator's name."""
    from counsel.engine.team.audit import Audit, Sender

    async def write(store: Store) -> None:
        audit_log = Audit(store.audit, user.caller().settings.audit_days, prompts=False)
        audit_log.note(Sender(OPERATOR, "", "command line"), "people changed", name, detail)
        await store.flush()

    run_in_store(write, url)
