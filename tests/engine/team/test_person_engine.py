"""The engine as people of a team see it, on a real database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counsel.engine.engine import Engine
from counsel.engine.store.audit import AuditRecord
from counsel.engine.store.limits import LimitRow
from counsel.errors import CounselError, NotFound, NotPermitted, RateLimited
from counsel.people import OPERATOR, Person
from counsel.requests import ChatRequest, CompletionRequest, ConsensusRequest, NewKey
from counsel.types import Turn
from fake import FakeAPI

pytestmark = pytest.mark.postgres
ADA, BOB, EVE = Person("p_ada", "Ada"), Person("p_bob", "Bob"), Person("p_eve", "Eve", "read-only")


async def ask(
    engine: Engine, caller: Any, prompt: str = "hello", key: str | None = None, **fields: Any
) -> str:
    job = await engine.submit(ChatRequest(prompt=prompt, model="gpt-5", **fields), caller(), key=key)
    await engine.wait(job)
    await engine.store.flush()
    return job


def of_person(engine: Engine, person: Person) -> Any:
    """A person's engine, typed so that tests can use its archive's own operations."""
    return engine.for_person(person)


async def audit_records(engine: Engine) -> list[AuditRecord]:
    await engine.store.flush()
    return await engine.store.audit.read(0.0, None, 100)


async def test_jobs_and_names_of_others_do_not_exist(engine: Engine, caller: Any) -> None:
    ada, bob = engine.for_person(ADA, "t_1", "10.0.0.1"), engine.for_person(BOB)
    job = await ask(ada, caller, "one", continuation_id="mine")
    theirs = await ask(bob, caller, "two", continuation_id="mine")
    assert (await ada.status("mine")).to_json()["content"]["job_id"] == job
    assert (await bob.status("mine")).to_json()["content"]["job_id"] == theirs
    for unseen in (job, "nothing"):
        with pytest.raises(NotFound):
            await bob.status(unseen)
    with pytest.raises(NotFound):
        await bob.wait(job)
    assert [row["id"] for row in (await ada.archive.page(10))["conversations"]] != [
        row["id"] for row in (await bob.archive.page(10))["conversations"]
    ]
    await ask(ada, caller, "three", continuation_id="mine")
    assert engine.for_machine() is not engine
    assert not engine.for_machine().is_team
    with pytest.raises(NotFound):
        await engine.for_machine().status(job)
    first = (await audit_records(engine))[-1]
    assert (first.person, first.token, first.address, first.action) == ("p_ada", "t_1", "10.0.0.1", "asked")
    assert (first.object, first.detail) == (job, "gpt-5 through test")


async def test_two_people_may_choose_the_same_key(engine: Engine, caller: Any) -> None:
    ada, bob = engine.for_person(ADA), engine.for_person(BOB)
    first = await ask(ada, caller, key="key-1")
    assert await ask(ada, caller, key="key-1") == first
    assert await ask(bob, caller, key="key-1") != first
    assert await ask(ada, caller, key=NewKey("key-2")) != first
    assert sorted(set(await ada.keys_like("key-"))) == ["key-1", "key-2"]
    assert set(await bob.keys_like("key-")) == {"key-1"}


async def test_calls_that_have_not_ended(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    ada = engine.for_person(ADA)
    fake_api.script(gate="g")
    job = await ada.submit(ChatRequest(prompt="x", model="gpt-5"), caller(), key="call-1")
    await fake_api.wait_for()
    await engine.store.flush()
    assert {record.id for record in await ada.open_calls("call-")} == {job}
    assert await ada.open_calls("other-") == []
    assert await engine.for_person(BOB).open_calls("call-") == []
    assert await ada.cancel(job)
    await engine.store.flush()
    assert await ada.open_calls("call-") == []
    assert (await audit_records(engine))[0].action == "cancelled"


async def test_the_operator_finds_calls_of_an_earlier_release(engine: Engine, caller: Any) -> None:
    before = await ask(engine, caller, key="key-0")
    assert await ask(engine.for_person(OPERATOR), caller, key="key-0") == before
    assert await ask(engine.for_person(ADA), caller, key="key-0") != before


async def test_a_person_with_read_only_access(engine: Engine, caller: Any) -> None:
    eve = of_person(engine, EVE)
    with pytest.raises(NotPermitted, match="Eve has read-only access and cannot ask models"):
        await ask(eve, caller)
    with pytest.raises(NotPermitted, match="cannot cancel jobs"):
        await eve.cancel("job_x")
    with pytest.raises(NotPermitted, match="cannot delete jobs"):
        await eve.delete("job_x")
    for change in (eve.archive.share, eve.archive.unshare, eve.archive.delete):
        with pytest.raises(NotPermitted, match=r"cannot (share|delete) conversations"):
            await change("conv_x")
    (refusal,) = await audit_records(engine)
    assert (refusal.action, refusal.object) == ("refused", "ChatRequest")


async def test_a_shared_conversation_is_read_by_all_and_continued_by_its_owner(
    engine: Engine, caller: Any
) -> None:
    ada, bob = of_person(engine, ADA), of_person(engine, BOB)
    await ask(ada, caller, "one", continuation_id="mine")
    (row,) = (await ada.archive.page(10))["conversations"]
    name = row["id"]
    assert name.startswith("mine.")
    assert "shared" not in row
    for missing in (ada.archive.share, ada.archive.unshare):
        with pytest.raises(NotFound, match="no conversation nothing"):
            await missing("nothing")
    with pytest.raises(NotFound):
        await bob.archive.share(name)
    with pytest.raises(NotFound):
        await bob.archive.show(name)
    document = await ada.archive.share(name)
    assert document["is_own"]
    assert document["shared"]["by"]
    theirs = await bob.archive.show(name)
    assert not theirs["is_own"]
    assert theirs["shared"] == document["shared"]
    assert await bob.archive.contents(name) == await ada.archive.contents(name)
    assert (await bob.archive.page(10))["conversations"] == []
    (shared_row,) = (await bob.archive.page(10, shared=True))["conversations"]
    assert (shared_row["id"], shared_row["shared"]) == (name, document["shared"])
    with pytest.raises(NotPermitted, match="only its owner can continue it"):
        await ask(bob, caller, "two", continuation_id=name)
    await ask(ada, caller, "two", continuation_id=name)
    assert len((await bob.archive.show(name))["history"]) == 4
    assert "shared" not in await ada.archive.unshare(name)
    with pytest.raises(NotFound):
        await bob.archive.show(name)
    await ada.archive.delete(name)
    with pytest.raises(NotFound):
        await ada.archive.show(name)
    actions = [record.action for record in await audit_records(engine)]
    assert actions[0] == "deleted"
    assert {"shared", "unshared", "refused", "asked"} <= set(actions)


async def test_a_completion_begins_a_conversation_under_any_name(engine: Engine, caller: Any) -> None:
    ada = engine.for_person(ADA)
    request = CompletionRequest(
        model="gpt-5", turns=(Turn("user", "hi"), Turn("assistant", "so"), Turn("user", "on")),
        continuation_id="conv_00000000-0000-4000-8000-000000000000",
    )  # fmt: skip
    await ada.wait(await ada.submit(request, caller()))
    await engine.store.flush()
    (row,) = (await ada.archive.page(10))["conversations"]
    assert row["id"].startswith("conv_00000000")
    with pytest.raises(CounselError):
        await ask(ada, caller, continuation_id="conv_00000000-0000-4000-8000-000000000001")


async def test_a_call_is_recorded_without_its_question(engine: Engine, caller: Any) -> None:
    ada = engine.for_person(ADA)
    await ada.wait(
        await ada.submit(ConsensusRequest(prompt="the question", models=("gpt-5", "haiku")), caller())
    )
    (record,) = await audit_records(engine)
    assert record.detail == "gpt-5, haiku through test"
    assert "question" not in str(record)


async def test_budgets_of_the_server_are_for_admins(engine: Engine, caller: Any) -> None:
    settings = caller(COUNSEL_BUDGET_DAY="5").settings
    assert len(await engine.for_person(OPERATOR).budget_report(settings)) == 1
    assert await engine.for_person(ADA).budget_report(settings) == []


async def test_a_limit_of_calls_counts_without_a_budget(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    await engine.store.limits.set(LimitRow("person", ADA.id, per_minute=1))
    ada, person = engine.for_person(ADA), replace(caller(), person=ADA)
    await ask(ada, lambda: person)
    with pytest.raises(RateLimited, match="may make 1 call a minute"):
        await ask(ada, lambda: person)
    assert len(fake_api.requests) == 1


async def test_a_person_deletes_a_job_of_their_own(engine: Engine, caller: Any) -> None:
    ada, bob = engine.for_person(ADA), engine.for_person(BOB)
    job = await ask(ada, caller)
    with pytest.raises(NotFound):
        await bob.delete(job)
    await ada.delete(job)
    with pytest.raises(NotFound):
        await ada.status(job)
    assert (await audit_records(engine))[0].action == "deleted"
    await ada.close()
    await ask(ada, caller)
