"""The terms of a consensus, from its request: roles, stances, judge, choices, rounds. Refuses contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from counsel.caller import Caller
from counsel.engine.consult.consensus import judge, panel, vote
from counsel.engine.consult.routes import Router
from counsel.engine.store.model import Task
from counsel.errors import InvalidArgument
from counsel.requests import ConsensusRequest, Request, ReviewRequest
from counsel.results.parts import without_empty


def applied(
    task: Task, request: Request, members: Sequence[panel.Member], router: Router, caller: Caller
) -> Task:
    """The task with the fields of a consensus; for a review, only the roles."""
    if isinstance(request, ReviewRequest):
        return replace(task, roles=_per_member(member.role for member in members))
    if not isinstance(request, ConsensusRequest):
        return task
    names = [member.model for member in members]
    judge_name = judge.choose(request.judge, names, panel.needs(request), router, caller)
    refine = _refine(request, has_judge=judge_name is not None)
    return replace(
        task,
        roles=_per_member(member.role for member in members),
        stances=_per_member(member.stance for member in members),
        judge=judge_name,
        choices=vote.normalize_choices(request.choices),
        refine="" if refine in {"always", "never"} else refine,
        rounds=request.rounds if request.rounds != 2 else None,
        order="" if request.order == "parallel" else request.order,
        cross_feedback=refine != "never",
        feedback_prompt=request.cross_feedback_prompt,
    )


def requested(task: Task) -> dict[str, object]:
    """What the caller set, by the names of the arguments."""
    members = []
    for number, model in enumerate(task.models):
        role = task.roles[number] if task.roles else ""
        stance = task.stances[number] if task.stances else ""
        members.append({"model": model, **without_empty(role=role, stance=stance)})
    return without_empty(
        members=members if task.roles or task.stances else None,
        judge=task.judge,
        choices=list(task.choices),
        refine=task.refine,
        rounds=task.rounds,
        order=task.order,
    )


def _refine(request: ConsensusRequest, *, has_judge: bool) -> str:
    refine = request.refine or ("always" if request.enable_cross_feedback else "never")
    if refine == "never" and request.rounds > 2:
        raise InvalidArgument(
            f"{request.rounds} rounds were requested, but no refinement: these contradict each other.",
            hint="Nothing was sent. Leave rounds out, or let the models refine their answers.",
        )
    if request.refine is None:
        return refine
    if not request.enable_cross_feedback and request.refine != "never":
        raise InvalidArgument(
            f"refine is {request.refine} and enable_cross_feedback is false: these contradict each other.",
            hint="Nothing was sent. Leave enable_cross_feedback out.",
        )
    if request.refine == "disagreement" and not request.choices and not has_judge:
        raise InvalidArgument(
            "refine: disagreement needs choices or a judge to say whether the answers differ.",
            hint="Nothing was sent. Add choices, or a judge (`auto`).",
        )
    return request.refine


def _per_member(parts: Iterable[str]) -> tuple[str, ...]:
    """The values, one for each model; an empty tuple if all of them are empty."""
    values = tuple(parts)
    return values if any(values) else ()
