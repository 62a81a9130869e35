"""Characters that PostgreSQL's text does not allow, and large values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counsel.engine.store.records import Blob, JobFilter
from counsel.job_events import TextAdded
from counsel.results import ChatResult
from engine.store.postgres.conftest import Open
from support.stored import completed, fence, new_job, reply, turn, usage

UNUSUAL_TEXT = "nul \0, half \ud83d, end"
PLAIN = "nul \ufffd, half \ufffd, end"


async def test_nul_and_half_characters_are_replaced_in_text_and_kept_in_json(open_store: Open) -> None:
    store = open_store()
    new = new_job(title=UNUSUAL_TEXT, tag=UNUSUAL_TEXT, project=UNUSUAL_TEXT)
    new = replace(new, task=replace(new.task, prompt=UNUSUAL_TEXT, text=UNUSUAL_TEXT, models=(UNUSUAL_TEXT,)))
    await store.submit(new)
    await store.append(fence(new), [TextAdded(1, 1.0, UNUSUAL_TEXT, UNUSUAL_TEXT, 0, "answer")])
    (event,) = await store.events(new.id, 0)
    assert isinstance(event, TextAdded)
    assert (event.slot, event.text) == (PLAIN, UNUSUAL_TEXT)
    await store.remember(
        fence(new), UNUSUAL_TEXT, UNUSUAL_TEXT, reply(UNUSUAL_TEXT), usage(new.id, model=UNUSUAL_TEXT)
    )
    stored_reply = await store.reply(new.id, UNUSUAL_TEXT)
    assert stored_reply is not None
    assert stored_reply.text == UNUSUAL_TEXT
    result = ChatResult.from_json({"content": UNUSUAL_TEXT, "metadata": {"model": UNUSUAL_TEXT}})
    await store.finish(fence(new), completed(new, UNUSUAL_TEXT, result=lambda _: result))
    job = await store.job(new.id)
    assert job is not None
    assert (job.title, job.models) == (PLAIN, (PLAIN,))
    assert isinstance(job.result, ChatResult)
    assert job.result.content == UNUSUAL_TEXT
    assert (await store.messages("conversation"))[-1].text == PLAIN
    assert [hit.text for hit in await store.search("nul \0, END", 10)] == [PLAIN]
    assert await store.newest_tag(UNUSUAL_TEXT) == PLAIN
    assert [row.id for row in (await store.jobs_page(5, JobFilter(model=UNUSUAL_TEXT))).rows] == [new.id]
    assert (await store.outcomes([new.id]))[new.id].model == UNUSUAL_TEXT
    assert await store.job(UNUSUAL_TEXT) is None


@pytest.mark.parametrize("size", [16 * 1024 * 1024])
async def test_the_largest_answer_and_image_are_read_as_they_were_written(
    open_store: Open, size: int
) -> None:
    store = open_store()
    text = "é0123456789abcde" * (size // 17)
    image = Blob("sha", "image/png", bytes(range(256)) * (size // 256))
    new = new_job(project="/" + "long-folder/" * 340)  # a path of 4,081 bytes, which is too long for an index
    store.put_blobs([image])
    store.submit(new)
    await store.finish(fence(new), completed(new, text, turn=turn(new, text)))
    assert (await store.messages("conversation"))[-1].text == text
    assert await store.blobs(["sha"]) == {"sha": image}
    assert await store.newest_tag(new.task.project) is None
