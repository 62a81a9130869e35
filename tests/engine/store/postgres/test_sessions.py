"""Sessions of the console and sign-ins, as every server of a team sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from counsel.engine.store.people import CHANGED
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.sessions import NewSession, Subject
from counsel.engine.team.people.directory import Directory, NewToken
from counsel.people import Person
from engine.store.postgres.conftest import Open

NOW = 1_000_000.0
ISSUER = "https://login.example.com"


def session(person: str, name: str = "s_1", origin: str = "oidc", **fields: float) -> NewSession:
    times = {"began": NOW, "expires": NOW + 100} | fields
    return NewSession(id=name, sha=f"sha of {name}", person=person, origin=origin, **times)


async def add_person(store: PostgresStore, name: str = "ada@example.com", role: str = "member") -> NewToken:
    return await Directory(store.people).add(name, role)


async def test_a_session_is_known_to_every_server_and_ends_everywhere(open_store: Open) -> None:
    first, second = open_store(), open_store()
    ada = (await add_person(first)).person
    await first.sessions.start(session(ada.id), max_sessions=5)
    row = await second.sessions.find("sha of s_1", NOW)
    assert row is not None
    assert (row.person, row.id) == (ada, "s_1")
    assert await second.sessions.find("sha of s_1", NOW + 100) is None
    assert await second.sessions.still_valid(["s_1", "s_2"], NOW) == {"s_1"}
    await second.sessions.end("s_1")
    assert await first.sessions.find("sha of s_1", NOW) is None
    assert await first.sessions.still_valid(["s_1"], NOW) == set()


async def test_sessions_of_a_disabled_person_have_ended(open_store: Open) -> None:
    store = open_store()
    ada = (await add_person(store)).person
    await store.sessions.start(session(ada.id), max_sessions=5)
    await store.people.set_disabled(ada.id, NOW)
    assert await store.sessions.find("sha of s_1", NOW) is None
    assert await store.sessions.still_valid(["s_1"], NOW) == set()


async def test_a_session_ends_with_the_token_that_it_began_with(open_store: Open) -> None:
    store = open_store()
    token = await add_person(store)
    await store.sessions.start(session(token.person.id, origin=token.token.id), max_sessions=5)
    assert await store.sessions.find("sha of s_1", NOW)
    await Directory(store.people).rotate(token.person.name)
    later = token.token.created + 10
    assert await store.sessions.find("sha of s_1", NOW) is not None, "by its clock the token is still valid"
    await store.people.end_token(token.token.id)
    assert await store.sessions.find("sha of s_1", min(later, NOW)) is None


async def test_a_person_has_a_limited_number_of_sessions_and_the_oldest_are_deleted(open_store: Open) -> None:
    store = open_store()
    ada = (await add_person(store)).person
    await store.sessions.start(session(ada.id, "s_old", expires=NOW - 1), max_sessions=2)
    for n in range(3):
        await store.sessions.start(
            session(ada.id, f"s_{n}", began=NOW + n, expires=NOW + 100), max_sessions=2
        )
    rows = await store.database.rows("SELECT id FROM counsel.console_sessions ORDER BY id")
    assert rows == [("s_1",), ("s_2",)]


async def test_a_session_that_makes_room_for_another_ends_on_every_server_at_once(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    ada = (await add_person(ours)).person
    for number in range(3):  # the first wake may be that of the connection itself
        mark = theirs.mark(CHANGED)
        await ours.sessions.start(session(ada.id, f"s_{number}", began=NOW + number), max_sessions=1)
        if number:
            await asyncio.wait_for(theirs.wait_for_change(CHANGED, mark, 600), 30)


async def test_a_sign_in_is_accepted_once_and_in_time(open_store: Open) -> None:
    first, second = open_store(), open_store()
    await first.sessions.begin_sign_in("state", NOW, NOW + 600)
    outcomes = await asyncio.gather(*(store.sessions.take_sign_in("state", NOW) for store in (first, second)))
    assert sorted(outcomes) == [False, True]
    await first.sessions.begin_sign_in("late", NOW, NOW + 600)
    assert not await second.sessions.take_sign_in("late", NOW + 600)
    assert not await second.sessions.take_sign_in("unknown", NOW)


def subject(name: str = "ada@example.com", number: str = "1", new: Person | None = None) -> Subject:
    return Subject(ISSUER, number, name, new)


async def test_a_subject_is_linked_to_the_person_of_that_address_once(open_store: Open) -> None:
    store = open_store()
    ada = (await add_person(store)).person
    assert await store.sessions.identify(subject(""), NOW) is None
    assert await store.sessions.identify(subject("bob@example.com"), NOW) is None
    assert await store.sessions.identify(subject(), NOW) == ada
    assert await store.sessions.identify(subject("changed@example.com"), NOW) == ada, (
        "the subject is what counts"
    )
    assert await store.sessions.identify(subject(number="2"), NOW) is None, "someone else got the address"
    await store.people.set_disabled(ada.id, NOW)
    assert await store.sessions.identify(subject(), NOW) is None


async def test_someone_new_is_added_once_by_two_servers(open_store: Open) -> None:
    new = Person("p_new", "eve@example.com")
    stores = open_store(), open_store()
    identities = [subject("eve@example.com", new=replace(new, id=f"p_new{n}")) for n in range(2)]
    people = await asyncio.gather(
        *(store.sessions.identify(identity, NOW) for store, identity in zip(stores, identities, strict=True))
    )
    assert people[0] is not None
    assert people[0] == people[1]
    assert [record.person.name for record in await stores[0].people.listed()] == ["eve@example.com"]
