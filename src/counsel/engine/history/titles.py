"""Titles and summaries by a small model, if the user wants them. They never delay a job or make it fail."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import replace

from counsel.engine.consult import empty_answers, prompts
from counsel.engine.consult.budget import Budgets
from counsel.engine.consult.routes import Router
from counsel.engine.history import usage as usage_records
from counsel.engine.jobs.model import Job
from counsel.engine.store.protocol import Store
from counsel.types import Call, Finished, ModelSettings, Text, Turn, Usage, UsageReport

log = logging.getLogger("counsel.titles")
TITLE_LENGTH = 60
SUMMARY_LENGTH = 200
_SECONDS = 20
_TOKENS = 4_096  # for a title or summary with its reasoning, if a budget applies
_READ = 12_000  # characters of a text to send to the small model


def snippet(text: str, length: int) -> str:
    """The beginning of a text, cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    head = flat[: length - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[length // 2 :] else head).rstrip(" ,;:.") + "…"


def title_of(prompt: str) -> str:
    return snippet(prompt, TITLE_LENGTH)


class Summariser:
    def __init__(self, router: Router, store: Store, budgets: Budgets) -> None:
        self._router = router
        self._store = store
        self._budgets = budgets

    async def title(self, prompt: str, job: Job) -> str:
        title = await self._generate(prompts.TITLE, prompt, job)
        return snippet(title.strip("\"'` \n"), TITLE_LENGTH) if title else title_of(prompt)

    async def summary(self, text: str, job: Job) -> str:
        return await self._generate(prompts.SUMMARY, text, job) or snippet(text, SUMMARY_LENGTH)

    async def running(self, text: str, job: Job) -> str:
        return await self._generate(prompts.RUNNING, text[-_READ:], job) or snippet(
            text[-400:], SUMMARY_LENGTH
        )

    async def _generate(self, instruction: str, text: str, job: Job) -> str:
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._ask(instruction + text[:_READ], job)
        except Exception as error:  # noqa: BLE001 - the job continues without a title
            log.info("no summary by a model: %s", type(error).__name__)
            return ""

    async def _ask(self, prompt: str, job: Job) -> str:
        route = self._router.route(job.caller.settings.summary_model, job.caller)
        call = Call(
            (Turn("user", prompt),),
            model_settings=ModelSettings(temperature=0.3, effort="minimal", verbosity="low"),
        )
        budget = job_budget.call(max_output=_TOKENS) if (job_budget := self._budgets.of_job(job)) else None
        call = replace(call, budget=budget)
        began, pieces, usage, end = time.monotonic(), [], Usage(), Finished()
        try:
            async with aclosing(route.answer(call)) as events:
                async for event in events:
                    if isinstance(event, Text):
                        pieces.append(event.delta)
                    elif isinstance(event, UsageReport):
                        usage = event.usage
                    elif isinstance(event, Finished):
                        end = event
        except BaseException:
            if budget:  # settled costs stay
                self._store.drop_reservations(ids=budget.reservations)
            raise
        priced_usage = usage if usage.cost_usd is not None else replace(usage, cost_usd=route.cost(usage))
        reservations = tuple(budget.reservations) if budget else ()
        self._store.record_usage(
            usage_records.record(job, route, began, priced_usage, tool="summary", reservations=reservations)
        )
        text = "".join(pieces)
        return "" if empty_answers.failure(route, end, text) else " ".join(text.split())
