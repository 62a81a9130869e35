"""The members of a consensus: their names, slots and routes."""

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
    """One model of a consensus; `label` distinguishes members with the same model."""

    slot: str
    label: str
    target: Route | None
    error: CounselError | None = None
    role: str = ""
    stance: str = ""
    is_repeated: bool = False  # an earlier member is the same model

    @property
    def route(self) -> Route:
        if self.target is None:
            raise self.error or Internal(f"{self.label} has no route.")
        return self.target


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
    listing = ", ".join(f"{slot} ({name})" for slot, name in rows)
    raise InvalidArgument(f"The job has no model {member[:80]!r}.", hint=f"Its models: {listing}.")


def of_job(job: Job, router: Router) -> list[Participant]:
    pairs = zip(labels(job.task.models), job.task.models, strict=True)
    members = [_participant(slot, label, model, router, job) for slot, (label, model) in enumerate(pairs)]
    flags = repeats(member.target for member in members)
    return [
        replace(member, is_repeated=is_repeated) for member, is_repeated in zip(members, flags, strict=True)
    ]


def _participant(slot: int, label: str, model: str, router: Router, job: Job) -> Participant:
    role = job.task.roles[slot] if job.task.roles else ""
    stance = job.task.stances[slot] if job.task.stances else ""
    try:
        return Participant(str(slot), label, router.route(model, job.caller), None, role, stance)
    except CounselError as error:
        return Participant(str(slot), label, None, error, role, stance)
