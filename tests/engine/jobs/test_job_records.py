"""What jobs keep and drop: keys of their calls, what a stored task has, and when followers see the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.history.archive import _matching_line
from counsel.engine.jobs import call_keys, ids, partial, replay
from counsel.engine.jobs.call_keys import CallKey
from counsel.engine.jobs.model import Job, Members
from counsel.engine.jobs.running import AGAIN, Running
from counsel.engine.store.model import Reply, Task
from counsel.engine.store.records import Fence, JobDetail, StoreError
from counsel.errors import Cancelled, CounselError, UpstreamError
from counsel.job_events import JobEvent, ModelFailed, ModelFinished, ModelStarted, Noticed, TextAdded
from counsel.requests import CompletionRequest
from counsel.results import ModelState
from counsel.settings import Settings
from counsel.types import Turn


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("answer:gpt-5", CallKey(0, False, "answer", "0")),
        ("answer:ollama:x:corrected", CallKey(0, True, "answer", "0")),
        ("verdict", CallKey(0, False, "verdict", "judge")),
        ("verdict:corrected", CallKey(0, True, "verdict", "judge")),
        ("initial:0", CallKey(1, False, "initial", "0")),
        ("initial:1:corrected", CallKey(1, True, "initial", "1")),
        ("refined:2", CallKey(2, False, "refined", "2")),
        ("refined2:2", CallKey(3, False, "refined", "2")),
        ("refined3:2:corrected", CallKey(4, True, "refined", "2")),
        ("review:1", CallKey(1, False, "review", "1")),
        ("check:1", CallKey(2, False, "check", "1")),
    ],
)
def test_the_key_of_a_call_says_its_round_and_model(key: str, expected: CallKey) -> None:
    assert call_keys.parse(key) == expected


def reply(text: str) -> Reply:
    return Reply(text=text, provider="openai", model="gpt-5")


def test_the_last_answer_of_each_model_is_that_of_its_last_round_corrected_or_not() -> None:
    keys = (
        "refined2:0",
        "initial:0",
        "refined:0",
        "initial:1:corrected",
        "initial:1",
        "verdict:corrected",
        "verdict",
    )
    answers = call_keys.last({key: reply(key) for key in keys})
    assert {slot: (phase, answer.text) for slot, (phase, answer) in answers.items()} == {
        "0": ("refined", "refined2:0"), "1": ("initial", "initial:1:corrected"), "judge": ("verdict", "verdict:corrected"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text", "line"),
    [
        ("high water", "Tell me.\n  When is HIGH tide?  \nhigh", "When is HIGH tide?"),
        ("  water  ", "fire\nwater", "water"),
        ("", "first\nsecond", "first"),
        ("none", "first", None),
        ("a", None, None),
        ("x", "x" * 300, "x" * 200),
    ],
)
def test_a_search_shows_the_line_with_the_first_word(words: str, text: str | None, line: str | None) -> None:
    assert _matching_line(text, words) == line


COMPLETION = CompletionRequest(model="m", turns=(Turn("user", "secret"),))


@pytest.mark.parametrize(
    ("completion", "is_adopted", "is_removed"),
    [
        (COMPLETION, True, True),
        (COMPLETION, False, False),
        (CompletionRequest(model="m", turns=COMPLETION.turns, stored=True), True, False),
        (None, True, False),
        (None, False, False),
    ],
)
def test_messages_that_were_stored_only_for_the_queue_are_removed(
    completion: CompletionRequest | None, is_adopted: bool, is_removed: bool
) -> None:
    task = Task(tool="completion", prompt="p", text="p", models=("m",), completion=completion)
    caller: Any = SimpleNamespace()
    text = Job("job_1", "mine", task, caller, False, 0.0, is_adopted=is_adopted).task_without_messages()
    assert (text is not None) is is_removed
    assert "secret" not in (text or "")


def test_a_member_is_stopped_once() -> None:
    members, stops = Members(), list[str]()
    task: Any = SimpleNamespace(cancel=lambda: stops.append("0"))
    members.tasks["0"] = task
    for slot in ("0", "0", "1"):
        members.stop(slot)
    assert (members.cancelled, stops) == ({"0", "1"}, ["0"])


# ── a running job's writes ───────────────────────────────────────────────────────────────────────────


class Write:
    def __init__(self) -> None:
        self.is_done = False
        self.error: Exception | None = None

    def done(self) -> bool:
        return self.is_done

    def exception(self) -> Exception | None:
        return self.error


class LiveStub:
    def __init__(self) -> None:
        self.events: list[int] = []

    def unwritten(self) -> list[int]:
        events, self.events = self.events, []
        return events


class WritingJob:
    def __init__(self) -> None:
        self.live = LiveStub()
        self.writes: list[tuple[list[int], Write]] = []
        job: Any = SimpleNamespace(handed_over=False)
        live: Any = self.live
        self.running = Running(job, live, Fence("job_1", "us", 1))
        self.cancels = 0
        task: Any = SimpleNamespace(cancel=self._cancel)
        self.running.task = task

    def _cancel(self) -> None:
        self.cancels += 1

    def append(self, _: Fence, events: list[int]) -> Write:
        self.writes.append((list(events), Write()))
        return self.writes[-1][1]

    def flush(self, *events: int, is_last: bool = False) -> list[list[int]]:
        self.live.events += events
        store: Any = self
        self.running.flush(store, is_last=is_last)
        return [written for written, _ in self.writes]


def test_events_are_written_one_write_after_another() -> None:
    job = WritingJob()
    assert job.flush() == [], "nothing is new"
    assert job.flush(1) == [[1]]
    assert job.flush(2) == [[1]], "the first write is in progress"
    job.writes[0][1].is_done = True
    assert job.flush(3) == [[1], [2, 3]]
    job.writes[1][1].is_done = True
    assert job.flush() == [[1], [2, 3]]


def test_events_that_could_not_be_written_are_tried_again_a_moment_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("counsel.engine.jobs.running.time", SimpleNamespace(monotonic=lambda: now))
    job = WritingJob()
    job.flush(1)
    write = job.writes[0][1]
    write.is_done, write.error = True, StoreError("The disk is full.")
    now += AGAIN - 0.1
    assert job.flush(2) == [[1]]
    now += 0.2
    assert job.flush() == [[1], [1, 2]], "in order, so that no follower misses one"


def test_with_its_end_a_job_repeats_a_write_that_is_in_progress() -> None:
    job = WritingJob()
    job.flush(1)
    assert job.flush(2, is_last=True) == [[1], [1, 2]]


@pytest.mark.parametrize("state", ["cancelled", "ending", "lost", ""])
@pytest.mark.parametrize("step", ["stop", "lose"])
def test_a_job_is_stopped_once_and_not_while_its_end_is_written(state: str, step: str) -> None:
    job = WritingJob()
    if state:
        setattr(job.running, state, True)
    for _ in range(2):
        getattr(job.running, step)()
    assert job.cancels == (0 if state else 1)
    if not state:
        assert (job.running.cancelled, job.running.lost) == (step == "stop", step == "lose")
        assert job.running.job.handed_over is (step == "lose")


def test_why_a_job_is_not_on_disk() -> None:
    running = WritingJob().running
    full = StoreError("The disk is full.")
    assert running.storage_failure(full) is full
    assert running.storage_failure(ValueError()) is None
    write: Any = Write()
    running.written = write
    assert running.storage_failure(ValueError()) is None, "it is still being written"
    write.is_done, write.error = True, full
    assert running.storage_failure(ValueError()) is full


async def test_every_waiter_sees_the_end_and_a_cancelled_one_leaves_nothing_behind() -> None:
    running = WritingJob().running
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()
        running.wake_waiters()

    running.task = asyncio.create_task(work())
    waiters = [asyncio.ensure_future(running.ended()) for _ in range(2)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0)
    assert [waiter.done() for waiter in waiters] == [False, False] or waiters[0].cancelled()
    gate.set()
    await asyncio.wait_for(waiters[1], 60)
    await running.ended()
    assert waiters[0].cancelled()


# ── replaying ────────────────────────────────────────────────────────────────────────────────────────


def detail(status: str = "completed", **fields: Any) -> Any:
    values: dict[str, Any] = {
        "id": "job_1", "tool": "chat", "status": status, "models": ("gpt-5",), "created": 5.0, "finished": 9.0,
        "result": SimpleNamespace(content="Hello"), "error": None, "is_open": status == "processing",
        "cancelled_members": (),
    }  # fmt: skip
    return SimpleNamespace(**{**values, **fields})


class EventStore:
    """A store with these events and answers."""

    def __init__(self, *events: JobEvent, replies: Mapping[str, Reply] | None = None) -> None:
        self._events = events
        self._replies = replies or {}

    def mark(self, _: str) -> int:
        return 0

    async def events(self, _: str, after: int) -> list[JobEvent]:
        return [event for event in self._events if event.seq > after]

    async def replies(self, _: str) -> Mapping[str, Reply]:
        return self._replies


async def replayed(store: EventStore, job: Any, after: int = 0) -> list[JobEvent]:
    async def look() -> JobDetail:
        found: JobDetail = job
        return found

    source: Any = store
    return [event async for event in replay.follow(source, look, "job_1", after)]


def started(seq: int, phase: str = "answer", slot: str = "0") -> ModelStarted:
    return ModelStarted(seq, 1.0, slot, "gpt-5", phase)


def text(seq: int, words: str, offset: int = 0) -> TextAdded:
    return TextAdded(seq, 1.0, "0", words, offset, "answer")


@pytest.mark.parametrize(
    ("events", "numbers"),
    [
        ([], [1, 2]),  # a job that ended at once has no events
        ([Noticed(1, 1.0, "", "warning", "x")], [1, 1, 2]),
        ([started(1), text(2, "Hel")], [1, 2, 2, 3]),
        ([started(40), text(41, "Hel")], [40, 41, 41, 42]),
    ],
)
async def test_the_end_comes_after_every_event_and_the_missing_text_before_it(
    events: list[JobEvent], numbers: list[int]
) -> None:
    seen = await replayed(EventStore(*events), detail())
    assert [event.seq for event in seen] == numbers
    assert seen[-1].kind == "done"
    assert seen[-1].at == 9.0
    assert "".join(event.text for event in seen if isinstance(event, TextAdded)) == "Hello"


async def test_a_follower_that_has_all_text_gets_only_the_end() -> None:
    events = [started(1), text(2, "Hello")]
    assert [event.kind for event in await replayed(EventStore(*events), detail(), after=2)] == ["done"]
    assert [event.kind for event in await replayed(EventStore(*events), detail(), after=1)] == [
        "text",
        "done",
    ]


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        ({"status": "cancelled", "error": Cancelled("x")}, "cancelled", "CANCELLED"),
        ({"status": "failed", "error": UpstreamError("x")}, "failed", "UPSTREAM_ERROR"),
        ({"status": "failed", "error": None}, "failed", "INTERNAL"),
    ],
)
async def test_a_job_without_a_result_ends_as_it_ended(fields: dict[str, Any], kind: str, code: str) -> None:
    (end,) = await replayed(EventStore(), detail(result=None, finished=None, **fields))
    assert (end.kind, end.at, end.data["error"]["code"]) == (kind, 5.0, code)


async def test_of_two_attempts_in_one_phase_only_the_second_ones_text_is_replayed() -> None:
    events = [
        started(1),
        text(2, "old"),
        started(3),
        text(4, "Hello"),
        started(5, "refined"),
        text(6, "more"),
    ]
    seen = await replayed(EventStore(*events), detail(result=SimpleNamespace(content="more")))
    assert [event.text for event in seen if isinstance(event, TextAdded)] == ["Hello", "more"]
    assert [event.seq for event in seen if isinstance(event, ModelStarted)] == [1, 3, 5]


async def test_the_states_of_a_job_elsewhere() -> None:
    store: Any = EventStore(
        started(1, "initial"), text(2, "Hel"), started(3, "initial", "1"),
        ModelFailed(4, 1.0, "1", "b", "initial", UpstreamError("broken")),
        ModelStarted(5, 1.0, "judge", "opus", "verdict"),
        replies={"initial:0": reply("Hello"), "initial:9": reply("x")},
    )  # fmt: skip
    states = await replay.states(store, detail("processing", models=("a", "b", "c"), result=None))
    assert [(state.slot, state.model, state.status, state.text) for state in states] == [
        ("0", "gpt-5", "processing", "Hel"), ("1", "gpt-5", "failed", ""), ("2", "c", "waiting", ""),
        ("judge", "opus", "processing", ""),
    ]  # fmt: skip
    finished: Any = EventStore(
        started(1, "initial"), text(2, "Hel"), ModelFinished(3, 1.0, "0", "gpt-5", "initial", "openai", 5, 5),
        replies={"initial:0": reply("Hello")},
    )  # fmt: skip
    (state,) = await replay.states(finished, detail("processing", models=("a",), result=None))
    assert (state.status, state.text) == ("completed", "Hello"), "the answer that is stored"


async def test_the_texts_of_cancelled_members_are_read_only_if_there_are_any() -> None:
    store: Any = EventStore(started(1), text(2, "Hel"), TextAdded(3, 1.0, "1", "no", 0, "answer"))
    assert await replay.texts(store, "job_1", ["0"]) == {"0": "Hel"}
    nothing: Any = None
    assert await replay.texts(nothing, "job_1", []) == {}


def model_state(slot: str = "0", **fields: Any) -> ModelState:
    return ModelState(**{"slot": slot, "model": "gpt-5", "status": "processing", "stored": True, **fields})


@pytest.mark.parametrize(
    ("state", "answer", "job", "expected"),
    [
        ({"status": "completed", "text": "x"}, "Hello", {}, ("completed", "Hello", "")),
        ({"status": "completed", "text": "x"}, None, {}, ("completed", "x", "")),
        ({"status": "waiting"}, "Hello", {}, ("completed", "Hello", "")),
        ({"status": "processing", "text": "Hel"}, None, {"status": "cancelled"}, ("cancelled", "", "Hel")),
        ({"status": "processing", "text": "Hel"}, "first", {"status": "failed"}, ("interrupted", "first", "Hel")),
        ({"status": "processing", "text": "Hel"}, None, {"status": "failed", "cancelled_members": ("0",)}, ("cancelled", "", "Hel")),
        ({"status": "failed", "error": UpstreamError("x")}, None, {"status": "cancelled"}, ("failed", "", "")),
        ({"status": "failed", "error": Cancelled("x")}, None, {"status": "cancelled"}, ("cancelled", "", "")),
    ],
)  # fmt: skip
def test_each_model_of_a_job_that_did_not_complete(
    state: dict[str, Any], answer: str | None, job: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    replies = {"initial:0": reply(answer)} if answer else {}
    states = partial.states(
        detail(**{"status": "failed", **job}), [model_state(**state), model_state("1")], replies
    )
    assert (states[0].status, states[0].text, states[0].partial or "") == expected
    assert states[0].error is None or not isinstance(states[0].error, Cancelled)


def test_a_model_that_refines_its_answer_shows_its_first_one_beside_it() -> None:
    states = [
        model_state("0", phase="refined"), model_state("1", phase="refined"), model_state("2", phase="initial"),
        model_state("3", phase=None),
    ]  # fmt: skip
    replies = {f"initial:{slot}": reply(f"first of {slot}") for slot in "023"}
    assert [state.first for state in partial.with_first(states, replies)] == ["first of 0", None, None, None]


def test_where_no_model_was_asked_there_are_no_states() -> None:
    waiting = [model_state(status="waiting"), model_state("1", status="waiting")]
    assert partial.states(detail("failed"), waiting, {}) == []
    assert len(partial.states(detail("failed"), waiting, {"initial:0": reply("x")})) == 2
    assert len(partial.states(detail("failed"), [waiting[0], model_state("1")], {})) == 2


def test_the_partial_text_of_an_error_belongs_to_its_model() -> None:
    alone = detail("failed", error=UpstreamError("x", partial="Hel"))
    (state,) = partial.states(alone, [model_state()], {})
    assert state.partial == "Hel"
    failed: list[dict[str, Any]] = [{"model": "a", "partial": "Hel"}, {"model": "b"}]
    both = detail("failed", error=UpstreamError("x", failed=failed))
    states = partial.states(both, [model_state(model="a"), model_state("1", model="b")], {})
    assert [state.partial for state in states] == ["Hel", None]
    other: CounselError = Cancelled("x")
    assert (
        partial.states(detail("failed", error=other), [model_state(), model_state("1")], {})[0].partial
        is None
    )


def partial_turn(tool: str, status: str, replies: Mapping[str, Reply], **task: Any) -> Any:
    settings = Settings(conversation_days=2)
    stored_task = Task(tool=tool, prompt="p", text="p", models=("a", "b"), **task)
    caller: Any = SimpleNamespace(settings=settings)
    job = Job("job_1", "mine", stored_task, caller, False, 0.0)
    return partial.turn(job, status)(replies)


def test_the_turn_of_a_consensus_that_did_not_complete_has_the_answers_that_came() -> None:
    turn = partial_turn(
        "consensus", "failed", {"initial:0": reply("```\ncode"), "refined:0": reply("better")}
    )
    assert turn.messages[1].text == (
        "⚠ This consensus failed: 1 of 2 models had answered. No answer from b.\n\n## a\n\nbetter"
    )
    assert (turn.provider, turn.model, turn.conversation) == (None, None, "mine")
    assert 1.9 < (turn.expires - time.time()) / 86_400 < 2.1
    incomplete = turn.messages[1].details.incomplete
    assert (incomplete.status, incomplete.answered, incomplete.unanswered) == ("failed", ("a",), ("b",))
    all_answered = partial_turn("consensus", "cancelled", {"initial:0": reply("x"), "initial:1": reply("y")})
    assert all_answered.messages[1].text.startswith(
        "⚠ This consensus was cancelled: 2 of 2 models had answered.\n\n"
    )
    fenced = partial_turn("consensus", "failed", {"initial:0": reply("```\ncode")})
    assert fenced.messages[1].text.endswith("```\ncode\n```")


def test_a_verdict_or_a_check_alone_makes_no_turn() -> None:
    assert partial_turn("consensus", "failed", {}) is None
    assert partial_turn("consensus", "failed", {"verdict": reply("x")}) is None
    assert partial_turn("review", "failed", {"check:0": reply("x")}) is None


def test_the_turn_of_a_chat_that_was_given_up_is_its_answer() -> None:
    turn = partial_turn("chat", "failed", {"answer:gpt-5": reply("Hello")})
    assert (turn.messages[1].text, turn.provider, turn.model) == ("Hello", "openai", "gpt-5")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv_0193a5b2-7c4e-4d1a-9f3b-2e8c6d5a4b1f", True),
        ("consensus_0193a5b2", True),
        ("ask_0193a5b", False),
        ("job_0193a5b2-7c", True),
        ("review_deadbeef", False),  # a word of letters needs twelve
        ("review_deadbeef-cafe", True),
        ("review_deadbeef-caf", False),
        ("review_0193a5b27c4e4d1a9f3", False),
        ("review_0193a5b27c4e4d1a9f3b", True),
        ("job_20261119", False),  # digits alone need twenty
        ("job_01234567890123456789", True),
        ("conv_abcdefghij", False),
        ("consensus_1703123456789_xyz789", False),
        ("conv_0193a5b2-7c4e-4d1a-9f3b-2e8c6d5a4bxx", True),  # mistyped
        ("conv_0193a5b2-7c4e-4d1a-xxxx-xxxxxxxxxxxx", False),
        ("thing_0193a5b2", False),
        ("conv_", False),
    ],
)
def test_which_names_only_counsel_gives_out(name: str, expected: bool) -> None:
    assert ids.is_ours(name) is expected
