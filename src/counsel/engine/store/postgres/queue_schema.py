"""The tables of the queue: procrastinate's own, in the schema `counsel_queue`, created by our migrations.

`procrastinate schema --apply` is not idempotent and ignores our schema versions. What it would apply is read from the
installed package. `SCHEMA` is its hash: another release of procrastinate needs a migration of its own.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from counsel.errors import ConfigInvalid

SCHEMA = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"  # 3.10

# Its functions name their tables without a schema: they get a search path, so that our connections need none.
_WRAPPER = """
    CREATE SCHEMA counsel_queue;
    SET LOCAL search_path TO counsel_queue;
    {schema}
    DO $$ DECLARE function regprocedure; BEGIN
        FOR function IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'counsel_queue'::regnamespace LOOP
            EXECUTE format('ALTER FUNCTION %s SET search_path = counsel_queue, pg_catalog', function);
        END LOOP;
    END $$;
    SET LOCAL search_path TO DEFAULT;
    ALTER TABLE counsel.jobs ADD COLUMN ticket BIGINT;
    CREATE INDEX jobs_ticket ON counsel.jobs (ticket) WHERE status = 'processing';
"""


def sql() -> str:
    """Raises `ConfigInvalid` if another release of procrastinate is installed, or none."""
    text = _installed_sql()
    if text is None or hashlib.sha256(text.encode()).hexdigest() != SCHEMA:
        raise ConfigInvalid(
            "The queue of a team needs procrastinate 3.10.",
            hint="Run `pip install 'counsel[team]'`, then migrate again.",
        )
    return _WRAPPER.replace("{schema}", text)


def _installed_sql() -> str | None:
    """Read as a file: importing procrastinate takes a quarter of a second."""
    try:
        path = metadata.distribution("procrastinate").locate_file("procrastinate/sql/schema.sql")
        return Path(str(path)).read_text(encoding="utf-8")
    except (metadata.PackageNotFoundError, OSError):
        return None
