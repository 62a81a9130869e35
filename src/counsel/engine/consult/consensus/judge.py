"""The judge: a model that is not a member compares the answers, without names and in a random order.

It writes about "Answer A"; the names are filled in here. If it fails, the result says why and is complete without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from counsel import size_limits
from counsel.caller import Caller
from counsel.engine import results
from counsel.engine.consult import prompts, structured
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.consensus import anonymous, vote
from counsel.engine.consult.consensus.members import Participant
from counsel.engine.consult.consensus.rounds import Rounds
from counsel.engine.consult.routes import Route, Router
from counsel.engine.consult.schemas import strict_object
from counsel.engine.context import conversation, tokens
from counsel.engine.context.conversation import History
from counsel.engine.jobs.call_keys import JUDGE
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.errors import CounselError, InvalidArgument, ModelNotFound, ProviderUnavailable, SchemaMismatch
from counsel.lazy_dataclass import dataclass
from counsel.models.auto import Needs
from counsel.results import Contradiction, JudgeVerdict, PartialCoverage, Position, UniqueInsight
from counsel.types import Json

AUTO, NONE, DEFAULT = "auto", "none", "default"
KEY = "verdict"
_VENDORS = {"claude": "anthropic", "codex": "openai", "gemini": "google"}  # vendors of the agents' models


# ── the choice of the judge ──────────────────────────────────────────────────────────────────────────


def choose(
    request: str | None, members: Sequence[str], needs: Needs, router: Router, caller: Caller
) -> str | None:
    """The judge's name; None for no judge.

    `auto` means the strongest available model of a vendor that is not on the panel, else any model that is not a
    member; if there is none, the name stays `auto`. Raises if the named model is unknown or a member. If the user's
    default judge is a member or cannot be asked now, `auto` replaces it.
    """
    name = (request or NONE).strip()
    is_default = name.lower() == DEFAULT
    if is_default:
        name = caller.settings.judge.strip()
    if name.lower() in {"", NONE}:
        return None
    panel = list(_routes(members, router, caller))
    if name.lower() != AUTO:
        try:
            return _checked_name(name, panel, router, caller)
        except CounselError as error:
            if not is_default:
                raise
            if isinstance(
                error, ModelNotFound
            ):  # probably misspelt: the user should not pay for another model
                error.hint = f"{error.hint} It is the setting `judge` (COUNSEL_JUDGE). Nothing was sent."
                raise
    return _automatic(panel, needs, router, caller) or AUTO


def _routes(names: Iterable[str], router: Router, caller: Caller) -> Iterable[Route]:
    for name in names:
        try:
            yield router.route(name, caller)
        except CounselError:
            continue  # it fails in the round, with its reason


def _checked_name(name: str, panel: list[Route], router: Router, caller: Caller) -> str:
    route = router.route(name, caller)
    if any((member.provider, member.name) == (route.provider, route.name) for member in panel):
        raise InvalidArgument(
            f"The judge must not be a member, and {name} is one.",
            hint="Nothing was sent. Name another model, or `auto` for a vendor that is not on the panel.",
        )
    return name


def _automatic(panel: list[Route], needs: Needs, router: Router, caller: Caller) -> str | None:
    try:
        candidates = router.auto(caller, needs)
    except CounselError:
        return None
    vendors = {_VENDORS.get(member.provider, member.provider) for member in panel}
    members = {member.name for member in panel}
    eligible = [route for route in candidates if route.name not in members]
    return next((route.name for route in sorted(eligible, key=lambda route: route.provider in vendors)), None)


def participant(job: Job, router: Router) -> Participant | None:
    name = job.task.judge
    if name is None:
        return None
    try:
        if name == AUTO:
            raise ProviderUnavailable(
                "No model other than the members is available as the judge.",
                hint="Name a judge, or set another vendor's key.",
            )
        return Participant(JUDGE, name, router.route(name, job.caller))
    except CounselError as error:
        return Participant(JUDGE, name, None, error)


# ── the verdict ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: JudgeVerdict
    reply: Reply | None = None  # whose cost counts
    error: CounselError | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    participant: Participant
    consultation: Consultation
    rounds: Rounds
    store: Store
    history: History

    async def compare(
        self,
        members: Sequence[Participant],
        latest: Mapping[str, Reply],
        based_on: Literal["initial", "refined"],
    ) -> Judgement:
        job, name = self.consultation.job, self.participant.label
        answering = [member for member in members if member.slot in latest]
        order = anonymous.letters(job.id, JUDGE, [member.slot for member in answering])
        answer_schema = schema(
            list(order.values()), anonymous.shuffled(job.id, f"choices {JUDGE}", job.task.choices)
        )

        async def ask(judge: Participant) -> Reply:
            return await self._ask(judge, answering, latest, order, answer_schema)

        self.consultation.live.phase("verdict")
        replies, failures = await self.rounds.ask_all([self.participant], "verdict", ask, KEY)
        if failures:
            error = failures[0].error
            return Judgement(JudgeVerdict(judge=name, error=error), error=error)
        reply = replies[JUDGE]
        labels = {order[member.slot]: member.label for member in answering}
        failed_models = tuple(member.label for member in members if member.slot not in latest)
        verdict = replace(
            _read(json.loads(reply.text), labels),
            judge=name,
            based_on=based_on,
            failed_models=failed_models,
            metadata=results.metadata(reply),
        )
        return Judgement(verdict, reply)

    async def _ask(
        self,
        judge: Participant,
        answering: Sequence[Participant],
        latest: Mapping[str, Reply],
        order: Mapping[str, str],
        answer_schema: dict[str, object],
    ) -> Reply:
        job, route = self.consultation.job, judge.route
        texts = self.rounds.texts(latest)
        size_limits.check_answers(texts.values(), job.caller.settings)
        notes = {member.slot: prompts.ASSIGNED.get(member.stance, "") for member in answering}
        call = await conversation.compose_async(job, self.history, route, self.store)
        *earlier, question = call.turns
        answers = list(anonymous.blocks(texts, order, notes=notes))
        text = prompts.judge(question.text, answers, chooses=bool(job.task.choices))
        preamble = None if route.is_agent else prompts.CONSULTED
        call = replace(
            call,
            turns=(*earlier, replace(question, text=text)),
            system="\n\n".join(part for part in (preamble, prompts.structured(answer_schema)) if part),
            schema=answer_schema,
            session=None,
        )
        if route.model:
            call = replace(call, tokens=tokens.check_window(call, route.model))
        limit = float(job.caller.settings.model_limit_seconds)
        step = Step(KEY, JUDGE, "verdict", limit, uses_tools=False, is_json=True)
        reply = await self.consultation.ask(step, route, call)

        def normalize(answer: str) -> str:
            return vote.with_exact_choice(answer, job.task.choices)

        try:
            return await structured.valid_reply(
                self.consultation, step, route, call, reply, normalize=normalize
            )
        except SchemaMismatch as error:  # the schema is ours, not the caller's
            error.hint = "Name another judge. The answers are complete without it."
            raise


def schema(letters: list[str], choices: Sequence[str] = ()) -> Json:
    text, letter = {"type": "string"}, {"type": "string", "enum": letters}
    texts, letter_list = {"type": "array", "items": text}, {"type": "array", "items": letter}
    choice = {"choice": {"type": "string", "enum": list(choices)}} if choices else {}
    return strict_object(
        consensus=texts,
        contradictions=_several(topic=text, positions=_several(answers=letter_list, position=text)),
        partial_coverage=_several(point=text, answers=letter_list),
        unique_insights=_several(answer=letter, insight=text),
        blind_spots=texts,
        recommendation=text,
        **choice,
    )


def _several(**properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": strict_object(**properties)}


def _read(document: Json, labels: Mapping[str, str]) -> JudgeVerdict:
    """The verdict from the judge's JSON. `labels`: the members' names by letter."""

    def text(value: str) -> str:
        return anonymous.with_names(value.strip(), labels)

    def models(letters: Iterable[str]) -> tuple[str, ...]:
        return tuple(labels[letter] for letter in dict.fromkeys(letters))

    return JudgeVerdict(
        judge="",
        consensus=tuple(map(text, document["consensus"])),
        contradictions=tuple(
            Contradiction(
                text(entry["topic"]),
                tuple(Position(models(row["answers"]), text(row["position"])) for row in entry["positions"]),
            )
            for entry in document["contradictions"]
        ),
        partial_coverage=tuple(
            PartialCoverage(text(entry["point"]), models(entry["answers"]))
            for entry in document["partial_coverage"]
        ),
        unique_insights=tuple(
            UniqueInsight(labels[entry["answer"]], text(entry["insight"]))
            for entry in document["unique_insights"]
        ),
        blind_spots=tuple(map(text, document["blind_spots"])),
        recommendation=text(document["recommendation"]),
        choice=document.get("choice"),
    )
