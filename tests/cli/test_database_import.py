"""`counsel database import`: a person's SQLite history in PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from counsel.engine.store import open_store
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob
from counsel.job_events import Noticed
from support.stored import completed, fence, new_job, reply, usage
from support.user import User

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = pytest.mark.thorough  # left out of `make check`

T = TypeVar("T")
IMAGE = Blob("sha", "image/png", b"\x89PNG picture")


@pytest.fixture
def url(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture
def person(user: User, url: str, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setenv("COUNSEL_DATABASE", url)
    user.command = "database"
    return user


def within(store: Store, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def in_file(home: Path, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    home.mkdir(parents=True, exist_ok=True)
    return within(open_store(home, database=""), work)


def in_database(url: str, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    return within(open_store(Path("/none"), database=url), work)


def job_with_answer(number: int = 1, **fields: Any) -> Callable[[Store], Coroutine[Any, Any, None]]:
    """A finished job with everything that belongs to it."""

    async def work(store: Store) -> None:
        new = new_job(id=f"job_{number}", **fields)
        await store.put_blobs([IMAGE])
        await store.submit(new)
        await store.append(fence(new), [Noticed(1, 1.0, "", "left_out", "a notice")])
        await store.remember(fence(new), "answer:gpt-5", "gpt-5", reply(), usage(new.id))
        await store.finish(fence(new), completed(new))

    return work


def everything_of(
    job: str = "job_1", conversation: str = "conversation"
) -> Callable[[Store], Coroutine[Any, Any, Any]]:
    async def work(store: Store) -> Any:
        return (
            await store.job(job),
            await store.task(job),
            await store.replies(job),
            await store.events(job, 0),
            await store.messages(conversation),
            await store.blobs(["sha"]),
            await store.usage(0),
        )

    return work


def added_counts(document: Any) -> list[int]:
    return list(document["added"].values())


def test_a_history_is_the_same_in_the_database(person: User, url: str) -> None:
    in_file(person.counsel_home, job_with_answer(title="half an emoji \ud83d"))
    read_all = everything_of()
    source = in_file(person.counsel_home, read_all)
    preview = person.json("import", "--dry-run")
    assert added_counts(preview) == [1, 2, 1, 1, 1]
    assert in_database(url, read_all)[0] is None, "a dry run adds nothing"
    assert added_counts(person.json("import")) == [1, 2, 1, 1, 1]
    target = in_database(url, read_all)
    assert target[1:] == source[1:]
    assert target[0].result == source[0].result
    assert (target[0].status, target[0].created, target[0].models) == (
        "completed",
        source[0].created,
        ("gpt-5",),
    )
    again = person.json("import")
    assert (added_counts(again), again["present"]) == ([0, 0, 0, 0, 0], 2)
    assert "Nothing to add" in person.counsel("import")


def test_the_file_is_only_read(person: User) -> None:
    in_file(person.counsel_home, job_with_answer())
    file = person.counsel_home / "counsel.db"
    before = {path.name: _digest(path) for path in person.counsel_home.glob("counsel.db*")}
    assert added_counts(person.json("import", str(file)))[0] == 1
    assert {path.name: _digest(path) for path in person.counsel_home.glob("counsel.db*")} == before
    file.chmod(0o400)
    assert person.json("import", "--home", str(person.counsel_home))["present"] == 2


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_second_import_adds_what_is_new_and_open_jobs_wait(person: User, url: str) -> None:
    async def begin(store: Store) -> None:
        await store.submit(new_job(id="job_2"))

    async def end(store: Store) -> None:
        later = new_job(id="job_2")
        await store.finish(fence(later), completed(later, "the second"))

    in_file(person.counsel_home, job_with_answer())
    in_file(person.counsel_home, begin)
    first = person.json("import")
    assert (added_counts(first)[:3], first["open_jobs"]) == ([1, 2, 1], ["job_2"])
    assert "still running" in person.run("import").err
    in_file(person.counsel_home, end)
    assert added_counts(person.json("import"))[:3] == [0, 2, 1]
    messages = in_database(url, lambda store: store.messages("conversation"))
    assert [message.text for message in messages][1::2] == ["answer", "the second"]
    assert in_database(url, lambda store: store.earlier_jobs("job_2")) == []


def test_a_conversation_that_went_on_in_both_places_stays_as_it_is(person: User, url: str) -> None:
    in_file(person.counsel_home, job_with_answer())
    person.json("import")
    in_file(person.counsel_home, job_with_answer(2))
    in_file(person.counsel_home, job_with_answer(3))
    in_database(url, job_with_answer(4))
    report = person.json("import")
    assert (report["diverged"], report["added"]["messages"]) == (["conversation"], 0)
    assert report["added"]["jobs"] == 2, "their answers are not lost"


def test_names_and_ids_of_others_are_changed_and_tags_stay_unique(person: User, url: str) -> None:
    in_database(url, job_with_answer(1, conversation="review"))
    in_database(url, job_with_answer(2, conversation="tagged", tag="plan"))
    in_file(person.counsel_home, job_with_answer(1, conversation="review"))
    in_file(person.counsel_home, job_with_answer(3, conversation="other", tag="plan"))
    report = person.json("import")
    assert set(report["renamed"]) == {"review", "job_1"}
    assert report["untagged"] == ["other"]
    job, name = report["renamed"]["job_1"], report["renamed"]["review"]
    detail = in_database(url, lambda store: store.job(job))
    assert detail is not None
    assert detail.conversation == name
    assert detail.result is not None
    assert detail.result.job_id == job
    assert [message.job for message in in_database(url, lambda store: store.messages(name))] == [job, job]
    assert added_counts(person.json("import")) == [0, 0, 0, 0, 0]


def test_a_file_of_an_older_release_is_read_as_it_is(person: User, tmp_path: Path) -> None:
    in_file(person.counsel_home, job_with_answer())
    old = tmp_path / "old.db"
    old.write_bytes((person.counsel_home / "counsel.db").read_bytes())
    with closing(sqlite3.connect(old)) as db:
        db.executescript("DROP TABLE reservations; DROP INDEX ledger_spending; PRAGMA user_version=4")
    before = _digest(old)
    assert added_counts(person.json("import", str(old))) == [1, 2, 1, 1, 1]
    assert _digest(old) == before
    with closing(sqlite3.connect(old)) as db:
        db.execute("PRAGMA user_version=99")
    assert person.run("import", str(old)).code == 1
    assert "newer counsel" in person.err


def test_readable_rows_of_a_damaged_file_are_imported(person: User, tmp_path: Path) -> None:
    for number in range(30):
        in_file(person.counsel_home, job_with_answer(number, conversation=f"c{number}", title="long " * 500))
    data = (person.counsel_home / "counsel.db").read_bytes()
    damaged_file = tmp_path / "damaged.db"
    damaged_file.write_bytes(data[: len(data) * 9 // 10 // 4096 * 4096])
    report = person.json("import", str(damaged_file))
    assert "is damaged" in report["problem"]
    assert report["added"]["jobs"] > 0
    assert "warning" in person.run("import", str(damaged_file)).err


def test_a_file_that_is_not_a_database_is_named(person: User, tmp_path: Path) -> None:
    (tmp_path / "none.db").write_bytes(b"not a database" * 500)
    for path in (tmp_path / "none.db", tmp_path / "missing.db"):
        assert person.run("import", str(path)).code == 1
        assert str(path) in person.err
    assert person.run("import", "x.db", "--home", str(tmp_path)).code == 2


def test_a_team_says_whose_history_it_is(person: User, postgres_server: PostgresServer) -> None:
    in_file(person.counsel_home, job_with_answer())
    postgres_server.execute(
        "INSERT INTO counsel.people (id, name, folded, role, created) VALUES ('p1', 'Ada', 'ada', 'member', 1)",
        "counsel",
    )
    assert person.run("import").code == 1
    assert "--person" in person.err
    assert person.run("import", "--person", "Bob").code == 1
    assert added_counts(person.json("import", "--person", "ADA"))[0] == 1
    query = "SELECT name, action, object, split_part(detail, ',', 1) FROM counsel.audit"
    assert person.run("import", "--person", "ada").code == 0  # adds nothing
    assert postgres_server.execute(query, "counsel") == [
        ("operator", "people changed", "ADA", "history imported: 1 conversation")
    ]
    rows = postgres_server.execute(
        "SELECT person FROM counsel.jobs UNION SELECT person FROM counsel.conversations UNION "
        "SELECT person FROM counsel.usage",
        "counsel",
    )
    assert rows == [("p1",)]
