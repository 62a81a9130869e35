"""One job's calls to models: each is made once, streams its text and stores its outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from counsel import resource_errors
from counsel.engine import results
from counsel.engine.completions import stop_sequences
from counsel.engine.consult import empty_answers, position
from counsel.engine.consult.budget import Budgets
from counsel.engine.consult.fold import Fold, shown_name
from counsel.engine.consult.limiter import Limiter
from counsel.engine.consult.routes import Route
from counsel.engine.history import call_log, spans, usage
from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Fence, UsageRecord
from counsel.errors import AuthenticationFailed, Cancelled, CounselError, Internal, TimedOut
from counsel.job_events import Spent, Wait
from counsel.lazy_dataclass import dataclass, replace
from counsel.models.wires.call_settings import unsent_stops
from counsel.text import is_blank
from counsel.types import Call, Event, Notice, Usage

log = logging.getLogger("counsel.consult")


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a job. `key` names it in the store, `slot` in the live view."""

    key: str
    slot: str
    phase: str
    limit: float | None = None  # seconds
    states_position: bool = False  # the last line says whether the author changed its position
    is_json: bool = False  # counsel parses the answer; live views show the strings in it
    uses_tools: bool = True
    last: bool = False  # the job ends with this call, and its end stores the reply
    may_be_empty: bool = False  # the answer may have no text
    # The hint of the error when the limit is reached.
    hint: str = "Ask it alone, lower its effort, or raise COUNSEL_MODEL_LIMIT_SECONDS."


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished call whose reply and usage are stored with the job's end."""

    step: Step
    reply: Reply
    usage: UsageRecord


class Consultation:
    """The calls of one job. Every call from the engine to a model goes through `ask`."""

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
        self.spent: dict[str, Usage] = {}  # by slot: what its last failed or cancelled call used
        self.unrecorded: list[Answer] = []
        self.budget = budgets.of_job(job) if budgets else None
        self._permit = permit

    async def ask(self, step: Step, route: Route, call: Call) -> Reply:
        """Ask a model, or recall its answer from before a crash."""
        slot, limit = step.slot, step.limit
        if self.job.attempt > 1 and (reply := await self.stored_reply(step.key)):
            return self.recall(step, reply)
        fold = Fold(self.job, self.live, step.slot, step.phase, route, is_json=step.is_json)
        call_log.asked(self.job, route, call)
        fold.span = spans.of_call(self.job, route, call)
        if route.is_agent and self.job.task.system:
            text = f"{route.name} has its own system prompt, so yours was put before the question."
            fold.on_notice(Notice("warning", text))
        try:
            if self.budget:
                fold.budget = self.budget.call(slot)
                call = replace(call, budget=fold.budget)
                await fold.budget.prepare(call, route.model, changes=self._uses_tools(step))
            async with self._limiter.slot(
                self.job.caller,
                route.provider,
                route.name,
                lambda reason: self.live.wait(slot, Wait("slot", reason)),
            ):
                self.live.go_on(slot)
                self._mark_attempt()
                listening = self._listen(step, route, self._events(step, route, call, fold), fold)
                await (listening if limit is None else _within(limit, listening))
        except (CounselError, asyncio.CancelledError) as error:
            self._record_failure(error, route, call, step, fold)
            raise
        except BaseException as error:
            raise self._record_failure(error, route, call, step, fold) from error
        reply = fold.reply(call)
        call_log.answered(self.job, route, reply)
        spans.answered(fold.span, reply)
        record = usage.record(self.job, route, fold.began, reply.usage, reservations=fold.reservations)
        if step.last:
            self.unrecorded.append(Answer(step, reply, record))
        else:
            self._store.remember(self.fence, step.key, slot, reply, record)
        self.live.finish(slot, reply.provider, reply.ms, self.live.slots[slot].length, _amounts(reply))
        return reply

    def plan_round(self, tasks: Mapping[str, asyncio.Task[object]]) -> None:
        """Decide together what models asked at once (by slot) may spend, so that it does not depend on their order."""
        if self.budget:
            self.budget.plan(tasks)

    async def stored_reply(self, key: str) -> Reply | None:
        """The reply of an earlier attempt. Not cached, as the process that lost the job may have just stored it."""
        return await self._store.reply(self.job.id, key)

    def save_unrecorded(self) -> None:
        """Store the replies for another process that took the job over at its end."""
        for answer in self.unrecorded:
            step = answer.step
            self._store.remember(self.fence, step.key, step.slot, answer.reply, answer.usage)

    def _of_team(self, step: Step, call: Call) -> Call:
        """The call with the team's permit to send it, and a key by which a team's server recognises it again."""
        if self._permit:
            call = replace(call, permit=self._permit)
        if self.job.caller.settings.team is None:
            return call
        return replace(call, key=f"{self.job.id}:{step.key}", is_handed_over=lambda: self.job.handed_over)

    def _uses_tools(self, step: Step) -> bool:
        return bool(self.job.task.tools) and step.uses_tools

    def _events(self, step: Step, route: Route, call: Call, fold: Fold) -> AsyncGenerator[Event]:
        call = self._of_team(step, call)
        if unsent := unsent_stops(call.exact, route.wire):
            return stop_sequences.cut(route.answer(call), unsent)
        if not self._uses_tools(step):
            if not (step.states_position or call.model_settings.web_search):  # nothing else reads the events
                call = replace(call, push=fold.push)
            events = route.answer(call)
        else:
            from counsel.engine.tools import loop  # imports the agents' modules; few calls need them

            events = loop.answer(route, call, self.job.task.tools, self.job.caller)
        return position.without_statement(events) if step.states_position else events

    def progress(self, completed: int) -> None:
        """Store how many models of the round have finished, for `check_status`."""
        self._store.progress(self.fence, completed)

    def _mark_attempt(self) -> None:
        """Count each attempt after the first once: a job that always kills its process is given up eventually."""
        if self.job.attempt > 1 and not self._marked:
            self._marked = True
            self._store.mark_attempt(self.fence)

    def recall(self, step: Step, reply: Reply) -> Reply:
        """Show a stored answer like a new one, without asking a model."""
        self.live.begin(step.slot, step.phase)
        for part in reply.parts:
            if part["type"] == "tool_call":
                self.live.part(step.slot, part)
        self.live.text(step.slot, reply.shown)
        self.live.finish(step.slot, reply.provider, reply.ms, len(reply.shown), _amounts(reply))
        return reply

    def discard(self, step: Step, route: Route, why: str) -> None:
        """Discard a JSON answer that cannot be used; its model is asked again."""
        if step.is_json:
            name = shown_name(self.job, self.live, step.slot, route)
            self.live.restart(step.slot, "retried", why, model=name, after=name)

    async def _listen(self, step: Step, route: Route, events: AsyncGenerator[Event], fold: Fold) -> None:
        if self._permit and route.is_agent:  # for models, the transport calls it before each request
            await self._permit()
        try:
            async for event in events:
                if not fold.take(event):
                    fold.cut_off()
                    break
        finally:
            await events.aclose()  # and with it the upstream connection
            fold.end_text()
        if fold.finished is None:
            raise Internal(
                "The answer ended without a final event.", hint="This is a bug in counsel. Please report it."
            )
        may_be_empty = step.may_be_empty or bool(fold.parts and fold.parts.has_calls)
        if failure := empty_answers.failure(
            route, fold.finished, fold.buffer.text(), may_be_empty=may_be_empty
        ):
            raise failure

    def _record_failure(
        self, error: BaseException, route: Route, call: Call, step: Step, fold: Fold
    ) -> CounselError:
        """Record the failure and return it.

        Not part of `ask`: a frame that refers to its own exception keeps the prompt in memory until the next garbage
        collection.
        """
        failure = self._failure(error, route, step, fold)
        spent = fold.spent(call)
        if fold.budget and (fold.budget.used.cost_usd or 0.0) > (spent.cost_usd or 0.0):
            spent = fold.budget.used  # includes requests that ended before their first word
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
        text = fold.buffer.text()
        partial = None if is_blank(text) else text
        if isinstance(error, CounselError):
            if partial:  # text of all requests; the error itself has only the last one's
                error.fields["partial"] = partial
            else:
                error.fields.pop("partial", None)
            if isinstance(error, AuthenticationFailed) and self.job.caller.person and not route.is_agent:
                from counsel.engine.team import own_keys  # only a team's server needs it

                own_keys.explain(error, self.job.caller, route.provider)
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
        if resource_failure := resource_errors.failure(error, f"Asking {route.name} failed"):
            resource_failure.fields |= {
                "provider": route.provider,
                **({"partial": partial} if partial else {}),
            }
            return resource_failure
        log.error("asking %s failed", route.name, exc_info=error)
        return Internal(
            f"Asking {route.name} failed because of an internal error ({type(error).__name__}).",
            provider=route.provider,
        )


async def _within(seconds: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await work


def _amounts(reply: Reply) -> Spent:
    return Spent(reply.usage.input, reply.usage.output, reply.usage.cost_usd)
