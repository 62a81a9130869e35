"""People and their tokens, through the directory on a real database."""

from __future__ import annotations

import time

import pytest

from counsel.engine.team.people import names
from counsel.engine.team.people.directory import LONGEST_DAYS, MOST_TOKENS, Directory
from counsel.errors import Conflict, InvalidArgument, NotFound
from engine.store.postgres.conftest import Open


async def signs_in(directory: Directory, secret: str) -> bool:
    return await directory.signed_in(secret) is not None


async def test_a_person_from_the_first_token_to_the_last(open_store: Open) -> None:
    directory = Directory(open_store().people)
    ada = await directory.add(" Ada ", "admin", ["Ops", "dev"], days=2)
    assert (ada.person.name, ada.person.role, ada.person.groups) == ("Ada", "admin", ("dev", "ops"))
    assert ada.token.expires is not None
    assert 1.9 < (ada.token.expires - ada.token.created) / 86400 < 2.1
    with pytest.raises(Conflict, match="already a person called 'ADA'"):
        await directory.add("ADA")
    signed_in = await directory.signed_in(ada.secret)
    assert signed_in is not None
    assert (signed_in.person, signed_in.token) == (ada.person, ada.token.id)
    assert not await signs_in(directory, names.new_token())
    assert not await signs_in(directory, ada.secret.removeprefix("csl_"))
    assert not await signs_in(directory, "csl_" + "x" * 300)
    laptop = await directory.add_token("ada", label=" laptop ")
    assert (laptop.token.label, laptop.token.expires, laptop.person) == ("laptop", None, ada.person)
    assert [token.id for token in (await directory.find("Ada")).tokens] == [ada.token.id, laptop.token.id]
    await directory.end_token("ada", laptop.token.id)
    assert not await signs_in(directory, laptop.secret)
    assert await signs_in(directory, ada.secret)
    with pytest.raises(NotFound, match="Ada has no token"):
        await directory.end_token("ada", laptop.token.id)
    rotation = await directory.rotate("ada", overlap=3600)
    assert await signs_in(directory, rotation.secret)
    assert await signs_in(directory, ada.secret), "it stays valid for an hour"
    again = await directory.rotate("ada")
    assert [await signs_in(directory, token.secret) for token in (again, rotation, ada)] == [
        True,
        False,
        False,
    ]


async def test_the_last_admin_stays(open_store: Open) -> None:
    directory = Directory(open_store().people)
    ada, bob = await directory.add("Ada", "admin"), await directory.add("Bob")
    assert [record.person.name for record in await directory.listed()] == ["Ada", "Bob"]
    with pytest.raises(Conflict, match="Ada is the last admin"):
        await directory.change("ada", role="member")
    with pytest.raises(Conflict, match="Ada is the last admin"):
        await directory.disable("ada")
    change = await directory.change("bob", role="admin", groups=["x"])
    assert (change.person.role, change.person.groups) == ("admin", ("x",))
    assert (await directory.change("bob", groups=[])).person.groups == ()
    assert (await directory.change("bob")).person.role == "admin"
    disabled = await directory.disable("ada")
    assert disabled.disabled is not None
    assert time.time() - disabled.disabled < 600
    assert not await signs_in(directory, ada.secret)
    assert (await directory.disable("ada")).disabled == disabled.disabled, "since the first time"
    assert (await directory.enable("ada")).disabled is None
    assert await signs_in(directory, ada.secret)
    await directory.change("ada", role="member")
    assert (await directory.disable("bob", force=True)).disabled is not None
    assert (await directory.change("bob", role="read-only", force=True)).person.role == "read-only"
    assert not await signs_in(directory, bob.secret)


async def test_people_that_cannot_be_added_or_changed(open_store: Open) -> None:
    directory = Directory(open_store().people)
    await directory.add("Ada", "admin", days=LONGEST_DAYS)
    for days in (0, LONGEST_DAYS + 1, -1):
        with pytest.raises(InvalidArgument, match="expires after 1 to"):
            await directory.add("Bob", days=days)
    with pytest.raises(NotFound, match="no person 'Bob'"):
        await directory.find("Bob")
    with pytest.raises(InvalidArgument, match="no role"):
        await directory.add("Bob", "owner")
    for _ in range(MOST_TOKENS - 1):
        await directory.add_token("Ada", days=1)
    with pytest.raises(Conflict, match=f"has {MOST_TOKENS} tokens"):
        await directory.add_token("Ada")
    await directory.rotate("Ada")
    assert len((await directory.find("Ada")).tokens) == 1
