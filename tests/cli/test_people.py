"""`counsel people`: on a machine that has the team's database."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.user import User

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture
def person(user: User, url: str, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setenv("COUNSEL_DATABASE", url)
    user.command = "people"
    return user


def test_people_are_added_listed_changed_and_disabled(person: User, url: str) -> None:
    import psycopg

    ada = person.json("add", "Ada", "--role", "admin", "--group", "Ops", "--days", "30")
    assert ada["token"].startswith("csl_")
    assert (ada["role"], ada["groups"]) == ("admin", ["ops"])
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT sha FROM counsel.tokens").fetchall()
    assert rows == [(hashlib.sha256(ada["token"].encode()).hexdigest(),)]
    outcome = person.run("add", "Bob")
    assert outcome.code == 0
    assert outcome.out.startswith("csl_")  # alone on stdout, to be piped
    assert "shown this once" in outcome.err
    assert person.run("add", "BOB").code == 1
    assert person.run("disable", "ada").code == 1
    assert "last admin" in person.err
    assert person.json("change", "Bob", "--role", "admin", "--group", "ops")["role"] == "admin"
    assert person.json("disable", "ada")["disabled_at"]
    assert person.json("enable", "ada")["disabled_at"] is None
    new_token = person.json("rotate", "bob", "--overlap", "1h")
    laptop = person.json("token", "bob", "--label", "laptop")
    rows_by_name = {row["name"]: row for row in person.json("list")["people"]}
    assert [row["label"] for row in rows_by_name["Bob"]["tokens"]] == ["", "", "laptop"]
    assert new_token["token"] not in str(rows_by_name)
    assert len(person.json("token", "Bob", "--end", laptop["token_id"])["tokens"]) == 2
    assert person.run("token", "Ada", "--end", new_token["token_id"]).code == 1
    assert "Bob" in person.counsel("list")
    assert person.run("change", "Bob", "--group", "ops", "--group", "red").err == (
        "Bob: now admin, groups: ops, red.\n"
    )
    assert person.run("change", "Bob", "--no-groups").err == "Bob: now admin, no groups.\n"
    assert person.run("change", "Bob", "--group", "ops", "--no-groups").code == 2
    nothing = person.run("change", "Bob")
    assert (nothing.code, "Nothing to change" in nothing.err) == (2, True)


def test_a_token_that_is_ended_takes_no_options_of_a_new_one(person: User) -> None:
    ada = person.json("add", "Ada", "--role", "admin")
    for more in (("--label", "laptop"), ("--days", "4")):
        assert person.run("token", "Ada", "--end", ada["token_id"], *more).code == 2
    assert len(person.json("list")["people"][0]["tokens"]) == 1


def test_the_audit_log_has_every_change_of_people(person: User) -> None:
    person.json("add", "Ada", "--role", "admin")
    person.json("add", "Bob")
    person.json("disable", "Bob")
    records = person.json("audit")["records"]
    assert [(row["action"], row["object"]) for row in records] == [
        ("people changed", "Bob"),
        ("people changed", "Bob"),
        ("people changed", "Ada"),
    ]
    assert {row["name"] for row in records} == {"operator"}
    assert not [row for row in records if "csl_" in str(row)]
    assert person.json("audit", "--person", "Bob")["records"] == []
    assert person.json("audit", "--since", "1m", "-n", "1")["records"] == records[:1]
    assert "people changed" in person.counsel("audit")
    assert person.run("audit", "--since", "soon").code == 1


def test_each_command_that_changes_a_person_is_in_the_audit_log(person: User) -> None:
    person.json("add", "Ada", "--role", "admin")
    for command in (
        ("change", "Ada", "--group", "ops"), ("rotate", "Ada"), ("token", "Ada"), ("disable", "Ada", "--force"),
        ("enable", "Ada"),
    ):  # fmt: skip
        before = len(person.json("audit")["records"])
        person.json(*command)
        records = person.json("audit")["records"]
        assert len(records) == before + 1, command
        assert (records[0]["action"], records[0]["object"]) == ("people changed", "Ada")


def test_without_a_database_the_command_says_what_it_needs(user: User) -> None:
    user.command = "people"
    assert user.run("list").code == 1
    assert "COUNSEL_DATABASE" in user.err


def test_limits_are_set_changed_listed_and_removed(person: User) -> None:
    person.json("add", "Ada")
    assert person.json("limit", "ada", "--day", "5", "--at-once", "3") == {
        "kind": "person", "name": "Ada", "day_usd": 5.0, "month_usd": None, "per_minute": None, "at_once": 3,
    }  # fmt: skip
    assert person.json("limit", "Ada", "--day", "none", "--per-minute", "10")["at_once"] == 3
    assert person.json("limit", "--group", "ops", "--month", "100")["name"] == "ops"
    assert person.run("limit", "--group", "ops", "--month", "100").err.endswith(
        "nobody is in the group ops yet\n"
    )
    assert person.json("limit", "--provider", "OpenAI", "--day", "1.5")["name"] == "openai"
    person.json("change", "Ada", "--group", "ops")
    assert person.run("limit", "--group", "ops", "--month", "100").err == "ops: $100 a month.\n"
    rows = person.json("limits")["limits"]
    assert [(row["kind"], row["name"], row["per_minute"]) for row in rows] == [
        ("group", "ops", None), ("person", "Ada", 10), ("provider", "openai", None),
    ]  # fmt: skip
    assert "Ada" in person.counsel("limits")
    assert person.run("limit", "Ada", "--per-minute", "none", "--at-once", "none").code == 0
    assert "no limits" in person.err
    assert len(person.json("limits")["limits"]) == 2
    for wrong in (
        ("nobody", "--day", "1"),
        ("Ada", "--day", "much"),
        ("Ada", "--day", "-1"),
        ("Ada", "--day", "nan"),
        ("Ada", "--at-once", "1.5"),
        ("Ada", "--group", "ops", "--day", "1"),
        ("--provider", "nobody", "--day", "1"),
        (),
    ):
        assert person.run("limit", *wrong).code != 0, wrong


def test_keys_of_people_are_piped_listed_resealed_and_removed(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNSEL_SECRET_KEY", "s" * 40)
    person.json("add", "Ada")
    key = "sk-own-key-of-ada-0123456789"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{key}\n"))
    outcome = person.run("keys", "set", "openai", "--person", "Ada")
    assert outcome.code == 0, outcome.err
    assert key not in outcome.out + outcome.err
    (row,) = json.loads(person.counsel("keys", "list", "--person", "Ada", "--json"))["keys"]
    assert row["provider"] == "openai"
    monkeypatch.setenv("COUNSEL_SECRET_KEY_OLD", "s" * 40)
    monkeypatch.setenv("COUNSEL_SECRET_KEY", "t" * 40)
    assert person.run("keys", "reseal").code == 0
    assert "1 encrypted again" in person.err
    monkeypatch.setattr("sys.stdin", io.StringIO(key))
    assert person.run("keys", "set", "openai").code == 1
    assert "--person" in person.err
    assert person.run("keys", "remove", "openai", "--person", "Ada").code == 0
    assert json.loads(person.counsel("keys", "list", "--person", "Ada", "--json"))["keys"] == []
    assert key not in str(person.json("audit"))
    assert person.run("keys", "list", "--person", "Ada").err == "Ada has no keys of their own.\n"


def test_a_key_that_no_secret_opens_is_named_and_the_others_are_encrypted_anew(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for secret, name, provider in (("l", "Ann", "openai"), ("s", "Bob", "openai"), ("s", "Cleo", "xai")):
        monkeypatch.setenv("COUNSEL_SECRET_KEY", secret * 40)
        person.json("add", name)
        monkeypatch.setattr("sys.stdin", io.StringIO("sk-own-key-0123456789\n"))
        assert person.run("keys", "set", provider, "--person", name).code == 0
    monkeypatch.setenv("COUNSEL_SECRET_KEY_OLD", "s" * 40)
    monkeypatch.setenv("COUNSEL_SECRET_KEY", "t" * 40)
    for count in ("2 encrypted again", "0 encrypted again"):
        assert person.run("keys", "reseal").code == 1
        assert count in person.err
        assert "Ann (openai)" in person.err
    assert person.run("keys", "remove", "openai", "--person", "Ann").code == 0
    assert person.run("keys", "reseal").code == 0


def test_usage_is_shown_by_person(person: User, url: str) -> None:
    import psycopg

    ann = person.json("add", "Ann")["id"]
    with psycopg.connect(url) as connection:
        for cost in (0.5, None):
            connection.execute(
                "INSERT INTO counsel.usage (at, job, tool, provider, model, client, ms, code, input, output, "
                "reasoning, cache_read, cache_write, cost, project, person) VALUES "
                "(extract(epoch from now()), 'job_1', 'chat', 'openai', 'gpt-5', 'x', 5, '', 10, 20, 0, 0, 0, %s, '', %s)",
                (cost, ann),
            )
    (row,) = person.json("usage")["people"]
    assert (row["name"], row["calls"], row["input_tokens"], row["cost_complete"]) == ("Ann", 2, 20, False)
    assert "$0.5000+" in person.counsel("usage", "--since", "1h")
