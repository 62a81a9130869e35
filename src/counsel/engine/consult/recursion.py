"""Limits recursion: no agent asks itself, directly or through others, and chains of agents have a maximum depth."""

from __future__ import annotations

from counsel.agents.definitions import AGENTS, Agent
from counsel.caller import Caller
from counsel.errors import SelfConsultation


def check(caller: Caller, asked: Agent | None = None) -> None:
    """Raises `SelfConsultation`. `asked` is None for a model of a provider, which asks no others."""
    if asked is not None and asked.name in caller.agent_chain:
        raise _loop(caller, asked)
    if len(caller.agent_chain) > caller.settings.max_depth:
        raise _too_deep(caller)


def _loop(caller: Caller, asked: Agent) -> SelfConsultation:
    if caller.agent_chain[-1] == asked.name:
        return SelfConsultation(
            f"{asked.label} cannot consult itself.",
            hint="Ask another agent or a model; `counsel models` and `counsel agents` list them.",
            agent=asked.name,
        )
    chain = _shown_chain(caller, asked.name)
    return SelfConsultation(
        f"{asked.label} is already waiting for this answer: {chain} would be a loop.",
        hint="Answer with what you know, or ask an agent that is not part of this chain.",
        agent=asked.name,
        chain=list(caller.agent_chain),
    )


def _too_deep(caller: Caller) -> SelfConsultation:
    limit = caller.settings.max_depth
    return SelfConsultation(
        f"The chain of agents is already {limit} deep: {_shown_chain(caller)}.",
        hint="Answer with what you know. COUNSEL_MAX_DEPTH sets the limit.",
        chain=list(caller.agent_chain),
    )


def _shown_chain(caller: Caller, *further: str) -> str:
    names = (*caller.agent_chain, *further)
    return " → ".join(AGENTS[name].label if name in AGENTS else name for name in names)
