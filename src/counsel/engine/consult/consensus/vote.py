"""`choices`: every model picks one, as JSON that is checked. The votes are counted here, never by a model."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from counsel.engine.consult import prompts, structured
from counsel.engine.consult.consensus import anonymous
from counsel.engine.consult.consensus.members import Participant
from counsel.engine.consult.schemas import strict_object
from counsel.engine.store.model import Reply
from counsel.errors import CounselError, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.results import Ballot, Minority, Vote, VoteFailure
from counsel.types import Call


@dataclass(frozen=True, slots=True)
class Pick:
    choice: str
    reason: str

    @property
    def text(self) -> str:
        """The pick as an answer for people and other models."""
        return f"{self.choice}\n\n{self.reason}".strip()


def normalize_choices(choices: tuple[str, ...]) -> tuple[str, ...]:
    """The choices without surrounding white space. Raises for an empty one, and for two that look the same."""
    names = tuple(choice.strip() for choice in choices)
    if not all(map(_visible_form, names)):
        raise InvalidArgument("choices: one is empty.", hint="Nothing was sent. Leave it out.")
    duplicates = [choice for choice, count in Counter(map(_visible_form, names)).items() if count > 1]
    if duplicates:
        raise InvalidArgument(
            f"choices must differ: {duplicates[0][:80]!r} appears twice.",
            hint="Nothing was sent. Name each choice once.",
        )
    return names


def _visible_form(text: str) -> str:
    """The text as it looks, for comparison: without differences of case, white space, invisible characters and the
    encoding of accents."""
    visible = "".join(
        char for char in unicodedata.normalize("NFC", text) if unicodedata.category(char) != "Cf"
    )
    return " ".join(visible.casefold().split())


def with_exact_choice(answer: str, choices: Sequence[str]) -> str:
    """The answer with its choice spelled as it was offered, if it looks the same (`sqlite` for `SQLite`)."""
    try:
        document = json.loads(structured.without_fence(answer))
        form = _visible_form(document["choice"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer
    match = next((choice for choice in choices if _visible_form(choice) == form), None)
    return answer if match in {None, document["choice"]} else json.dumps({**document, "choice": match})


def schema(choices: Sequence[str]) -> dict[str, object]:
    return strict_object(reason={"type": "string"}, choice={"type": "string", "enum": list(choices)})


def with_choices(call: Call, choices: tuple[str, ...], job: str, slot: str) -> Call:
    """The call with the choices, in a different order for each model, as many models prefer the first one."""
    order = anonymous.shuffled(job, f"choices {slot}", choices)
    answer_schema = schema(order)
    parts = (call.system, prompts.choose(order), prompts.structured(answer_schema))
    return replace(call, system="\n\n".join(part for part in parts if part), schema=answer_schema)


def pick(reply: Reply) -> Pick:
    document = json.loads(reply.text)
    return Pick(document["choice"], document["reason"].strip())


def readable(text: str) -> str:
    """A stored vote as an answer; anything else as it is."""
    try:
        document = json.loads(text)
        return Pick(document["choice"], document["reason"].strip()).text
    except (ValueError, KeyError, TypeError, AttributeError):
        return text


def count(
    choices: tuple[str, ...],
    participants: Sequence[Participant],
    picks: Mapping[str, Pick],
    failures: Mapping[str, CounselError],
) -> Vote:
    """Count the votes. `failures`: by slot, for models without a vote."""
    ballots = [
        Ballot(member.label, picks[member.slot].choice, picks[member.slot].reason)
        for member in participants
        if member.slot in picks
    ]
    counts = {choice: sum(ballot.choice == choice for ballot in ballots) for choice in choices}
    most = max(counts.values())
    leaders = [choice for choice in choices if counts[choice] == most > 0]
    return Vote(
        choices=choices,
        counts=counts,
        majority=leaders[0] if len(leaders) == 1 else None,
        tied=tuple(leaders) if len(leaders) > 1 else (),
        agreement=round(most / len(ballots), 4) if ballots else 0.0,
        votes=tuple(ballots),
        minority=tuple(_minority(choice, ballots) for choice in choices if 0 < counts[choice] < most),
        failed=tuple(
            VoteFailure(member.label, failures[member.slot].code, failures[member.slot].message)
            for member in participants
            if member.slot in failures and member.slot not in picks
        ),
    )


def _minority(choice: str, ballots: Sequence[Ballot]) -> Minority:
    own = [ballot for ballot in ballots if ballot.choice == choice]
    return Minority(choice, tuple(ballot.model for ballot in own), tuple(ballot.reason for ballot in own))
