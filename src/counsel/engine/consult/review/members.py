"""The members of a review: each is asked in a task of its own, so that one can fail or be stopped while the others continue."""

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
    label: str  # `gpt-5#2`: the second of that name
    route: Route | None
    refused: CounselError | None = None
    role: str = ""
    is_repeated: bool = False  # another member before it is the same model


def panel(job: Job, router: Router) -> list[Reviewer]:
    seen: Counter[str] = Counter()
    members = []
    for at, model in enumerate(job.task.models):
        seen[model] += 1
        label = model if seen[model] == 1 else f"{model}#{seen[model]}"
        role = job.task.roles[at] if job.task.roles else ""
        try:
            members.append(Reviewer(str(at), label, router.route(model, job.caller), None, role))
        except CounselError as error:
            members.append(Reviewer(str(at), label, None, error, role))
    repeated = repeats(member.route for member in members)
    return [replace(member, is_repeated=again) for member, again in zip(members, repeated, strict=True)]


async def ask_all(
    consultation: Consultation,
    members: Sequence[Reviewer],
    phase: Phase,
    ask: Callable[[Reviewer], Awaitable[T]],
) -> dict[str, T | CounselError]:
    """By slot: what each answered, or why it failed."""
    done = 0
    consultation.live.phase(phase)
    consultation.progress(0)

    async def counted(member: Reviewer) -> T | CounselError:
        nonlocal done
        outcome = await _outcome(consultation, member, phase, ask)
        done += 1
        consultation.progress(done)
        return outcome

    tasks = {member.slot: asyncio.create_task(counted(member)) for member in members}
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
    """A member that was cancelled is asked nothing more; what it had answered before counts."""
    if member.refused:
        raise member.refused
    cancelled = member.slot in consultation.job.members.cancelled
    if cancelled and not await consultation.stored_reply(f"{phase}:{member.slot}"):
        raise Cancelled(f"{member.label} was cancelled.", model=member.label)
    return await ask(member)
