"""Connections to PostgreSQL: their options, the values that they send, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from counsel.engine.store.records import StoreError
from counsel.errors import ConfigInvalid
from counsel.text import without_surrogates

Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Row]
OLDEST_SERVER = 130000  # pg_current_xact_id()

# Without keepalives it takes two hours to notice that a connection's other end is gone. The URL may override them.
_OPTIONS = {
    "application_name": "counsel",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # ms
    "target_session_attrs": "read-write",  # of several hosts, the current primary
}
# The connection was lost or not accepted: shutdown, crash, start-up, too many connections, a standby.
_CONNECTION_STATES = {"57P01", "57P02", "57P03", "53300", "25006"}
# The server answered, and will answer the same next time. A refused connection has a message, but no code.
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|(database|role) \".*\" does not exist"
    r"|certificate verify failed|does not support SSL"
)
NO_RIGHTS = (
    "Use the role that made counsel's tables (to make them: the database's owner), or give this one all rights on the "
    "schemas counsel and counsel_queue."
)
CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure)


def conninfo(url: str) -> str:
    try:
        options: dict[str, Any] = {**_OPTIONS, **conninfo_to_dict(url), "client_encoding": "UTF8"}
        return make_conninfo("", **options)
    except psycopg.Error:  # its message may hold the password
        raise ConfigInvalid(
            "COUNSEL_DATABASE is not a database URL.",
            hint="Write postgresql://USER:PASSWORD@HOST/NAME.",
        ) from None


def name(info: str) -> str:
    """The database and its host in words, without the password."""
    options = conninfo_to_dict(info)
    host = options.get("host") or options.get("hostaddr") or "this machine"
    return f"PostgreSQL database {options.get('dbname') or 'of the user'} on {host}"


async def connect(info: str) -> Connection:
    return await psycopg.AsyncConnection.connect(info, autocommit=True)


@contextlib.contextmanager
def cancellable() -> Iterator[None]:
    """Raises again a cancellation that was swallowed inside.

    psycopg and its pool use `asyncio.wait_for`, which loses a cancellation on Python 3.11 when what it waits for is
    done at that moment: a cancelled job would continue, and a task that is awaited after its cancellation would never
    end.
    """
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0
    yield
    if task and task.cancelling() > cancellations:
        raise asyncio.CancelledError


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task that uses connections, until it ends: a cancellation may be swallowed (see `cancellable`)."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1.0)


def clean(text: str) -> str:
    """PostgreSQL's text allows neither NUL nor lone surrogates: both become U+FFFD. JSON has escapes for them."""
    return without_surrogates(text.replace("\0", "\ufffd") if "\0" in text else text)


def bound(values: Sequence[object]) -> list[object]:
    return [_bound(value) for value in values]


def _bound(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, (list, tuple)):
        return [_bound(item) for item in value]
    return value


def is_lost(error: BaseException) -> bool:
    """The connection failed, not the statement, which may work on another connection."""
    if isinstance(error, psycopg.InterfaceError):  # "the connection is closed"
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state in _CONNECTION_STATES or state.startswith("08")


def is_refused(error: BaseException) -> bool:
    """A wrong password, name or certificate: waiting does not help."""
    return isinstance(error, psycopg.OperationalError) and _REFUSED.search(str(error)) is not None


def reason(error: BaseException) -> str:
    """The first line: the others repeat it for each address, or quote the statement's values."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def unreachable(info: str, error: BaseException) -> StoreError:
    return StoreError(
        f"The {name(info)} cannot be used: {reason(error)}.",
        hint=remedy(error) or "Check that it runs and that COUNSEL_DATABASE is right, then ask again.",
    )


def remedy(error: BaseException) -> str | None:
    """A hint for an error that says what is wrong, but not what to do."""
    return NO_RIGHTS if isinstance(error, errors.InsufficientPrivilege) else None
