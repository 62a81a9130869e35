"""The keys under which a job's finished calls are stored: `answer:gpt-5`, `initial:0`, `refined:0`, `refined2:0`,
`verdict`, `review:0`, `check:0`.

`:corrected` at the end: the second answer, requested because the first one did not match its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from counsel.engine.store.model import Reply

ALONE = "0"  # the slot of a job with one model
JUDGE = "judge"
_CORRECTED = ":corrected"


class CallKey(NamedTuple):
    round: int  # 0: not in a round
    corrected: bool
    phase: str  # its name in events
    slot: str


def parse(key: str) -> CallKey:
    corrected = key.endswith(_CORRECTED)
    phase, _, slot = key.removesuffix(_CORRECTED).partition(":")
    if phase == "answer":  # the model's name follows
        return CallKey(0, corrected, phase, ALONE)
    if phase == "verdict":
        return CallKey(0, corrected, phase, JUDGE)
    if phase.startswith("refined"):
        return CallKey(1 + int(phase.removeprefix("refined") or 1), corrected, "refined", slot)
    return CallKey(2 if phase == "check" else 1, corrected, phase, slot)


def last(replies: Mapping[str, Reply]) -> dict[str, tuple[str, Reply]]:
    """By slot: the phase of the last answer, and the answer."""
    pairs = sorted(((parse(key), key) for key in replies), key=lambda pair: pair[0][:2])
    return {parts.slot: (parts.phase, replies[key]) for parts, key in pairs}
