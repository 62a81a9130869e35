"""Lists page by page, deletion of one job, and keys by prefix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import JobFilter, JobRecord, NewJob
from counsel.errors import InvalidArgument
from support.stored import completed, fence, new_job, stopped

ANY = JobFilter()


async def finish_job(
    store: Store, conversation: str = "conversation", text: str = "answer", **fields: Any
) -> NewJob:
    job = new_job(conversation, **fields)
    await store.submit(job)
    await store.finish(fence(job), completed(job, text))
    return job


async def all_pages(store: Store, limit: int, job_filter: JobFilter = ANY) -> list[list[JobRecord]]:
    pages, cursor = [], None
    while True:
        page = await store.jobs_page(limit, job_filter, cursor)
        pages.append(page.rows)
        cursor = page.next
        if cursor is None:
            return pages


async def names(store: Store, job_filter: JobFilter) -> set[str]:
    return {row.id for row in (await store.jobs_page(50, job_filter)).rows}


async def test_pages_list_each_job_once_newest_first(store: Store) -> None:
    jobs = [new_job(created=100.0 + number // 2) for number in range(7)]  # two each at the same moment
    for job in jobs:
        await store.submit(job)
    newest_first = [job.id for job in reversed(jobs)]
    for limit in (1, 2, 3, 6, 7, 50):
        pages = await all_pages(store, limit)
        assert [row.id for page in pages for row in page] == newest_first
        assert all(len(page) == limit for page in pages[:-1])
    assert [row.id for row in await store.recent_jobs(50)] == newest_first


async def test_a_page_continues_where_it_ended_while_jobs_arrive(store: Store) -> None:
    jobs = [await finish_job(store, created=100.0 + number) for number in range(4)]
    first = await store.jobs_page(2, ANY)
    await finish_job(store, created=200.0)
    await store.delete_job(jobs[2].id)  # the last row of the first page
    second = await store.jobs_page(2, ANY, first.next)
    assert [row.id for row in (*first.rows, *second.rows)] == [job.id for job in reversed(jobs)]
    assert second.next is None


async def test_jobs_are_filtered_by_their_properties(store: Store) -> None:
    completed_job = await finish_job(store, "one", title="Safe regular expressions")
    failed_job, running_job = new_job("two", title="Another 100% question"), new_job("one", title="a_b")
    for job in (failed_job, running_job):
        await store.submit(job)
    await store.finish(fence(failed_job), stopped(failed_job))
    panel = new_job("three", title="The panel")
    panel = replace(panel, task=replace(panel.task, tool="consensus", models=("sonnet", "gpt-5")))
    await store.submit(panel)
    assert await names(store, JobFilter(status="completed")) == {completed_job.id}
    assert await names(store, JobFilter(status="processing")) == {running_job.id, panel.id}
    assert await names(store, JobFilter(tool="consensus")) == {panel.id}
    assert await names(store, JobFilter(model="sonnet")) == {panel.id}
    assert await names(store, JobFilter(conversation="one")) == {completed_job.id, running_job.id}
    assert await names(store, JobFilter(conversation="one", status="completed")) == {completed_job.id}
    assert await names(store, JobFilter(words="EXPRESSIONS safe")) == {completed_job.id}
    assert await names(store, JobFilter(words="0%")) == {failed_job.id}  # no wildcards
    assert await names(store, JobFilter(words="a_b")) == {running_job.id}
    assert await names(store, JobFilter(words="nothing like it")) == set()


@pytest.mark.parametrize("cursor", ["", "x", "é", "AAAA", "MTIz", "%00", "9" * 500])
async def test_a_cursor_that_no_page_gave_is_refused(store: Store, cursor: str) -> None:
    await finish_job(store)
    with pytest.raises(InvalidArgument):
        await store.jobs_page(2, ANY, cursor)
    with pytest.raises(InvalidArgument):
        await store.conversations_page(2, "", cursor)


async def test_pages_list_each_conversation_once_newest_first(store: Store) -> None:
    for number in range(5):
        await finish_job(store, f"conversation-{number}", f"answer {number}")
    await store.submit(new_job("unanswered"))  # there is nothing to show
    expected = [row.id for row in await store.conversations(50)]
    assert len(expected) == 5
    for limit in (1, 2, 5, 50):
        ids, cursor = [], None
        while True:
            page = await store.conversations_page(limit, "", cursor)
            ids += [hit.conversation.id for hit in page.rows]
            cursor = page.next
            if cursor is None:
                break
        assert sorted(ids) == sorted(expected)
        assert len(set(ids)) == 5


async def test_a_conversation_whose_only_question_failed_is_listed(store: Store) -> None:
    await finish_job(store, "answered", "yes")
    failed_job = new_job("refused", title="Which key?")
    await store.submit(failed_job)
    await store.finish(fence(failed_job), stopped(failed_job))
    page = await store.conversations_page(50)
    assert {(hit.conversation.id, hit.conversation.messages > 0) for hit in page.rows} == {
        ("answered", True),
        ("refused", False),
    }
    assert [hit.conversation.id for hit in (await store.conversations_page(50, "WHICH key")).rows] == [
        "refused"
    ]


async def test_pages_of_a_search_have_the_text_that_was_found(store: Store) -> None:
    for number in range(4):
        await finish_job(store, f"conversation-{number}", f"Tea number {number}")
    await finish_job(store, "other", "coffee")
    first = await store.conversations_page(3, "TEA number")
    second = await store.conversations_page(3, "TEA number", first.next)
    hits = [*first.rows, *second.rows]
    assert {hit.conversation.id for hit in hits} == {f"conversation-{number}" for number in range(4)}
    assert {hit.text for hit in hits} == {f"Tea number {number}" for number in range(4)}
    assert second.next is None


async def test_a_finished_job_is_deleted_and_its_conversation_stays(store: Store) -> None:
    job, second = await finish_job(store), await finish_job(store)
    assert await store.delete_job(job.id) is True
    assert await store.job(job.id) is None
    assert await store.delete_job(job.id) is False
    assert await store.existing_jobs([job.id, second.id]) == {second.id}
    assert len(await store.messages("conversation")) == 4


async def test_a_running_job_is_not_deleted(store: Store) -> None:
    job = new_job()
    await store.submit(job)
    assert await store.delete_job(job.id) is False
    detail = await store.job(job.id)
    assert detail is not None
    assert detail.status == "processing"


async def test_keys_are_found_by_their_prefix(store: Store) -> None:
    for key in ("http-a-1", "http-a-2", "http-b-1", "http", None):
        await store.submit(new_job(key=key))
    assert sorted(await store.keys_like("http-a-")) == ["http-a-1", "http-a-2"]
    assert await store.keys_like("http-c-") == []
    assert await store.keys_like("http-a-1x") == []
    assert await store.keys_like("%") == []
