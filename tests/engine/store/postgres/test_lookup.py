"""Jobs and conversations by the beginning of their ids, for commands on a machine with a team's database."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

from counsel.engine.store.model import Origin
from counsel.engine.store.postgres.lookup import PostgresLookup
from counsel.people import Person
from engine.store.postgres.conftest import Open
from support.stored import completed, fence, new_job, stopped


async def test_entries_of_nobody_in_the_team(open_store: Open, url: str) -> None:
    store, now = open_store(), time.time()
    for number, name in enumerate(("alpha", "beta")):
        job = new_job(name, id=f"job_{name}", project="/p", created=now - 100 + number)
        await store.submit(job)
        await store.finish(fence(job), completed(job))
    await store.submit(new_job("gamma", id="job_open", project="/q", created=now - 50))
    bad = new_job("delta", id="job_bad", project="/p", created=now - 40)
    await store.submit(bad)
    await store.finish(fence(bad), stopped(bad))
    await store.submit(new_job("epsilon", id="job_old", project="/old", created=now - 30, expires=now - 1))
    theirs = replace(
        new_job("theirs", id="job_theirs", created=now), origin=Origin(person=Person("p_1", "Ada"))
    )
    await store.submit(theirs)
    with closing(PostgresLookup(url)) as lookup:
        assert lookup.readable
        job_entry = lookup.job("job_alpha")
        assert job_entry is not None
        assert (job_entry.conversation, job_entry.status) == ("alpha", "completed")
        assert lookup.job("job_theirs") is None
        assert [entry.id for entry in lookup.jobs("")] == [
            "job_old", "job_bad", "job_open", "job_beta", "job_alpha"
        ]  # fmt: skip
        assert [entry.id for entry in lookup.jobs("job_b", 1)] == ["job_bad"]
        assert lookup.jobs("jobx") == []
        assert [entry.id for entry in lookup.conversations("al")] == ["alpha"]
        assert {entry.id for entry in lookup.conversations("")} == {"alpha", "beta", "gamma", "delta"}
        assert lookup.conversation("epsilon") is None, "it has expired"
        assert lookup.conversation("beta") is not None
        newest = [
            lookup.newest_job(),
            lookup.newest_job("/p"),
            lookup.newest_job(running=True),
            lookup.newest_job("/q", running=True),
            lookup.newest_conversation("/p"),
            lookup.newest_conversation("/q"),
        ]
        assert [entry and entry.id for entry in newest] == [
            "job_old", "job_bad", "job_old", "job_open", "beta", "gamma"
        ]  # fmt: skip
        assert lookup.newest_job("/p", running=True) is None
        assert lookup.newest_conversation("/old") is None


def test_a_database_that_cannot_be_read_raises_nothing() -> None:
    with closing(PostgresLookup("postgresql://nobody@127.0.0.1:9/none")) as lookup:
        assert not lookup.readable
        assert lookup.jobs("") == []
