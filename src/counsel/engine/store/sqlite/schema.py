"""The tables as a list of migrations; `user_version` counts those applied to a file. A newer file is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from counsel.errors import ConfigInvalid

_STEPS = (
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, expires REAL NOT NULL,
        tool TEXT NOT NULL, title TEXT, provider TEXT, model TEXT, project TEXT NOT NULL, client TEXT NOT NULL,
        tag TEXT, messages INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX conversations_updated ON conversations (updated);
    CREATE INDEX conversations_tag ON conversations (project, tag, updated);
    CREATE TABLE messages (
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE, n INTEGER NOT NULL,
        role TEXT NOT NULL, text TEXT NOT NULL, asked TEXT, images TEXT NOT NULL, about TEXT NOT NULL,
        job TEXT, at REAL NOT NULL, UNIQUE (conversation, n)
    ) STRICT;
    CREATE TABLE sessions (
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        agent TEXT NOT NULL, session TEXT NOT NULL, messages INTEGER NOT NULL, PRIMARY KEY (conversation, agent)
    ) STRICT;
    CREATE TABLE blobs (sha TEXT PRIMARY KEY, media_type TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL) STRICT;

    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, key TEXT UNIQUE, tool TEXT NOT NULL, conversation TEXT NOT NULL, status TEXT NOT NULL,
        background INTEGER NOT NULL, created REAL NOT NULL, finished REAL,
        owner TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, stuck INTEGER NOT NULL DEFAULT 0,
        cancel INTEGER NOT NULL DEFAULT 0, fingerprint TEXT NOT NULL, caller TEXT NOT NULL, task TEXT NOT NULL,
        models TEXT NOT NULL, total INTEGER NOT NULL, completed INTEGER NOT NULL DEFAULT 0,
        title TEXT, summary TEXT, result TEXT, error TEXT
    ) STRICT;
    CREATE INDEX jobs_created ON jobs (created);
    CREATE INDEX jobs_open ON jobs (status, conversation, created) WHERE status = 'processing';
    CREATE INDEX jobs_conversation ON jobs (conversation, created);
    CREATE INDEX jobs_finished ON jobs (finished);
    CREATE TABLE calls (
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, key TEXT NOT NULL, at REAL NOT NULL,
        reply TEXT NOT NULL, PRIMARY KEY (job, key)
    ) STRICT;
    CREATE TABLE events (
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, seq INTEGER NOT NULL, at REAL NOT NULL,
        kind TEXT NOT NULL, slot TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (job, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE ledger (
        at REAL NOT NULL, job TEXT NOT NULL, tool TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
        client TEXT NOT NULL, ms INTEGER NOT NULL, code TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost REAL
    ) STRICT;
    CREATE INDEX ledger_at ON ledger (at);
    CREATE TABLE answers (key TEXT PRIMARY KEY, expires REAL NOT NULL, reply TEXT NOT NULL) STRICT;
    """,
    "ALTER TABLE jobs ADD COLUMN keep_days INTEGER NOT NULL DEFAULT 3",
    "ALTER TABLE jobs ADD COLUMN cancelled_members TEXT NOT NULL DEFAULT '[]'",
    # Not a column of `ledger`: a process of an older release that still runs could no longer insert into it.
    """
    CREATE TABLE usage_projects (job TEXT PRIMARY KEY, project TEXT NOT NULL) STRICT;
    INSERT INTO usage_projects SELECT jobs.id, conversations.project FROM jobs
        JOIN conversations ON conversations.id = jobs.conversation;
    """,
    # A table of its own, which older releases neither read nor write: their calls count by their usage records.
    # The index has the cost: the sum of 100,000 calls takes 9 ms instead of 40.
    """
    CREATE TABLE reservations (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, job TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
        at REAL NOT NULL, usd REAL NOT NULL, open INTEGER NOT NULL
    ) STRICT;
    DROP INDEX ledger_at;
    CREATE INDEX ledger_spending ON ledger (at, provider, cost);
    """,
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    if schema_version(connection, path) == len(_STEPS):
        return
    connection.execute("BEGIN IMMEDIATE")  # of several processes that start at once, only one migrates
    try:
        for step in range(schema_version(connection, path), len(_STEPS)):
            for statement in _STEPS[step].split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(_STEPS):
        raise ConfigInvalid(
            f"{path} was written by a newer counsel (schema {version}, this one knows {len(_STEPS)}).",
            file=str(path),
            hint="Upgrade counsel, or point COUNSEL_HOME elsewhere.",
        )
    return version
