"""The outcome of a consensus: the judge's verdict, the vote, its rounds."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict


class RoundAnswer(TypedDict):
    model: str
    response: str
    choice: NotRequired[str]
    changed: bool | None


class MiddleRound(TypedDict):
    round: int
    answers: list[RoundAnswer]


class HeldPosition(TypedDict):
    models: list[str]
    position: str


class Contradiction(TypedDict):
    topic: str
    positions: list[HeldPosition]


class PartialCoverage(TypedDict):
    point: str
    models: list[str]


class UniqueInsight(TypedDict):
    model: str
    insight: str


class JudgeVerdict(TypedDict):
    """The judge's comparison of the answers; if it failed, the reason in `error` and `code`."""

    judge: str
    based_on: NotRequired[Literal["initial", "refined"]]
    consensus: NotRequired[list[str]]
    contradictions: NotRequired[list[Contradiction]]
    partial_coverage: NotRequired[list[PartialCoverage]]
    unique_insights: NotRequired[list[UniqueInsight]]
    blind_spots: NotRequired[list[str]]
    failed_models: NotRequired[list[str]]
    recommendation: NotRequired[str]
    choice: NotRequired[Annotated[str, "The offered choice that the judge recommends."]]
    metadata: NotRequired[Annotated[dict[str, object], "The metadata of the judge's call, like an answer's."]]
    error: NotRequired[str]
    code: NotRequired[str]
    hint: NotRequired[str]


class Ballot(TypedDict):
    model: str
    choice: str
    reason: str


class Minority(TypedDict):
    choice: str
    models: list[str]
    reasons: list[str]


class VoteFailure(TypedDict):
    model: str
    code: str
    error: str


class Vote(TypedDict):
    choices: list[str]
    counts: dict[str, int]
    majority: Annotated[str | None, "The choice with the most votes; null: a tie, or no vote."]
    tied: list[str]
    agreement: Annotated[float, "The leading choice's share of the valid votes, 0 to 1."]
    votes: list[Ballot]
    minority: list[Minority]
    failed: list[VoteFailure]


class Refinement(TypedDict):
    mode: Literal["always", "disagreement", "never"]
    rounds: Annotated[int, "Number of rounds, including the first."]
    ended: Literal["limit", "unchanged", "agreement", "never"]
