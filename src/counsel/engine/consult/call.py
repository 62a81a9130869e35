"""One job's calls to models: each is made once, streams its text, and stores its outcome."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import Any

from counsel import resource_errors
from counsel.engine import results
from counsel.engine.completions import stop_sequences
from counsel.engine.completions.parts import Parts
from counsel.engine.consult import empty_answers, position
from counsel.engine.consult.budget import Budgets, CallBudget
from counsel.engine.consult.limiter import Limiter
from counsel.engine.consult.routes import Route
from counsel.engine.context import tokens
from counsel.engine.history import call_log, spans, usage
from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Fence, UsageRecord
from counsel.errors import Cancelled, CounselError, Internal, TimedOut
from counsel.job_events import Spent, ToolRun, Wait
from counsel.lazy_dataclass import dataclass
from counsel.live_json import LiveJson
from counsel.models import answer_limit
from counsel.requests import SEVERAL
from counsel.results import AnswerNotice
from counsel.text import TextBuffer, TextRepair
from counsel.tracing import NO_SPAN, Span
from counsel.types import (
    Call,
    Event,
    Finished,
    Notice,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolRan,
    ToolUse,
    Usage,
    UsageReport,
    VendorBlock,
    Withdrawn,
)

log = logging.getLogger("counsel.consult")
MOST_NOTICES = 500  # kept of one answer: sources, retries, warnings
MOST_TOOLS = 2_000  # tool calls kept of one answer


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a job. `key` names it in the store, `slot` in the live view."""

    key: str
    slot: str
    phase: str
    limit: float | None = None  # seconds
    states_position: bool = False  # the last line says whether the author changed its position
    is_json: bool = False  # the answer is read by counsel: live views show the strings in it
    uses_tools: bool = True
    last: bool = False  # the job ends with this call, and its end stores the reply
    may_be_empty: bool = False  # the answer's text
    hint: str = (
        "Ask it alone, lower its effort, or raise COUNSEL_MODEL_LIMIT_SECONDS."  # when the limit is reached
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished call that is stored with the job's end, and its usage record."""

    step: Step
    reply: Reply
    usage: UsageRecord


@dataclass(slots=True)
class Fold:
    """The state of one answer while its events arrive. `buffer` is shared with the listeners."""

    buffer: TextBuffer = field(default_factory=TextBuffer)
    size: int = 0  # bytes of `buffer`
    began: float = field(default_factory=time.monotonic)
    unbilled: int = 0  # quarter tokens received since usage was last reported
    usage: Usage = field(default_factory=Usage)
    notices: list[AnswerNotice] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tools: list[ToolRun] = field(default_factory=list)
    finished: Finished | None = None
    repair: TextRepair = field(default_factory=TextRepair)
    budget: CallBudget | None = None
    span: Span = NO_SPAN
    parts: Parts | None = None  # of a completion
    shown: LiveJson | None = None  # of an answer in JSON; `buffer` is not shared then

    def report(self, usage: Usage) -> None:
        self.usage, self.unbilled = usage, 0

    def without(self, withdrawn: str) -> int:
        """The length of the text without its withdrawn end, which was repaired on arrival like the rest."""
        self.repair = TextRepair()
        return len(self.buffer.text().removesuffix(TextRepair().feed(withdrawn)))

    def notice(self, notice: Notice) -> None:
        if notice.kind == "left_out":
            self.left_out.append(notice.data.get("setting", notice.text))
        elif len(self.notices) < MOST_NOTICES or notice.data.get("incomplete"):
            self.notices.append(AnswerNotice(notice.kind, notice.text, notice.data))

    @property
    def reservations(self) -> tuple[str, ...]:
        return tuple(self.budget.reservations) if self.budget else ()

    @property
    def cut(self) -> bool:
        return any(notice.is_incomplete for notice in self.notices)


class Consultation:
    """Bound to one job and its fence; all calls from the engine to a model go through `ask`."""

    def __init__(
        self,
        job: Job,
        fence: Fence,
        store: Store,
        live: Live,
        limiter: Limiter,
        *,
        budgets: Budgets | None = None,
        permit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.job = job
        self.fence = fence
        self.live = live
        self._store = store
        self._limiter = limiter
        self._marked = False
        # by slot: what its last failed or cancelled call used
        self.spent: dict[str, Usage] = {}
        self._most = job.caller.settings.max_answer_bytes
        self.unrecorded: list[Answer] = []
        self.budget = budgets.of_job(job) if budgets else None
        self._permit = permit

    async def ask(self, step: Step, route: Route, call: Call) -> Reply:
        """Ask a model, or recall the answer that it gave before a crash."""
        slot, limit = step.slot, step.limit
        if self.job.attempt > 1 and (reply := await self.remembered(step.key)):
            return self.recall(step, reply)
        fold = Fold(self.live.begin(slot, step.phase))
        if step.is_json:
            fold.buffer, fold.shown = TextBuffer(), LiveJson()
        if self.job.tool == "completion":
            fold.parts = Parts()
        call_log.asked(self.job, route, call)
        fold.span = spans.of_call(self.job, route, call)
        if route.is_agent and self.job.task.system:
            text = f"{route.name} has its own system prompt: yours was put before the question."
            self._on_notice(slot, Notice("warning", text), fold)
        try:
            if self.budget:
                fold.budget = self.budget.call(slot)
                call = replace(call, budget=fold.budget)
                await fold.budget.prepare(call, route.model, changes=self._uses_tools(step))
            if full := self._limiter.full(self.job.caller, route.provider):
                self.live.wait(slot, Wait("slot", full))
            async with self._limiter.slot(self.job.caller, route.provider, route.name):
                self.live.go_on(slot)
                self._mark_attempt()
                keyed = self._keyed(step, self._permitted(call))
                listening = self._listen(step, route, self._events(step, route, keyed, fold), fold)
                await (listening if limit is None else _within(limit, listening))
        except (CounselError, asyncio.CancelledError) as error:
            self._failed(error, route, call, step, fold)
            raise
        except BaseException as error:
            raise self._failed(error, route, call, step, fold) from error
        reply = self._reply(route, call, fold, is_json=step.is_json)
        call_log.answered(self.job, route, reply)
        spans.answered(fold.span, reply)
        used = usage.record(self.job, route, fold.began, reply.usage, reservations=fold.reservations)
        if step.last:
            self.unrecorded.append(Answer(step, reply, used))
        else:
            self._store.remember(self.fence, step.key, slot, reply, used)
        self.live.finish(slot, reply.provider, reply.ms, self.live.slots[slot].length, _amounts(reply))
        return reply

    def plan_round(self, tasks: Mapping[str, asyncio.Task[Any]]) -> None:
        """Models that are asked at once, by slot: whether each can be paid does not depend on who is first."""
        if self.budget:
            self.budget.plan(tasks)

    async def remembered(self, key: str) -> Reply | None:
        """The reply of an earlier attempt. Read each time: the process that lost the job may have stored it just now."""
        return await self._store.reply(self.job.id, key)

    def save_unrecorded(self) -> None:
        """Another process took the job at its end: store the replies for it."""
        for answer in self.unrecorded:
            step = answer.step
            self._store.remember(self.fence, step.key, step.slot, answer.reply, answer.usage)

    def _permitted(self, call: Call) -> Call:
        return replace(call, permit=self._permit) if self._permit else call

    def _keyed(self, step: Step, call: Call) -> Call:
        """With a name under which a team's server knows the call again."""
        if self.job.caller.settings.team is None:
            return call
        return replace(call, key=f"{self.job.id}:{step.key}", is_handed_over=lambda: self.job.handed_over)

    def _uses_tools(self, step: Step) -> bool:
        return bool(self.job.task.tools) and step.uses_tools

    def _events(self, step: Step, route: Route, call: Call, fold: Fold) -> AsyncIterator[Event]:
        if call.exact and call.exact.stop and route.wire in {"openai_responses", ""}:
            return stop_sequences.cut(route.answer(call), call.exact.stop)
        if not self._uses_tools(step):
            if not (step.states_position or call.knobs.web_search):  # nothing else reads the events
                call = replace(call, push=lambda delta: self._push(step.slot, delta, fold))
            events = route.answer(call)
        else:
            from counsel.engine.tools import loop  # imports the agents' modules, which few calls need

            events = loop.answer(route, call, self.job.task.tools, self.job.caller)
        return position.taken_out(events) if step.states_position else events

    def progress(self, completed: int) -> None:
        """Store how many models of the round are done, for `check_status`."""
        self._store.progress(self.fence, completed)

    def _mark_attempt(self) -> None:
        """Once per attempt after the first: a job that kills its process every time is given up eventually."""
        if self.job.attempt > 1 and not self._marked:
            self._marked = True
            self._store.mark_attempt(self.fence)

    def recall(self, step: Step, reply: Reply) -> Reply:
        """Show a stored answer like a new one, without asking a model."""
        self.live.begin(step.slot, step.phase)
        self.live.text(step.slot, reply.shown)
        self.live.finish(step.slot, reply.provider, reply.ms, len(reply.shown), _amounts(reply))
        return reply

    def discard(self, step: Step, route: Route, why: str) -> None:
        """An answer in JSON cannot be used, and its model is asked again."""
        if step.is_json:
            name = self.live.slots[step.slot].model if self.job.tool in SEVERAL else route.name
            self.live.restart(step.slot, "retried", why, model=name, after=name)

    async def _listen(self, step: Step, route: Route, events: AsyncIterator[Event], fold: Fold) -> None:
        slot = step.slot
        if self._permit and route.is_agent:  # models ask for it before each request
            await self._permit()
        handlers: dict[type, Callable[[Any], None]] = {
            Text: lambda event: self._on_text(slot, event.delta, fold),
            Withdrawn: lambda event: self._on_withdrawn(slot, route, event, fold),
            Thinking: lambda event: self._on_thinking(slot, event.delta, fold),
            UsageReport: lambda event: fold.report(event.usage),
            Notice: lambda event: self._on_notice(slot, event, fold),
            ToolUse: lambda event: self._on_tool_call(slot, event.call, fold),
            Thought: lambda event: self._on_thought(slot, event, fold),
            VendorBlock: lambda event: self._on_vendor_block(slot, event, fold),
            ToolRan: lambda event: self._on_tool(slot, event, fold),
            Finished: lambda event: setattr(fold, "finished", event),
        }
        try:
            async for event in events:
                handlers[type(event)](event)
                if fold.size > self._most:
                    self._cut_off(slot, route, fold)
                    break
        finally:
            await _close(events)
            if rest := fold.repair.rest():
                self._add_text(slot, rest, fold)
        if fold.finished is None:
            raise Internal(
                "The answer ended without a final event.", hint="This is a bug in counsel; please report it."
            )
        may_be_empty = step.may_be_empty or bool(fold.parts and fold.parts.has_calls)
        if failure := empty_answers.failure(
            route, fold.finished, fold.buffer.text(), may_be_empty=may_be_empty
        ):
            raise failure

    def _push(self, slot: str, delta: str, fold: Fold) -> bool:
        if fold.size + answer_limit.size(delta) > self._most:
            return False  # `_listen` ends the answer there
        self._on_text(slot, delta, fold)
        return True

    def _on_text(self, slot: str, delta: str, fold: Fold) -> None:
        """Clients written in Rust reject a whole message for half a surrogate pair."""
        if fold.repair.waits or not delta.isascii():
            delta = fold.repair.feed(delta)
        if not delta:
            return
        if fold.size + (count := answer_limit.size(delta)) > self._most:
            delta = answer_limit.first_bytes(delta, self._most - fold.size)
        fold.size += count
        fold.unbilled += 2 * count - len(delta)  # as `tokens.estimate` counts
        self._add_text(slot, delta, fold)

    def _add_text(self, slot: str, delta: str, fold: Fold) -> None:
        if fold.parts is not None:
            fold.parts.text(delta)
        if fold.shown is not None:
            fold.buffer.append(delta)
            delta = fold.shown.feed(delta)
        self.live.text(slot, delta)

    def _cut_off(self, slot: str, route: Route, fold: Fold) -> None:
        """The transport limits the answer of one request; agents and answers of several requests are limited here."""
        self._on_notice(slot, answer_limit.notice(route.name, self._most), fold)
        fold.finished = Finished("length")

    def _on_thinking(self, slot: str, delta: str, fold: Fold) -> None:
        fold.unbilled += 2 * answer_limit.size(delta) - len(delta)
        if fold.parts is not None:
            fold.parts.thinking(delta)
        self.live.thinking(slot, delta)

    def _on_thought(self, slot: str, thought: Thought, fold: Fold) -> None:
        if fold.parts is not None:
            self.live.part(slot, fold.parts.thought(thought))

    def _on_vendor_block(self, slot: str, block: VendorBlock, fold: Fold) -> None:
        if fold.parts is not None:
            self.live.part(slot, fold.parts.vendor(block))

    def _on_tool_call(self, slot: str, call: ToolCall, fold: Fold) -> None:
        if fold.parts is not None:
            self.live.part(slot, fold.parts.call(call))
        else:
            self.live.tool(slot, call.name)

    def _on_withdrawn(self, slot: str, route: Route, withdrawn: Withdrawn, fold: Fold) -> None:
        keep = length = fold.without(withdrawn.text)
        if fold.shown is not None:
            fold.buffer.cut(length)
            fold.shown = LiveJson()
            keep = len(fold.shown.feed(fold.buffer.text()))
        name = self.live.slots[slot].model if self.job.tool in SEVERAL else route.name
        self.live.restart(slot, "retried", withdrawn.why, model=name, after=name, keep=keep)
        fold.size = answer_limit.size(fold.buffer.text())

    def _on_notice(self, slot: str, notice: Notice, fold: Fold) -> None:
        if notice.kind == "retry":
            call_log.retries(self.job, notice)
        fold.notice(notice)
        setting = notice.data.get("setting") if fold.parts is not None else None
        self.live.notice(slot, notice.kind, notice.text, setting)
        if wait := notice.data.get("wait"):
            at = time.time() + wait
            moment = time.strftime("%H:%M:%S", time.localtime(at))
            reason = notice.data.get("reason", "it failed")
            self.live.wait(slot, Wait("retry", f"the next attempt at {moment} ({reason})", at=at))

    def _on_tool(self, slot: str, ran: ToolRan, fold: Fold) -> None:
        run = ToolRun(ran.server, ran.tool, ran.ms, ran.ok)
        if len(fold.tools) < MOST_TOOLS:
            fold.tools.append(run)
        self.live.tool(slot, ran.name, run)

    def _failed(self, error: BaseException, route: Route, call: Call, step: Step, fold: Fold) -> CounselError:
        """Record the failure. Not in `ask`: a frame that refers to its own exception keeps the prompt in memory until a collection."""
        failure = self._failure(error, route, step, fold)
        spent = _spent(route, call, fold)
        if fold.budget and (fold.budget.used.cost_usd or 0.0) > (spent.cost_usd or 0.0):
            spent = fold.budget.used  # also of requests that were broken off before their first word
        if spent.total:
            self.spent[step.slot] = spent
            results.charge(failure, spent)
        record = usage.record(
            self.job, route, fold.began, spent, code=failure.code, reservations=fold.reservations
        )
        self._store.record_usage(record)
        self.live.fail(step.slot, failure)
        call_log.failed(self.job, route, failure)
        spans.failed(fold.span, failure)
        return failure

    def _failure(self, error: BaseException, route: Route, step: Step, fold: Fold) -> CounselError:
        partial = fold.buffer.text() or None
        if isinstance(error, CounselError):
            if partial:  # of all requests; the error has only the last one's
                error.fields["partial"] = partial
            return error
        if isinstance(error, TimeoutError):
            return TimedOut(
                f"{route.name} did not finish within {step.limit or 0:.0f} s.",
                hint=step.hint,
                provider=route.provider,
                model=route.name,
                partial=partial,
            )
        if isinstance(error, asyncio.CancelledError):
            return Cancelled("The call was cancelled.", provider=route.provider, partial=partial)
        if lack := resource_errors.failure(error, f"Asking {route.name} failed"):
            lack.fields |= {"provider": route.provider, **({"partial": partial} if partial else {})}
            return lack
        log.error("asking %s failed", route.name, exc_info=error)
        return Internal(
            f"Asking {route.name} failed because of an internal error ({type(error).__name__}).",
            provider=route.provider,
        )

    def _reply(self, route: Route, call: Call, fold: Fold, *, is_json: bool) -> Reply:
        finished = fold.finished or Finished()
        return Reply(
            text=fold.buffer.text(),
            provider=route.provider,
            model=route.name,
            usage=_spent(route, call, fold) if fold.cut else _priced(route, fold.usage),
            finish_reason=finished.reason,
            ms=round((time.monotonic() - fold.began) * 1000),
            vendor_model=finished.model,
            left_out=tuple(name for name in dict.fromkeys(fold.left_out) if self.job.task.asked_for(name)),
            notices=tuple(fold.notices),
            session=finished.session,
            tools=tuple(fold.tools),
            parts=fold.parts.all() if fold.parts is not None else (),
            vendor=finished.vendor if fold.parts is not None else {},
            position=finished.position,
            is_json=is_json,
        )


def _spent(route: Route, call: Call, fold: Fold) -> Usage:
    """The usage of a call that failed or was cut off. Vendors bill a stream that breaks off or is cancelled, but report usage
    only at its end: the rest is estimated. An agent's input is not known and not estimated.
    """
    reported = _priced(route, fold.usage) if fold.usage.total else Usage(cost_usd=0.0)
    complete = fold.finished is not None and reported.total and not fold.cut
    if complete or not fold.unbilled:
        return reported
    input_tokens = 0
    if route.model is not None and not reported.input:
        input_tokens = call.tokens or tokens.estimate_call(call, route.model)
    estimated = Usage(input=input_tokens, output=-(-fold.unbilled // 4), estimated=True)
    return reported + _priced(route, estimated)


_NOTHING = Usage()


def _priced(route: Route, usage: Usage) -> Usage:
    """The usage with its price, which failed and cancelled calls have, too."""
    if usage.cost_usd is not None or usage == _NOTHING:
        return usage
    return Usage(
        usage.input,
        usage.output,
        usage.reasoning,
        usage.cache_read,
        usage.cache_write,
        route.cost(usage),
        usage.estimated,
    )


async def _within(seconds: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await work


async def _close(events: AsyncIterator[Event]) -> None:
    """Closing the generator closes the upstream connection."""
    close: Callable[[], Awaitable[None]] | None = getattr(events, "aclose", None)
    if close:
        await close()


def _amounts(reply: Reply) -> Spent:
    return Spent(reply.usage.input, reply.usage.output, reply.usage.cost_usd)
