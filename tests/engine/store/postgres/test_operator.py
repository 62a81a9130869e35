"""The operator, who has the server's COUNSEL_TOKEN, also sees what belongs to nobody in the team."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counsel.engine.store.model import Origin
from counsel.errors import NotFound
from counsel.people import OPERATOR
from engine.store.postgres.conftest import Open
from support.stored import completed, fence, new_job


async def test_the_operator_sees_and_continues_jobs_from_before_there_were_people(
    open_store: Open,
) -> None:
    """That includes what a server of an earlier release writes during an upgrade: its rows have no person."""
    store = open_store()
    unowned_job = new_job("before", id="job_before")
    await store.submit(unowned_job)
    await store.finish(fence(unowned_job), completed(unowned_job))
    for person, can_see in ((OPERATOR.id, True), ("", True), ("p1", False)):
        view = store.scoped(person)
        assert (await view.job("job_before") is not None) is can_see, person
        assert bool(await view.messages("before")) is can_see, person
    await store.submit(replace(new_job("before"), origin=Origin(person=OPERATOR)))
    with pytest.raises(NotFound):
        await store.submit(replace(new_job("before"), origin=Origin(person=replace(OPERATOR, id="p1"))))


async def test_the_operators_jobs_are_visible_to_nobody_else(open_store: Open) -> None:
    store = open_store()
    await store.submit(replace(new_job(id="job_theirs"), origin=Origin(person=OPERATOR)))
    for person, can_see in ((OPERATOR.id, True), ("", False), ("p1", False)):
        assert (await store.scoped(person).job("job_theirs") is not None) is can_see, person
