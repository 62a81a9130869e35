"""Who may ask whom: no agent asks itself, directly or through others, and agents ask each other only so deep."""

from __future__ import annotations

from counsel.agents.definitions import AGENTS, Agent
from counsel.caller import Caller
from counsel.errors import SelfConsultation


def check(caller: Caller, asked: Agent | None = None) -> None:
    """Raises `SelfConsultation`. `asked` is None for a model of a provider, which asks nobody in its turn."""
    if asked is not None and asked.name in caller.lineage:
        raise _circle(caller, asked)
    if len(caller.lineage) > caller.settings.max_depth:
        raise _too_deep(caller)


def _circle(caller: Caller, asked: Agent) -> SelfConsultation:
    if caller.lineage[-1] == asked.name:
        return SelfConsultation(
            f"{asked.label} cannot consult itself.",
            hint="Ask another agent or a model; `counsel models` and `counsel agents` list them.",
            agent=asked.name,
        )
    way = _way(caller, asked.name)
    return SelfConsultation(
        f"{asked.label} is already waiting for this answer: {way} would be a loop.",
        hint="Answer with what you know, or ask an agent that is not part of this chain.",
        agent=asked.name,
        chain=list(caller.lineage),
    )


def _too_deep(caller: Caller) -> SelfConsultation:
    limit = caller.settings.max_depth
    return SelfConsultation(
        f"The chain of agents is already {limit} deep: {_way(caller)}.",
        hint="Answer with what you know. COUNSEL_MAX_DEPTH sets the limit.",
        chain=list(caller.lineage),
    )


def _way(caller: Caller, *further: str) -> str:
    names = (*caller.lineage, *further)
    return " → ".join(AGENTS[name].label if name in AGENTS else name for name in names)
