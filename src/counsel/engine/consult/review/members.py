"""The members of a review. Each is asked in its own task, so that one can fail or be stopped without the others."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

from counsel.engine import results
from counsel.engine.consult.call import Consultation
from counsel.engine.consult.routes import Route, Router, repeats
from counsel.engine.jobs.model import Job
from counsel.errors import Cancelled, CounselError, Internal
from counsel.lazy_dataclass import dataclass

log = logging.getLogger("counsel.review")
Phase: TypeAlias = Literal["review", "check"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reviewer:
    slot: str
    label: str  # `gpt-5#2` is the second member with that name
    route: Route | None
    error: CounselError | None = None
    role: str = ""
    is_repeated: bool = False  # an earlier member is the same model


def panel(job: Job, router: Router) -> list[Reviewer]:
    counts: Counter[str] = Counter()
    members = []
    for index, model in enumerate(job.task.models):
        counts[model] += 1
        label = model if counts[model] == 1 else f"{model}#{counts[model]}"
        role = job.task.roles[index] if job.task.roles else ""
        try:
            members.append(Reviewer(str(index), label, router.route(model, job.caller), None, role))
        except CounselError as error:
            members.append(Reviewer(str(index), label, None, error, role))
    flags = repeats(member.route for member in members)
    return [
        replace(member, is_repeated=is_repeated) for member, is_repeated in zip(members, flags, strict=True)
    ]


async def ask_all(
    consultation: Consultation,
    members: Sequence[Reviewer],
    phase: Phase,
    ask: Callable[[Reviewer], Awaitable[T]],
) -> dict[str, T | CounselError]:
    """Ask all members at once. Returns each one's answer or failure, by slot."""
    finished_count = 0
    consultation.live.phase(phase)
    consultation.progress(0)

    async def ask_and_count(member: Reviewer) -> T | CounselError:
        nonlocal finished_count
        outcome = await _outcome(consultation, member, phase, ask)
        finished_count += 1
        consultation.progress(finished_count)
        return outcome

    tasks = {member.slot: asyncio.create_task(ask_and_count(member)) for member in members}
    stoppable = consultation.job.members
    stoppable.tasks = dict(tasks)
    consultation.plan_round(tasks)
    try:
        await asyncio.gather(*tasks.values())
    finally:
        stoppable.tasks = {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return {slot: task.result() for slot, task in tasks.items()}


async def _outcome(
    consultation: Consultation, member: Reviewer, phase: Phase, ask: Callable[[Reviewer], Awaitable[T]]
) -> T | CounselError:
    try:
        return await _reply(consultation, member, phase, ask)
    except asyncio.CancelledError:
        if member.slot not in consultation.job.members.cancelled:
            raise
        error: CounselError = Cancelled(f"{member.label} was cancelled.", model=member.label)
        if used := consultation.spent.get(member.slot):
            results.charge(error, used)
    except CounselError as failure:
        error = failure
    except Exception as defect:  # a bug that one member triggers fails only that member
        log.exception("asking %s failed", member.label)
        error = Internal(
            f"Asking {member.label} failed because of an internal error ({type(defect).__name__})."
        )
    consultation.live.refuse(member.slot, phase, error)
    return error


async def _reply(
    consultation: Consultation, member: Reviewer, phase: Phase, ask: Callable[[Reviewer], Awaitable[T]]
) -> T:
    """Ask a member. A cancelled one is no longer asked, but an earlier answer still counts."""
    if member.error:
        raise member.error
    is_cancelled = member.slot in consultation.job.members.cancelled
    if is_cancelled and not await consultation.stored_reply(f"{phase}:{member.slot}"):
        raise Cancelled(f"{member.label} was cancelled.", model=member.label)
    return await ask(member)
