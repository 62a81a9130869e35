"""Enforces budgets: the most that a request can cost is reserved before it is sent, and settled afterwards.

The bound for the output is exact, because the number of tokens that was reserved is sent as the request's limit. The
bound for the input is an estimate on the high side (`tokens.at_most`). `docs/use/budgets.md` explains the rules.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from counsel import budgets
from counsel.amounts import dollars
from counsel.engine.context import tokens
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.owners import Owners
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import (
    BudgetLimit,
    Granted,
    NotGranted,
    ReservationOutcome,
    ReservationRequest,
    TooMany,
)
from counsel.errors import BudgetExceeded
from counsel.lazy_dataclass import dataclass, replace
from counsel.models import prices
from counsel.types import Call, Model, Usage

if TYPE_CHECKING:
    from counsel.engine.team.limits import TeamLimits, TeamRate

MIN_OUTPUT = 1_024  # output tokens; a call for which fewer are left is refused
MIN_REASONING_OUTPUT = 4_096  # for models that reason: reasoning tokens count as output
FAIR_OUTPUT = 8_192  # output tokens that a call may get even if they exceed its share
SHARE = 0.25  # of the rest of a day's or month's budget, for one call, since others may run at the same time
ROUND_SECONDS = 30.0  # that one model of a round waits for the others
_SKEW = 86_400.0  # seconds; the clock may be set back while a job runs


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a call, with the texts that describe it."""

    stored: BudgetLimit
    name: str
    title: str
    remedy: str
    until: float | None = None


class Budgets:
    """The budgets of one engine."""

    def __init__(
        self,
        store: Store,
        ownership: Owners,
        clock: Callable[[], float] = time.time,
        zone: tzinfo | None = None,
    ) -> None:
        self.store, self.clock, self._ownership, self._zone = store, clock, ownership, zone
        self._team: TeamLimits | None = None

    def of_job(self, job: Job) -> JobBudget | None:
        """The job's budget; None if no limit applies, so nothing is read or written. A team's are in the database."""
        is_limited = job.task.max_cost_usd is not None or budgets.apply(job.caller.settings)
        return JobBudget(self, job) if is_limited or job.caller.person is not None else None

    @property
    def team(self) -> TeamLimits:
        if self._team is None:
            from counsel.engine.team.limits import TeamLimits  # only a team needs it

            self._team = TeamLimits(self.store, self.clock)
        return self._team

    @property
    def owner(self) -> str:
        return self._ownership.name

    def limits(self, job: Job, provider: str) -> list[Limit]:
        limits = []
        if job.task.max_cost_usd is not None:
            record = BudgetLimit(job.task.max_cost_usd, job.created - _SKEW, job=job.id)
            limits.append(Limit(record, "job", "max_cost_usd", "raise max_cost_usd"))
        now = self.clock()
        for row in budgets.current(job.caller.settings, now, provider=provider, zone=self._zone):
            record = BudgetLimit(row.usd, row.since, provider=provider if row.provider else "", share=SHARE)
            limits.append(Limit(record, row.name, row.title, f"raise {row.setting}", row.until))
        return limits

    async def of_call(self, job: Job, provider: str) -> tuple[list[Limit], list[TeamRate]]:
        """The limits of a call: those of the job, the settings and the team."""
        limits = self.limits(job, provider)
        if job.caller.person is None:
            return limits, []
        money, rates = await self.team.of_call(job.caller.person, provider)
        limits += [Limit(row.stored(SHARE), row.name, row.title, row.remedy, row.until) for row in money]
        return limits, rates

    async def reserve(self, requests: Sequence[ReservationRequest]) -> list[ReservationOutcome]:
        """One outcome per request. Before a request is refused, reservations of dead processes are freed."""
        outcomes = await self.store.reserve(requests, self.clock())
        if not all(isinstance(outcome, Granted) for outcome in outcomes):
            await self._free_dead_reservations()
            # Tried again even if nothing was freed here: another call may have just freed something.
            unmet = [
                request
                for request, outcome in zip(requests, outcomes, strict=True)
                if not isinstance(outcome, Granted)
            ]
            retries = iter(await self.store.reserve(unmet, self.clock()))
            outcomes = [outcome if isinstance(outcome, Granted) else next(retries) for outcome in outcomes]
        return outcomes

    async def _free_dead_reservations(self) -> None:
        owners = {row.owner for row in await self.store.open_reservations()} - {self.owner}
        dead = await self._ownership.dead(owners) if owners else set()
        if dead:
            await self.store.drop_reservations(owners=dead)


class JobBudget:
    """The limits on what one job and its caller may spend."""

    def __init__(self, budgets_: Budgets, job: Job) -> None:
        self.budgets, self.job = budgets_, job
        self.round: Round | None = None

    def call(self, slot: str = "", max_output: int | None = None) -> CallBudget:
        return CallBudget(self, slot, max_output)

    def plan(self, tasks: Mapping[str, asyncio.Task[object]]) -> None:
        """Decide together on the first reservations of these models, which are about to be asked at once."""
        round_ = self.round = Round(self.budgets, tasks)
        for slot, task in tasks.items():
            task.add_done_callback(lambda _, slot=slot: round_.leave(slot))  # type: ignore[misc]

    def leave(self, slot: str) -> None:
        """Do not wait for this model: it makes no call in this round, or no more calls."""
        if self.round:
            self.round.leave(slot)


class Round:
    """Collects the reservation requests of a round's models, and decides on all of them together."""

    def __init__(self, budgets_: Budgets, slots: Collection[str]) -> None:
        self._budgets = budgets_
        self._missing = set(slots)
        self._waiting: dict[str, tuple[ReservationRequest, asyncio.Future[ReservationOutcome]]] = {}
        self._deciding: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def leave(self, slot: str) -> None:
        self._missing.discard(slot)
        self._decide_when_complete()

    async def reserve(self, slot: str, request: ReservationRequest) -> ReservationOutcome:
        if slot not in self._missing:
            return (await self._budgets.reserve([request]))[0]
        outcome: asyncio.Future[ReservationOutcome] = asyncio.get_running_loop().create_future()
        self._waiting[slot] = request, outcome
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ROUND_SECONDS, self._stop_waiting)
        self._missing.discard(slot)
        self._decide_when_complete()
        return await outcome

    def _decide_when_complete(self) -> None:
        if not self._missing and self._waiting and self._deciding is None:
            self._deciding = asyncio.create_task(self._decide())
            if self._timer:
                self._timer.cancel()

    def _stop_waiting(self) -> None:
        """Decide without the models that are late, perhaps because of large files; each of these is decided on
        alone."""
        self._missing.clear()
        self._decide_when_complete()

    async def _decide(self) -> None:
        """Reserve in the order of the models, not of their requests."""
        slots = sorted(self._waiting, key=lambda slot: (len(slot), slot))
        waiting = [self._waiting[slot] for slot in slots]
        try:
            outcomes = await self._budgets.reserve([request for request, _ in waiting])
        except Exception as error:  # noqa: BLE001 - every model that waits gets it
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (request, future), outcome in zip(waiting, outcomes, strict=True):
            if future.done():  # it was cancelled in the meantime
                self._budgets.store.drop_reservations(ids=[request.id])
            else:
                future.set_result(outcome)


class Reservation:
    """One request's reservation."""

    def __init__(self, call: CallBudget, identity: str, tokens: int | None, lowered_by: str) -> None:
        self._call, self._id = call, identity
        self.output_limit, self.lowered = tokens, lowered_by

    def settle(self, usage: Usage | None) -> None:
        self._call.settle(self._id, usage)


class CallBudget:
    """The budgets of one call of a job, with all its requests: retries, rounds of tools, pauses."""

    def __init__(self, job: JobBudget, slot: str, max_output: int | None) -> None:
        self._job, self._slot, self._max_output = job, slot, max_output
        self._prepared: tuple[str, Reservation | None] | None = None  # the model's id and its reservation
        self.reservations: list[str] = []
        self.used = Usage(cost_usd=0.0)

    async def prepare(self, call: Call, model: Model | None, *, changes: bool) -> None:
        """Reserve for the first request before waiting for anything else. `changes`: tools will be added to it.

        Agents have no prices, so they are not counted.
        """
        if model is None or changes:
            self._job.leave(self._slot)
            return
        self._prepared = model.id, await self._reserve(call, model)

    async def reserve(self, call: Call, model: Model) -> Reservation | None:
        first, self._prepared = self._prepared, None
        if first and first[0] == model.id:
            return first[1]
        return await self._reserve(call, model)

    def settle(self, reservation: str, usage: Usage | None) -> None:
        if usage is not None:
            self.used += usage if usage.cost_usd is not None else replace(usage, cost_usd=0.0)
        cost = usage.cost_usd if usage else None
        self._job.budgets.store.settle(reservation, cost or 0.0, self._job.budgets.clock())

    async def _reserve(self, call: Call, model: Model) -> Reservation | None:
        limits, rates = await self._job.budgets.of_call(self._job.job, model.provider)
        bound = await _bound(call, model) if limits else prices.Bound(0.0, 0.0)
        if bound is None:
            self._job.leave(self._slot)
            raise _no_price(model, limits[0])
        if bound == prices.Bound(0.0, 0.0) and not rates:
            self._job.leave(self._slot)
            return None
        request = self._request(call, model, bound, limits, rates)
        self.reservations.append(request.id)  # from now on, the call's end always removes it
        if self._job.round:
            outcome = await self._job.round.reserve(self._slot, request)
        else:
            outcome = (await self._job.budgets.reserve([request]))[0]
        if isinstance(outcome, TooMany):
            raise rates[outcome.rate].error(outcome.state, self._job.budgets.clock())
        if isinstance(outcome, NotGranted):
            raise _exceeded(model, limits[outcome.limit], outcome)
        lowered_by = "" if outcome.lowered_by is None else limits[outcome.lowered_by].title
        # If only the number of calls is limited, the request is sent as it is.
        return Reservation(self, request.id, outcome.tokens if limits else None, lowered_by)

    def _request(
        self,
        call: Call,
        model: Model,
        bound: prices.Bound,
        limits: Sequence[Limit],
        rates: Sequence[TeamRate],
    ) -> ReservationRequest:
        # Anthropic's thinking tokens are in addition to a caller's limit.
        requested = None if model.effort_style.startswith("budget") else call.max_output
        max_output = min(model.output, requested or model.output, self._max_output or model.output)
        min_output = MIN_OUTPUT if model.effort_style == "none" else MIN_REASONING_OUTPUT
        return ReservationRequest(
            id=secrets.token_hex(8),
            owner=self._job.budgets.owner,
            job=self._job.job.id,
            provider=model.provider,
            model=model.id,
            input_usd=bound.input,
            usd_per_token=bound.per_output_token,
            min_output=min(min_output, max_output),
            fair_output=min(FAIR_OUTPUT, max_output),
            max_output=max_output,
            limits=tuple(limit.stored for limit in limits),
            person=self._job.job.caller.owner,
            rates=tuple(rate.stored for rate in rates),
        )


async def _bound(call: Call, model: Model) -> prices.Bound | None:
    size = tokens.at_most(call, model)
    if prices.is_listed(model):
        return prices.bound(model, size)
    return await asyncio.to_thread(prices.bound, model, size)  # imports a library, which takes half a second


def _no_price(model: Model, limit: Limit) -> BudgetExceeded:
    return BudgetExceeded(
        f"{model.id} was not asked: its price is unknown, and {limit.title} applies.",
        hint=f"Add input_price and output_price (dollars per million tokens) to [models.{_quoted(model.id)}] or "
        f"[providers.{model.provider}] in config.toml; 0 for a model that costs nothing.",
        budget=limit.name,
        limit_usd=limit.stored.usd,
        provider=model.provider,
        model=model.id,
    )


def _quoted(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else f'"{name}"'


def _exceeded(model: Model, limit: Limit, outcome: NotGranted) -> BudgetExceeded:
    state = outcome.state
    remaining = max(0.0, state.left(limit.stored))
    reserved = f", {dollars(state.reserved)} reserved for running calls" if state.reserved else ""
    until = None if limit.until is None else datetime.fromtimestamp(limit.until).astimezone()
    wait = f"Wait until {until:%Y-%m-%d %H:%M}, " if until else ""
    remedies = f"{wait}{limit.remedy}, ask a cheaper model, or send less."
    return BudgetExceeded(
        f"{_capital(limit.title)} of {dollars(limit.stored.usd)} does not allow a call to {model.id}: {dollars(remaining)} is left "
        f"({dollars(state.spent)} spent{reserved}), and the call needs {dollars(outcome.needed)}.",
        hint=f"Nothing was sent to it. {_capital(remedies)}",
        budget=limit.name,
        limit_usd=round(limit.stored.usd, 6),
        spent_usd=round(state.spent, 6),
        reserved_usd=round(state.reserved, 6),
        needed_usd=round(outcome.needed, 6),
        until=until.isoformat() if until else None,
        provider=model.provider,
        model=model.id,
    )


def _capital(text: str) -> str:
    return text if text.startswith("max_cost") else text[0].upper() + text[1:]
