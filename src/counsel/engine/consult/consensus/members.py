"""The members of a consensus: their names, their slots, how each is reached."""

from __future__ import annotations

from dataclasses import replace

from counsel.engine.consult.routes import Route, Router, repeats
from counsel.engine.jobs.call_keys import JUDGE
from counsel.engine.jobs.model import Job
from counsel.errors import CounselError, Internal, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.results.parts import labels


@dataclass(frozen=True, slots=True)
class Participant:
    """One model of the round; `label` distinguishes two of the same model."""

    slot: str
    label: str
    reached: Route | None
    refused: CounselError | None = None
    role: str = ""
    stance: str = ""
    is_repeated: bool = False  # another member before it is the same model

    @property
    def route(self) -> Route:
        if self.reached is None:
            raise self.refused or Internal(f"{self.label} has no route.")
        return self.reached


def slot_of(models: tuple[str, ...], member: str, judge: str | None = None) -> str:
    """The slot of a member: `1`, or its name (`gpt-5`, `gpt-5#2`); the judge's is `judge`."""
    names = labels(models)
    slots = [str(number) for number in range(len(models))]
    if member in names:
        return str(names.index(member))
    if member in slots:
        return member
    if judge and member in {judge, JUDGE}:
        return JUDGE
    rows = [*zip(slots, names, strict=True), *([(JUDGE, judge)] if judge else [])]
    known = ", ".join(f"{slot} ({name})" for slot, name in rows)
    raise InvalidArgument(f"The job has no model {member[:80]!r}.", hint=f"Its models: {known}.")


def of_job(job: Job, router: Router) -> list[Participant]:
    named = zip(labels(job.task.models), job.task.models, strict=True)
    members = [_participant(slot, label, model, router, job) for slot, (label, model) in enumerate(named)]
    repeated = repeats(member.reached for member in members)
    return [replace(member, is_repeated=again) for member, again in zip(members, repeated, strict=True)]


def _participant(slot: int, label: str, model: str, router: Router, job: Job) -> Participant:
    role = job.task.roles[slot] if job.task.roles else ""
    stance = job.task.stances[slot] if job.task.stances else ""
    try:
        return Participant(str(slot), label, router.route(model, job.caller), None, role, stance)
    except CounselError as error:
        return Participant(str(slot), label, None, error, role, stance)
