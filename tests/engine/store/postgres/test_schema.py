"""Migrations are explicit, complete or not applied at all, and one at a time; releases work side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from counsel.engine.store.postgres import administration, schema
from counsel.engine.store.postgres.schema import Migration
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.records import StoreError
from counsel.errors import ConfigInvalid
from support.postgres_server import PostgresServer
from support.stored import new_job

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty() as url:
        yield url


async def refusal(url: str) -> ConfigInvalid:
    """Why a store refuses this database; reads and writes give the same reason."""
    store = PostgresStore(url)
    try:
        with pytest.raises(ConfigInvalid) as reading:
            await store.job("job")
        with pytest.raises(ConfigInvalid) as writing:
            await store.submit(new_job())
    finally:
        await store.close()
    assert str(reading.value) == str(writing.value)
    return reading.value


async def check_that_it_works(url: str) -> None:
    store = PostgresStore(url)
    await store.submit(new_job())
    await store.close()


def release(monkeypatch: pytest.MonkeyPatch, *later: Migration) -> None:
    """Simulate a release with these further migrations."""
    migrations = (*schema.MIGRATIONS, *later)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "VERSION", len(migrations))


async def test_a_database_without_tables_says_which_command_makes_them(empty: str) -> None:
    error = await refusal(empty)
    assert "no counsel tables" in error.message
    assert "counsel database migrate" in (error.hint or "")
    assert administration.status(empty).problem == error.message
    assert administration.migrate(empty) == (0, schema.VERSION)
    assert administration.migrate(empty) == (schema.VERSION, schema.VERSION)
    assert administration.status(empty).problem is None
    await check_that_it_works(empty)


@pytest.fixture
def unprivileged_url(postgres_server: PostgresServer, empty: str) -> Iterator[str]:
    """The same database, as a role that owns nothing in it."""
    postgres_server.execute("CREATE ROLE stranger")
    try:
        yield f"{empty}&options=-crole%3Dstranger"
    finally:
        name = empty.partition("?")[0].rpartition("/")[2]
        postgres_server.execute("DROP OWNED BY stranger", name)
        postgres_server.execute("DROP ROLE stranger")


async def test_a_refusal_for_lack_of_rights_names_the_role_to_use(
    postgres_server: PostgresServer, empty: str, unprivileged_url: str
) -> None:
    name = empty.partition("?")[0].rpartition("/")[2]
    with pytest.raises(StoreError, match="permission denied") as making:
        administration.migrate(unprivileged_url)
    administration.migrate(empty)
    with pytest.raises(StoreError, match="permission denied") as reading:
        administration.status(unprivileged_url)
    postgres_server.execute(
        "GRANT USAGE ON SCHEMA counsel, counsel_queue TO stranger;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA counsel, counsel_queue TO stranger",
        name,
    )
    status = administration.status(unprivileged_url)
    assert status.problem is not None
    assert "stranger may not write" in status.problem
    store = PostgresStore(unprivileged_url)
    with pytest.raises(StoreError, match="permission denied") as writing:
        await store.submit(new_job())
    await store.close()
    hints = {making.value.hint, reading.value.hint, writing.value.hint, status.hint}
    assert len(hints) == 1
    assert "the role that made" in (status.hint or "")


async def test_a_store_that_was_refused_works_once_the_database_is_migrated(empty: str) -> None:
    store = PostgresStore(empty)
    with pytest.raises(ConfigInvalid):
        await store.job("job")
    administration.migrate(empty)
    await store.submit(new_job())
    await store.close()


def test_of_several_simultaneous_migrations_one_runs(empty: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(administration.migrate, [empty] * 4))
    assert sorted(results) == [(0, schema.VERSION)] + [(schema.VERSION, schema.VERSION)] * 3


async def test_a_migration_does_not_make_servers_wait_behind_a_long_transaction(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a backup: PostgreSQL lets nobody read a table while someone waits to change it."""
    administration.migrate(empty)
    monkeypatch.setattr(schema, "LOCK_MS", 100)
    release(monkeypatch, Migration(1, "ALTER TABLE counsel.jobs ADD COLUMN later TEXT"))
    with psycopg.connect(empty) as backup:
        backup.execute("SELECT count(*) FROM counsel.jobs")
        with pytest.raises(StoreError, match="backup") as failure:
            administration.migrate(empty)
    assert "Nothing was changed" in (failure.value.hint or "")
    assert administration.migrate(empty) == (schema.VERSION - 1, schema.VERSION)


async def test_a_migration_that_fails_changes_nothing(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    administration.migrate(empty)
    with monkeypatch.context() as patch:
        release(patch, Migration(1, "CREATE TABLE counsel.further (id INT); SELECT 1 / 0"))
        with pytest.raises(Exception, match="division by zero"):
            administration.migrate(empty)
    assert administration.status(empty).schema == schema.VERSION
    await check_that_it_works(empty)


async def test_an_earlier_release_keeps_working_after_a_migration_that_only_adds(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        release(patch, Migration(1, "ALTER TABLE counsel.jobs ADD COLUMN further INT"))
        administration.migrate(empty)
    assert administration.status(empty).schema == schema.VERSION + 1
    assert administration.migrate(empty) == (schema.VERSION + 1, schema.VERSION + 1)
    await check_that_it_works(empty)


async def test_a_release_that_is_too_old_for_the_database_says_so(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        release(
            patch, Migration(schema.VERSION + 1, "ALTER TABLE counsel.jobs RENAME COLUMN title TO further")
        )
        administration.migrate(empty)
    error = await refusal(empty)
    assert "newer counsel" in error.message
    assert "Upgrade counsel" in (error.hint or "")
    with pytest.raises(ConfigInvalid, match="newer counsel"):
        administration.migrate(empty)


async def test_a_release_that_is_too_new_asks_for_the_migration(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    administration.migrate(empty)
    release(monkeypatch, Migration(1, "ALTER TABLE counsel.jobs ADD COLUMN further INT"))
    error = await refusal(empty)
    assert "this release needs" in error.message
    assert "counsel database migrate" in (error.hint or "")


def test_a_database_of_another_encoding_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(ConfigInvalid, match="LATIN1"):
            administration.migrate(postgres_server.url("latin"))
    finally:
        postgres_server.execute("DROP DATABASE latin")
