"""A person's view of the store: for every operation, other people's rows do not exist."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from counsel.engine.store import protocol
from counsel.engine.store.postgres import scope
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.records import Blob, BudgetLimit, JobFilter, NewJob
from counsel.errors import Internal, NotFound
from counsel.job_events import TextAdded
from counsel.people import Person
from support.stored import DAY, completed, fence, new_job, reply, usage

pytestmark = pytest.mark.thorough  # left out of `make check`

ANN, BOB = Person("p_ann", "Ann"), Person("p_bob", "Bob")
SHA, UNKNOWN = "a" * 64, "unknown"


def job_of(person: Person, conversation: str, **fields: Any) -> NewJob:
    job = new_job(conversation, **fields)
    task = replace(job.task, images=(SHA,)) if person is ANN else job.task
    return replace(job, origin=replace(job.origin, person=person), task=task)


class AnnsRows:
    """Ann's data: an ended job, a running one, a failed call, an image, a cached answer, a tag."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.job = job_of(ANN, "conv_ann", tag="thread", key="key-ann", id="job_ann")
        self.open = job_of(ANN, "conv_ann", id="job_open")

    async def write(self) -> None:
        store, job = self.store, self.job
        await store.put_blobs([Blob(SHA, "image/png", b"png")])
        await store.submit(job)
        await store.submit(self.open)
        await store.submit(job_of(ANN, "conv_ann", id="job_later"))
        store.append(fence(job), [TextAdded(1, 1.0, "0", "text", 0, "answer")])
        store.remember(fence(self.open), "answer:gpt-5", "0", reply(), usage(self.open.id))
        store.append(fence(self.open), [TextAdded(1, 1.0, "0", "text", 0, "answer")])
        store.scoped(ANN.id).cache_answer("question", reply(), expires=time.time() + DAY)
        await store.finish(fence(job), completed(job, "the secret word"))


@pytest.fixture
async def ann(open_store: Callable[[], PostgresStore]) -> AnnsRows:
    data = AnnsRows(open_store())
    await data.write()
    return data


Ask = Callable[[protocol.Store, str, str], Awaitable[object]]
LIMIT = BudgetLimit(10.0, 0.0)
# Every operation, with the id of a job and of a conversation; lists need neither.
READS: dict[str, Ask] = {
    "job": lambda store, job, _: store.job(job),
    "job_with_key": lambda store, job, _: store.job_with_key("key-ann" if job != UNKNOWN else UNKNOWN),
    "keys_like": lambda store, job, _: store.keys_like("key-" if job != UNKNOWN else UNKNOWN),
    "task": lambda store, job, _: store.task(job),
    "existing_jobs": lambda store, job, _: store.existing_jobs([job]),
    "recent_jobs": lambda store, _, __: store.recent_jobs(10),
    "jobs_page": lambda store, _, __: store.jobs_page(10, JobFilter(words="question")),
    "outcomes": lambda store, job, _: store.outcomes([job]),
    "open_jobs": lambda store, _, conversation: store.open_jobs(conversation),
    "earlier_jobs": lambda store, job, _: store.earlier_jobs("job_later" if job != UNKNOWN else UNKNOWN),
    "newest_job": lambda store, _, conversation: store.newest_job(conversation),
    "jobs_without_turn": lambda store, _, conversation: store.jobs_without_turn(conversation),
    "standing": lambda store, job, _: store.standing([job]),
    "owners": lambda store, _, __: store.owners(),
    "reply": lambda store, job, _: store.reply(job, "answer:gpt-5"),
    "replies": lambda store, job, _: store.replies(job),
    "has_replies": lambda store, job, _: store.has_replies(job),
    "events": lambda store, job, _: store.events(job, 0),
    "last_seq": lambda store, job, _: store.last_seq(job),
    "slots_with_text": lambda store, job, _: store.slots_with_text(job),
    "waiting": lambda store, job, _: store.waiting(job),
    "blobs": lambda store, job, _: store.blobs([SHA if job != UNKNOWN else UNKNOWN]),
    "conversation": lambda store, _, conversation: store.conversation(conversation),
    "conversations": lambda store, _, __: store.conversations(10),
    "search": lambda store, _, __: store.search("secret", 10),
    "conversations_page": lambda store, _, __: store.conversations_page(10, "secret"),
    "messages": lambda store, _, conversation: store.messages(conversation),
    "conversation_size": lambda store, _, conversation: store.conversation_size(conversation),
    "sharings": lambda store, _, conversation: store.sharings([conversation]),
    "agent_session": lambda store, _, conversation: store.agent_session(conversation, "codex"),
    "newest_tag": lambda store, _, __: store.newest_tag("/project"),
    "usage": lambda store, _, __: store.usage(0.0),
    "usage_totals": lambda store, _, __: store.usage_totals(),
    "cached_answer": lambda store, job, _: store.cached_answer("question" if job != UNKNOWN else UNKNOWN),
    "open_reservations": lambda store, _, __: store.open_reservations(),
    "budget_states": lambda store, _, __: store.budget_states([LIMIT]),
}
WRITES: dict[str, Ask] = {  # what an interface changes
    "detach": lambda store, job, _: _awaited(store.detach(job)),
    "request_cancel": lambda store, job, _: _awaited(store.request_cancel(job)),
    "describe": lambda store, job, _: _awaited(store.describe(job, title="stolen", summary="stolen")),
    "delete_job": lambda store, job, _: store.delete_job(job),
    "set_title": lambda store, _, conversation: _awaited(
        store.set_title(conversation, "stolen", instead_of="question")
    ),
    "delete_conversation": lambda store, _, conversation: store.delete_conversation(conversation),
    "share": lambda store, _, conversation: _awaited(store.share(conversation, 1.0)),
    "cache_answer": lambda store, _, __: _awaited(
        store.cache_answer("question", reply("stolen"), expires=time.time() + DAY)
    ),
}
# Operations that run jobs, which a person's view refuses; the rest concerns the store itself.
RUNS = {
    "submit", "adopt", "release", "progress", "finish", "mark_attempt", "remember", "append", "put_blobs",
    "record_usage", "reserve", "settle", "drop_reservations", "sweep",
}  # fmt: skip
STORE_ONLY = {
    "mark", "wait_for_change", "problem", "is_home", "is_current", "flush", "look", "check", "back_up", "close",
    "people", "audit", "sessions", "limits", "person_keys", "scoped", "of_team", "team", "mcp_sessions", "uploads",
}  # fmt: skip
EMPTY_FOR_ALL = {"waiting", "agent_session", "open_reservations", "sharings"}


async def _awaited(pending: Awaitable[object]) -> object:
    return await pending


def test_every_operation_of_the_store_is_in_one_of_the_tables() -> None:
    operations = {
        name
        for part in protocol.Store.__mro__
        for name, value in vars(part).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }
    assert operations == READS.keys() | WRITES.keys() | RUNS | STORE_ONLY


@pytest.mark.parametrize("name", READS)
async def test_rows_of_others_read_as_if_they_did_not_exist(ann: AnnsRows, name: str) -> None:
    bob, nobody = ann.store.scoped(BOB.id), ann.store.scoped("p_nobody")
    for job in (ann.job.id, ann.open.id):
        result = await READS[name](bob, job, "conv_ann")
        assert result == await READS[name](nobody, UNKNOWN, UNKNOWN)
    if name not in EMPTY_FOR_ALL:
        own = [
            await READS[name](ann.store.scoped(ANN.id), job, "conv_ann") for job in (ann.job.id, ann.open.id)
        ]
        assert any(value != result for value in own), "the test would not notice"


@pytest.mark.parametrize("name", WRITES)
async def test_rows_of_others_cannot_be_changed(ann: AnnsRows, name: str) -> None:
    async def state() -> object:
        mine = ann.store.scoped(ANN.id)
        return (
            [await mine.job(ann.job.id), await mine.job(ann.open.id), await mine.conversation("conv_ann")],
            await mine.cached_answer("question"),
            await ann.store.of_team().conversation("conv_ann"),
        )

    before = await state()
    bob = ann.store.scoped(BOB.id)
    for job in (ann.job.id, ann.open.id):
        assert await WRITES[name](bob, job, "conv_ann") == await WRITES[name](bob, UNKNOWN, UNKNOWN)
    assert await state() == before


async def test_a_view_runs_no_jobs(ann: AnnsRows) -> None:
    mine = ann.store.scoped(ANN.id)
    for write in (
        mine.submit(job_of(ANN, "conv_new")),
        mine.finish(fence(ann.open), completed(ann.open)),
        mine.append(fence(ann.open), [TextAdded(2, 1.0, "0", "x", 0, "answer")]),
        mine.record_usage(usage(ann.job.id)),
        mine.put_blobs([Blob("b" * 64, "image/png", b"")]),
    ):
        with pytest.raises(Internal, match="view of the store"):
            await write


async def test_a_table_without_a_rule_is_refused() -> None:
    for sql in (
        "SELECT * FROM counsel.tokens",
        "SELECT 1 FROM counsel.jobs, counsel.audit",
        "DELETE FROM counsel.jobs",
    ):
        with pytest.raises(Internal):
            scope.of_person(BOB.id).statement(sql)
    with pytest.raises(Internal):
        scope.of_person("x' OR TRUE --")
    with pytest.raises(Internal):
        scope.shared().statement("UPDATE counsel.conversations SET title = 'x' WHERE id = %s")


async def test_a_job_never_joins_a_conversation_of_someone_else(ann: AnnsRows) -> None:
    with pytest.raises(NotFound):
        await ann.store.submit(job_of(BOB, "conv_ann"))
    submission = await ann.store.submit(job_of(BOB, "conv_bob", tag="thread"))
    assert submission.conversation == "conv_bob"
    again = await ann.store.submit(job_of(BOB, "conv_other", tag="thread"))
    assert again.conversation == "conv_bob"


async def test_usage_belongs_to_whoever_asked(ann: AnnsRows) -> None:
    assert [row.job for row in await ann.store.scoped(ANN.id).usage(0.0)] == [ann.open.id]
    assert await ann.store.scoped(BOB.id).usage(0.0) == []
    assert len(await ann.store.usage(0.0)) == 1


async def test_a_shared_conversation_is_readable_with_its_images_until_it_is_unshared(ann: AnnsRows) -> None:
    team = ann.store.of_team()
    assert await team.conversation("conv_ann") is None
    assert await ann.store.scoped(ANN.id).share("conv_ann", time.time())
    assert (await team.conversation("conv_ann")) is not None
    assert len(await team.messages("conv_ann")) == 2
    assert len((await team.conversations_page(10, "secret")).rows) == 1
    assert await team.job(ann.job.id) is None
    assert await ann.store.scoped(BOB.id).conversation("conv_ann") is None  # it is not among Bob's own
    assert await ann.store.scoped(ANN.id).share("conv_ann", None)
    assert await team.conversation("conv_ann") is None
    assert await team.messages("conv_ann") == []
