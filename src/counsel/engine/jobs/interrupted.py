"""Why a job whose process died does not go on: what is told to whoever asks for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from counsel.errors import Cancelled, Conflict, Internal, ProviderUnavailable
from counsel.job_events import Wait

CLIENT = "its client, which was interrupted, to come back; it is given up after a minute"


def keys(names: Sequence[str]) -> str:
    """What a job waits for whose process died, as a person can bring it. `names`: variables that hold its keys."""
    where = (
        f"where {' and '.join(names)} {'is' if len(names) == 1 else 'are'} set" if names else "it came from"
    )
    return f"a window with the same keys: run counsel in the shell {where} as it was"


def waits(row: sqlite3.Row, lacks: Wait | None = None) -> ProviderUnavailable:
    waits_for = lacks.text if lacks else "the keys that it was asked with"
    return ProviderUnavailable(
        f"Job {row['id']} was interrupted and waits for {waits_for}.",
        hint="It goes on when a window with the same environment is here, or when COUNSEL_HOME/.env has the keys.",
        job_id=row["id"],
    )


def blocked(row: sqlite3.Row, lacks: Wait | None) -> Conflict:
    return Conflict(
        f"Job {row['id']} of this conversation comes first. It was interrupted and waits for {lacks.text if lacks else 'its keys'}.",
        hint=f"`counsel cancel {row['id']}` (or cancel_job) lets the conversation go on without it. Nothing was sent.",
        waits_for=row["id"],
    )


def keyless(row: sqlite3.Row) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"Job {row['id']} was interrupted, and for {row['keep_days']} days nobody came back with its keys.",
        hint="Ask again; keys in COUNSEL_HOME/.env let interrupted jobs go on by themselves.",
    )


def gave_up(row: sqlite3.Row) -> Internal:
    return Internal(
        f"Job {row['id']} was interrupted {row['stuck']} times without getting further.",
        hint="Ask again; `counsel doctor` and the logs may say why the process ended.",
    )


def abandoned(row: sqlite3.Row) -> Cancelled:
    return Cancelled(
        f"Job {row['id']} was interrupted and its client has gone.",
        hint="Ask again, or set COUNSEL_KEEP_ABANDONED to let such calls go on.",
    )
