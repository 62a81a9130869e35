"""`counsel database`: prepare a PostgreSQL database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.user import User

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty() as url:
        yield url


@pytest.fixture
def person(user: User) -> User:
    user.command = "database"
    return user


def test_a_database_is_migrated_and_its_status_shown(person: User, empty: str) -> None:
    option = ("--database", empty)
    before = person.json("status", *option, code=1)
    assert (before["schema"], before["usable"]) == (0, False)
    assert "counsel database migrate" in before["hint"]
    assert "Migrated from schema 0" in person.counsel("migrate", *option)
    assert "Nothing to do" in person.counsel("migrate", *option)
    after = person.json("status", *option)
    assert (after["schema"], after["usable"], after["problem"]) == (after["release_schema"], True, None)


def test_the_setting_names_the_database(person: User, empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNSEL_DATABASE", empty)
    assert person.json("migrate")["before"] == 0


def test_without_an_address_the_command_says_how_to_give_one(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("status", "migrate"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "counsel.engine.store.postgres.administration", None)  # no driver
            assert person.run(command).code == 1
        assert "Set COUNSEL_DATABASE or pass --database" in person.err


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:hush-hush@127.0.0.1:1/name", "postgresql://user:hush-hush@[/name", "user:hush-hush"],
)
def test_a_password_is_never_shown(person: User, url: str) -> None:
    output = person.run("status", "--database", url)
    assert output.code in {1, 2}
    assert "hush" not in output.out + output.err
