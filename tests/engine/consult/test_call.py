"""One call of a job: how a failure and its cost are reported, what is reused, what a team's server gets."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.answer_parts import ToolCallPart
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.limiter import Limiter
from counsel.engine.consult.routes import Route
from counsel.engine.jobs.events import Live
from counsel.engine.store.model import Reply
from counsel.errors import CounselError, OutOfResources, UpstreamError
from counsel.job_events import ModelFailed, ModelFinished, PartAdded, Restarted, TextFold
from counsel.settings import Settings
from counsel.types import Call, Event, Exact, Finished, Model, Notice, Text, Turn, Usage, UsageReport

STEP = Step("answer:gpt-5", "0", "answer", hint="Ask it alone.")
CALL = Call((Turn("user", "hello"),), tokens=40)


class Store:
    """Records what is written."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self.replies = replies
        self.remembered: list[tuple[str, str]] = []
        self.usage: list[Any] = []
        self.attempts = 0
        self.done: list[int] = []

    async def reply(self, job: str, key: str) -> Reply | None:
        assert job == "job_1"
        return self.replies.get(key)

    def remember(self, fence: object, key: str, slot: str, reply: Reply, used: object) -> None:
        self.remembered.append((key, reply.text))

    def record_usage(self, record: object) -> None:
        self.usage.append(record)

    def mark_attempt(self, fence: object) -> None:
        self.attempts += 1

    def progress(self, fence: object, completed: int) -> None:
        self.done.append(completed)


class Budget:
    """The budget of one call."""

    def __init__(self, used: Usage) -> None:
        self.used = used
        self.reservations = ["r_1"]

    async def prepare(self, *_: object, changes: bool) -> None:
        assert not changes


def stand_in(**fields: object) -> Any:
    return SimpleNamespace(**fields)


class CallSetup:
    def __init__(
        self,
        *,
        attempt: int = 1,
        team: object = None,
        agent: bool = False,
        system: str = "",
        replies: dict[str, Reply] | None = None,
    ) -> None:
        self.calls: list[Call] = []
        self.events: list[Event | BaseException] = [Text("so far")]
        self.live = Live("job_1", ("gpt-5",))
        self.store = Store(replies or {})
        settings = Settings(team=team)  # type: ignore[arg-type]
        caller = SimpleNamespace(
            settings=settings, client="test", cwd="/", agent=None, person=None, owner="", env={}
        )
        task = SimpleNamespace(system=system, tools=(), asked_for=lambda name: True, project="")
        self.job = stand_in(
            id="job_1", attempt=attempt, caller=caller, task=task, tool="chat", handed_over=False, conversation="conv_1",
            key="", client="test", project="",
        )  # fmt: skip
        self.route = Route(
            "gpt-5",
            "openai",
            self._answer,
            lambda usage: usage.total / 10,
            None if agent else Model("gpt-5", "openai", "gpt-5"),
        )
        self.permits = 0
        fence: Any = object()
        store: Any = self.store
        self.consultation = Consultation(self.job, fence, store, self.live, Limiter(), permit=self._permit)

    async def _permit(self) -> None:
        self.permits += 1

    async def _answer(self, call: Call) -> AsyncGenerator[Event]:
        self.calls.append(call)
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            yield event

    async def ask(self, step: Step = STEP, call: Call = CALL) -> Reply:
        return await self.consultation.ask(step, self.route, call)

    async def failure(self, error: BaseException, step: Step = STEP) -> CounselError:
        self.events.append(error)
        with pytest.raises(CounselError) as excinfo:
            await self.ask(step)
        return excinfo.value


async def test_an_answer_is_stored_and_reported() -> None:
    setup = CallSetup()
    setup.events += [UsageReport(Usage(input=3, output=4)), Finished("stop")]
    reply = await setup.ask()
    assert reply.text == "so far"
    assert reply.usage.cost_usd == pytest.approx(0.7)
    assert setup.store.remembered == [("answer:gpt-5", "so far")]
    last_event = setup.live.events[-1]
    assert isinstance(last_event, ModelFinished)
    assert last_event.spent is not None
    assert (
        last_event.provider,
        last_event.length,
        last_event.spent.input_tokens,
        last_event.spent.output_tokens,
    ) == ("openai", 6, 3, 4)
    assert last_event.spent.cost_usd == pytest.approx(0.7)
    assert setup.consultation.unrecorded == []
    assert setup.store.usage == []


async def test_the_last_answer_is_written_with_the_jobs_end_or_for_another_process() -> None:
    setup = CallSetup()
    setup.events += [Finished("stop")]
    await setup.ask(Step("answer", "0", "answer", last=True))
    assert setup.store.remembered == []
    setup.consultation.save_unrecorded()
    assert setup.store.remembered == [("answer", "so far")]


async def test_a_failure_keeps_all_text_of_the_answer_and_is_charged() -> None:
    setup = CallSetup()
    failure = await setup.failure(UpstreamError("It broke.", partial="far"))
    assert failure.partial == "so far"
    assert failure.usage is not None
    assert failure.usage["input_tokens"] == 40
    assert setup.consultation.spent["0"].input == 40
    (record,) = setup.store.usage
    assert record.code == "UPSTREAM_ERROR"
    last = setup.live.events[-1]
    assert isinstance(last, ModelFailed)
    assert (last.model, last.error.partial) == ("gpt-5", None)


async def test_a_failure_before_the_first_word_costs_nothing() -> None:
    setup = CallSetup()
    setup.events = []
    failure = await setup.failure(UpstreamError("It broke."))
    assert (failure.partial, failure.usage) == (None, None)
    assert setup.consultation.spent == {}
    assert len(setup.store.usage) == 1


@pytest.mark.parametrize(
    ("used", "recorded"),
    [
        (Usage(input=90, cost_usd=9.0), 9.0),  # a request that ended before its first word was billed, too
        (Usage(input=10, cost_usd=1.0), 2.0),  # the last request is not settled yet
        (Usage(input=20, cost_usd=2.0), 2.0),
        (Usage(cost_usd=0.0), 2.0),
        (Usage(input=10), 2.0),
        (None, 2.0),
    ],
)
async def test_a_failed_call_costs_what_all_its_requests_cost(used: Usage | None, recorded: float) -> None:
    setup = CallSetup()
    if used is not None:
        setup.consultation.budget = stand_in(call=lambda _: Budget(used))
    setup.events = [Text("so far"), UsageReport(Usage(input=15, output=5))]
    error = await setup.failure(UpstreamError("broken"))
    assert error.fields["cost_usd"] == recorded
    (record,) = setup.store.usage
    assert record.cost == recorded
    assert record.reservations == (() if used is None else ("r_1",))
    assert setup.consultation.spent["0"].cost_usd == recorded


async def test_the_error_of_a_model_that_takes_too_long_says_what_helps() -> None:
    setup = CallSetup()
    release = asyncio.Event()

    async def slow(call: Call) -> AsyncGenerator[Event]:
        yield Text("so far")
        await release.wait()

    setup.route = Route("gpt-5", "openai", slow, lambda usage: None, setup.route.model)
    with pytest.raises(CounselError) as excinfo:
        await setup.ask(Step("a", "0", "answer", limit=0.01, hint="Ask it alone."))
    failure = excinfo.value
    assert (failure.code, failure.message, failure.hint) == (
        "TIMEOUT",
        "gpt-5 did not finish within 0 s.",
        "Ask it alone.",
    )
    assert (failure.provider, failure.model, failure.partial) == ("openai", "gpt-5", "so far")


async def test_a_cancelled_call_keeps_its_text_and_is_recorded() -> None:
    setup = CallSetup()
    setup.events.append(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await setup.ask()
    last = setup.live.events[-1]
    assert isinstance(last, ModelFailed)
    assert (last.error.code, last.error.message) == ("CANCELLED", "The call was cancelled.")
    assert setup.store.usage[0].code == "CANCELLED"


@pytest.mark.parametrize("text", ["so far", ""])
async def test_a_lack_of_file_descriptors_is_named(text: str) -> None:
    setup = CallSetup()
    setup.events = [Text(text)] if text else []
    failure = await setup.failure(OSError(errno.EMFILE, "Too many open files"))
    assert isinstance(failure, OutOfResources)
    assert failure.message.startswith("Asking gpt-5 failed")
    assert (failure.provider, failure.partial) == ("openai", text or None)


async def test_an_internal_error_quotes_nothing() -> None:
    failure = await CallSetup().failure(ValueError("the prompt"))
    assert failure.code == "INTERNAL"
    assert failure.message == "Asking gpt-5 failed because of an internal error (ValueError)."
    assert failure.provider == "openai"


async def test_an_answer_without_an_end_is_an_internal_error() -> None:
    with pytest.raises(CounselError, match="without a final event") as excinfo:
        await CallSetup().ask()
    assert excinfo.value.partial == "so far"


async def test_a_resumed_job_does_not_ask_for_a_stored_answer_again() -> None:
    call: ToolCallPart = {"type": "tool_call", "id": "c", "name": "look", "arguments": {}}
    earlier = Reply(
        text="Three.",
        provider="openai",
        model="gpt-5",
        usage=Usage(input=1, output=2, cost_usd=0.5),
        ms=9,
        parts=({"type": "text", "text": "Three."}, call),
    )
    setup = CallSetup(attempt=2, replies={STEP.key: earlier})
    assert await setup.ask() is earlier
    assert setup.calls == []
    assert setup.store.attempts == 0
    parts = [event.part for event in setup.live.events if isinstance(event, PartAdded)]
    assert parts == [call]
    assert setup.live.slots["0"].text() == "Three."
    last_event = setup.live.events[-1]
    assert isinstance(last_event, ModelFinished)
    assert (last_event.ms, last_event.length, last_event.provider) == (9, 6, "openai")


async def test_each_attempt_that_asks_is_counted_once() -> None:
    setup = CallSetup(attempt=2)
    setup.events += [Finished("stop")]
    await setup.ask()
    await setup.ask(Step("other", "0", "answer"))
    assert setup.store.attempts == 1
    assert len(setup.calls) == 2
    first = CallSetup()
    first.events += [Finished("stop")]
    await first.ask()
    assert first.store.attempts == 0


async def test_a_teams_server_gets_the_calls_key() -> None:
    plain, laptop = CallSetup(), CallSetup(team=SimpleNamespace(identity="t"))
    for setup in (plain, laptop):
        setup.events += [Finished("stop")]
        await setup.ask()
    assert (plain.calls[0].key, plain.calls[0].is_handed_over) == ("", None)
    call = laptop.calls[0]
    assert call.key == "job_1:answer:gpt-5"
    assert call.is_handed_over is not None
    assert not call.is_handed_over()
    laptop.job.handed_over = True
    assert call.is_handed_over()


async def test_an_agents_call_asks_for_its_permit_and_a_models_transport_does() -> None:
    """For a model the transport asks for it before each request; for an agent the call does."""
    model, agent = CallSetup(), CallSetup(agent=True)
    for setup in (model, agent):
        setup.events += [Finished("stop")]
        await setup.ask()
    assert (model.permits, agent.permits) == (0, 1)
    permit = model.calls[0].permit
    assert permit is not None
    await permit()
    assert model.permits == 1


@pytest.mark.parametrize(("agent", "system", "is_told"), [(True, "Be brief.", True), (True, "", False), (False, "Be brief.", False)])  # fmt: skip
async def test_an_agent_keeps_its_own_system_prompt(agent: bool, system: str, is_told: bool) -> None:
    setup = CallSetup(agent=agent, system=system)
    setup.events += [Finished("stop")]
    notices = [notice.text for notice in (await setup.ask()).notices]
    assert notices == (
        ["gpt-5 has its own system prompt, so yours was put before the question."] if is_told else []
    )


async def test_text_is_pushed_only_where_nothing_else_reads_the_events() -> None:
    setup = CallSetup()
    setup.events += [Finished("stop")]
    await setup.ask()
    await setup.ask(Step("b", "0", "refined", states_position=True))
    assert [call.push is not None for call in setup.calls] == [True, False]


async def test_a_sequence_ends_an_answer_of_an_api_that_takes_none() -> None:
    for wire, text in (("openai_responses", "so "), ("openai_chat", "so far")):
        setup = CallSetup()
        setup.events += [Finished("stop")]
        setup.route = Route("gpt-5", "openai", setup._answer, lambda usage: None, setup.route.model, wire)
        reply = await setup.ask(call=Call((Turn("user", "hello"),), exact=Exact(stop=("far",))))
        assert reply.text == text


async def test_an_unusable_json_answer_is_withdrawn() -> None:
    setup = CallSetup()
    setup.events = [Text('{"answer": "Three"}'), Notice("source", "X"), Finished("stop")]
    step = Step("a", "0", "answer", is_json=True)
    await setup.ask(step)
    setup.consultation.discard(step, setup.route, "It is not what was asked for.")
    last = setup.live.events[-1]
    assert isinstance(last, Restarted)
    assert (last.model, last.next, last.reason, last.error, last.offset) == (
        "gpt-5", "gpt-5", "retried", "It is not what was asked for.", 0
    )  # fmt: skip
    count = len(setup.live.events)
    setup.consultation.discard(STEP, setup.route, "It is not.")
    assert len(setup.live.events) == count
    fold = TextFold()
    for event in setup.live.events:
        fold.add(event)
    assert fold.of("0").text() == ""


async def test_progress_is_stored_for_lists() -> None:
    setup = CallSetup()
    setup.consultation.progress(2)
    assert setup.store.done == [2]


async def test_an_empty_answer_is_a_failure_unless_it_may_be_empty() -> None:
    setup = CallSetup()
    setup.events = [Finished("stop")]
    with pytest.raises(CounselError) as excinfo:
        await setup.ask()
    assert excinfo.value.code == "EMPTY_ANSWER"
    assert (await setup.ask(Step("a", "0", "answer", may_be_empty=True))).text == ""


def test_a_step_is_one_of_several_unless_it_says_otherwise() -> None:
    assert (STEP.last, STEP.is_json, STEP.may_be_empty, STEP.limit) == (False, False, False, None)
