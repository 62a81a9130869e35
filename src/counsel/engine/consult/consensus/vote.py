"""`choices`: every model picks one, as JSON that is checked; the votes are counted here, never by a model."""

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
        """As an answer that people and other models read."""
        return f"{self.choice}\n\n{self.reason}".strip()


def checked(choices: tuple[str, ...]) -> tuple[str, ...]:
    """The choices without white space around them. Raises for two that look the same."""
    stripped = tuple(choice.strip() for choice in choices)
    if not all(map(_looks, stripped)):
        raise InvalidArgument("choices: one is empty.", hint="Nothing was sent.")
    twice = [choice for choice, count in Counter(map(_looks, stripped)).items() if count > 1]
    if twice:
        raise InvalidArgument(
            f"choices must differ: {twice[0][:80]!r} appears twice.", hint="Nothing was sent."
        )
    return stripped


def _looks(text: str) -> str:
    """What people see: without case, kinds of white space, invisible characters, and ways to write an accent."""
    visible = "".join(
        char for char in unicodedata.normalize("NFC", text) if unicodedata.category(char) != "Cf"
    )
    return " ".join(visible.casefold().split())


def in_their_words(answer: str, choices: Sequence[str]) -> str:
    """An answer whose choice looks like one of them (`sqlite` for `SQLite`) with that one; any other as it is."""
    try:
        document = json.loads(structured.without_fence(answer))
        written = _looks(document["choice"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer
    meant = next((choice for choice in choices if _looks(choice) == written), None)
    return answer if meant in {None, document["choice"]} else json.dumps({**document, "choice": meant})


def schema(choices: Sequence[str]) -> dict[str, object]:
    return strict_object(reason={"type": "string"}, choice={"type": "string", "enum": list(choices)})


def asked(call: Call, choices: tuple[str, ...], job: str, slot: str) -> Call:
    """The call with the choices, in an order of its own for each model: many prefer what is first."""
    order = anonymous.shuffled(job, f"choices {slot}", choices)
    wanted = schema(order)
    parts = (call.system, prompts.choose(order), prompts.structured(wanted))
    return replace(call, system="\n\n".join(part for part in parts if part), schema=wanted)


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
    """`failures`: by slot, of models without a vote."""
    ballots = [
        Ballot(member.label, picks[member.slot].choice, picks[member.slot].reason)
        for member in participants
        if member.slot in picks
    ]
    counts = {choice: sum(ballot.choice == choice for ballot in ballots) for choice in choices}
    most = max(counts.values())
    leading = [choice for choice in choices if counts[choice] == most > 0]
    return Vote(
        choices=choices,
        counts=counts,
        majority=leading[0] if len(leading) == 1 else None,
        tied=tuple(leading) if len(leading) > 1 else (),
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
