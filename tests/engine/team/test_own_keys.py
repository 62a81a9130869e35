"""People's own keys: stored encrypted, in a caller's settings, and after a change of the secret key."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel import redaction
from counsel import settings as settings_
from counsel.caller import Caller
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.team import own_keys
from counsel.engine.team.own_keys import OwnKeys
from counsel.engine.team.people.directory import Directory
from counsel.engine.team.sealing import Sealer
from counsel.errors import AuthenticationFailed, ConfigInvalid, InvalidArgument, NotFound
from counsel.models.catalog import Catalog
from counsel.people import OPERATOR, Person
from counsel.settings import Settings
from support.postgres_server import PostgresServer

SECRET, OTHER = "s" * 40, "o" * 40
KEY = "sk-own-key-of-ada-0123456789"


@pytest.fixture
async def store(postgres_server: PostgresServer) -> AsyncIterator[PostgresStore]:
    with postgres_server.migrated() as url:
        store = PostgresStore(url)
        yield store
        await store.close()


@pytest.fixture
async def ada(store: PostgresStore) -> Person:
    return (await Directory(store.people).add("ada")).person


def server(tmp_path: Path, **env: str) -> Settings:
    return settings_.load(
        {"COUNSEL_HOME": str(tmp_path), "OPENAI_API_KEY": "sk-server", "COUNSEL_SECRET_KEY": SECRET} | env
    )


def key_of(caller: Caller, provider: str = "openai") -> str | None:
    return Catalog.load(caller.settings).endpoint(provider).key


def test_a_sealed_key_opens_for_its_person_and_provider_only() -> None:
    sealer = Sealer(SECRET)
    ciphertext = sealer.seal("p_1", "openai", KEY)
    assert KEY.encode() not in ciphertext
    assert ciphertext != sealer.seal("p_1", "openai", KEY)
    assert sealer.open("p_1", "openai", ciphertext) == KEY
    for person, provider, value in (
        ("p_2", "openai", ciphertext),
        ("p_1", "anthropic", ciphertext),
        ("p_1", "openai", ciphertext[:-1] + bytes([ciphertext[-1] ^ 1])),
        ("p_1", "openai", ciphertext[:20]),
        ("p_1", "openai", b""),
    ):
        with pytest.raises(ConfigInvalid) as excinfo:
            sealer.open(person, provider, value)
        assert KEY not in str(excinfo.value)


def test_a_short_or_missing_secret_is_refused() -> None:
    for secret, old in (("", ""), ("short", ""), (SECRET, "short")):
        with pytest.raises(ConfigInvalid, match="COUNSEL_SECRET_KEY"):
            Sealer(secret, old)


async def test_a_persons_own_key_replaces_the_servers_for_them_alone(
    store: PostgresStore, ada: Person, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys, config = OwnKeys(store), server(tmp_path, ANTHROPIC_API_KEY="sk-ant-server")
    assert await keys.set(ada.id, "OPENAI_API_KEY", f" {KEY}\n", config) == "openai"
    mine = await keys.applied(Caller(settings=config, person=ada))
    other_caller = await keys.applied(Caller(settings=config, person=Person("p_other", "bob")))
    assert (key_of(mine), key_of(mine, "anthropic")) == (KEY, "sk-ant-server")
    assert key_of(other_caller) == "sk-server"
    assert await keys.applied(mine) is mine
    assert (await keys.applied(Caller(settings=config, person=ada))).settings is mine.settings
    assert list(await keys.listed(ada.id)) == ["openai"]
    assert await keys.listed("p_other") == {}
    assert KEY not in repr(mine)
    assert KEY not in caplog.text
    assert KEY not in redaction.redact(f"the vendor says {KEY} is wrong")
    assert KEY not in "".join(mine.own_env.values()), "programs that counsel starts do not get it"
    rows = await store.database.rows("SELECT sealed FROM counsel.person_keys")
    assert KEY.encode() not in rows[0][0]


async def test_a_job_of_a_person_with_own_keys_has_the_servers_fingerprint(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    keys, config = OwnKeys(store), server(tmp_path)
    await keys.set(ada.id, "openai", KEY, config)
    plain = Caller(settings=config, person=ada)
    assert (await keys.applied(plain)).fingerprint(b"x") == plain.fingerprint(b"x")
    new_config = server(tmp_path, COUNSEL_SECRET_KEY=OTHER, COUNSEL_SECRET_KEY_OLD=SECRET)
    assert Caller(settings=new_config).fingerprint(b"x") == plain.fingerprint(b"x")


async def test_without_the_secret_key_the_servers_own_key_is_not_used_instead(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    keys = OwnKeys(store)
    await keys.set(ada.id, "openai", KEY, server(tmp_path))
    for env in ({"COUNSEL_SECRET_KEY": ""}, {"COUNSEL_SECRET_KEY": OTHER}):
        with pytest.raises(ConfigInvalid, match="COUNSEL_SECRET_KEY"):
            await OwnKeys(store).applied(Caller(settings=server(tmp_path, **env), person=ada))


async def test_another_secret_key_is_introduced_next_to_the_old_one(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    await OwnKeys(store).set(ada.id, "openai", KEY, server(tmp_path))
    both = server(tmp_path, COUNSEL_SECRET_KEY=OTHER, COUNSEL_SECRET_KEY_OLD=SECRET)
    assert key_of(await OwnKeys(store).applied(Caller(settings=both, person=ada))) == KEY
    assert await OwnKeys(store).reseal(both) == 1
    assert await OwnKeys(store).reseal(both) == 0
    new = server(tmp_path, COUNSEL_SECRET_KEY=OTHER)
    assert key_of(await OwnKeys(store).applied(Caller(settings=new, person=ada))) == KEY


async def test_a_removed_key_is_gone_and_keys_are_deleted_with_their_person(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    keys, config = OwnKeys(store), server(tmp_path)
    await keys.set(ada.id, "openai", KEY, config)
    assert key_of(await keys.applied(Caller(settings=config, person=ada))) == KEY
    await keys.remove(ada.id, "openai", config)
    assert key_of(await keys.applied(Caller(settings=config, person=ada))) == "sk-server"
    with pytest.raises(NotFound):
        await keys.remove(ada.id, "openai", config)
    await keys.set(ada.id, "openai", KEY, config)
    await store.database.rows("DELETE FROM counsel.people WHERE id = %s RETURNING id", ada.id)
    assert await keys.listed(ada.id) == {}


async def test_settings_of_many_people_are_forgotten_the_oldest_first(
    store: PostgresStore, ada: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_keys, "_MOST", 2)
    keys, config = OwnKeys(store), server(tmp_path)
    people = [ada, *[(await Directory(store.people).add(name)).person for name in ("bob", "eve")]]
    for person in people:
        await keys.set(person.id, "openai", KEY, config)
        await keys.applied(Caller(settings=config, person=person))
    assert list(keys._cache) == [person.id for person in people[1:]]


async def test_keys_that_cannot_be_read_are_named_with_their_people_and_the_others_are_encrypted_again(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    bob = (await Directory(store.people).add("bob")).person
    await OwnKeys(store).set(ada.id, "openai", KEY, server(tmp_path))
    await OwnKeys(store).set(bob.id, "openai", KEY, server(tmp_path, COUNSEL_SECRET_KEY="lost" * 10))
    both = server(tmp_path, COUNSEL_SECRET_KEY=OTHER, COUNSEL_SECRET_KEY_OLD=SECRET)
    with pytest.raises(ConfigInvalid, match=r"1 encrypted again, but not those of bob \(openai\)") as excinfo:
        await OwnKeys(store).reseal(both)
    assert "COUNSEL_SECRET_KEY_OLD" in (excinfo.value.hint or "")
    new = server(tmp_path, COUNSEL_SECRET_KEY=OTHER)
    assert key_of(await OwnKeys(store).applied(Caller(settings=new, person=ada))) == KEY


@pytest.mark.parametrize("is_own", [True, False])
async def test_whose_key_a_vendor_has_refused(
    store: PostgresStore, ada: Person, tmp_path: Path, is_own: bool
) -> None:
    keys, config = OwnKeys(store), server(tmp_path)
    await keys.set(ada.id, "openai" if is_own else "anthropic", KEY, config)
    error = AuthenticationFailed("It refused the key.")
    own_keys.explain(error, await keys.applied(Caller(settings=config, person=ada)), "openai")
    assert error.fields.get("own_key") is (True if is_own else None)
    assert ("This is your own key." if is_own else "This key belongs to the team's server.") in (
        error.hint or ""
    )


async def test_an_invalid_key_or_provider_is_refused(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    keys, config = OwnKeys(store), server(tmp_path)
    with pytest.raises(InvalidArgument):
        await keys.set(ada.id, "openai", "two words", config)
    with pytest.raises(NotFound):
        await keys.set(ada.id, "opnai", KEY, config)
    with pytest.raises(NotFound):
        await keys.set(OPERATOR.id, "openai", KEY, config)


async def test_an_own_key_of_any_form_is_kept_out_of_the_logs(
    store: PostgresStore, ada: Person, tmp_path: Path
) -> None:
    key = "plain-words-of-ada-0123456789"  # nothing about it looks like a key
    keys, server_settings = OwnKeys(store), server(tmp_path)
    await keys.set(ada.id, "openai", key, server_settings)
    assert key in redaction.redact(f"the vendor says {key} is wrong")
    await keys.applied(Caller("ada", settings=server_settings, person=ada))
    assert key not in redaction.redact(f"the vendor says {key} is wrong")
