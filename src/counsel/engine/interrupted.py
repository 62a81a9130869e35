"""Why a job whose process died does not go on: what is told to whoever asks for it."""

from __future__ import annotations

import sqlite3

from counsel.errors import Cancelled, Internal, ProviderUnavailable


def waits(row: sqlite3.Row) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"Job {row['id']} was interrupted and waits for the keys that it was asked with.",
        hint="It goes on when a window with the same environment is here, or when COUNSEL_HOME/.env has the keys.",
        job_id=row["id"],
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
