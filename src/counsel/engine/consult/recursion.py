"""Limits recursion: no agent asks itself, directly or through others, and chains of agents have a maximum length."""

from __future__ import annotations

from counsel.agents.definitions import AGENTS, Agent
from counsel.caller import Caller
from counsel.errors import SelfConsultation


def check(caller: Caller, agent: Agent | None = None) -> None:
    """Raise `SelfConsultation` for a loop or a chain that is too deep.

    `agent` is None for a provider's model, which cannot ask others.
    """
    if agent is not None and agent.name in caller.agent_chain:
        raise _loop(caller, agent)
    if len(caller.agent_chain) > caller.settings.max_depth:
        raise _too_deep(caller)


def _loop(caller: Caller, agent: Agent) -> SelfConsultation:
    if caller.agent_chain[-1] == agent.name:
        return SelfConsultation(
            f"{agent.label} cannot consult itself.",
            hint="Ask another agent or a model; `counsel models` and `counsel agents` list them.",
            agent=agent.name,
        )
    chain = _chain_names(caller, agent.name)
    return SelfConsultation(
        f"{agent.label} is already waiting for this answer: {chain} would be a loop.",
        hint="Answer with what you know, or ask an agent that is not part of this chain.",
        agent=agent.name,
        chain=list(caller.agent_chain),
    )


def _too_deep(caller: Caller) -> SelfConsultation:
    limit = caller.settings.max_depth
    return SelfConsultation(
        f"The chain of agents is already {limit} deep: {_chain_names(caller)}.",
        hint="Answer with what you know. COUNSEL_MAX_DEPTH sets the limit.",
        chain=list(caller.agent_chain),
    )


def _chain_names(caller: Caller, *further: str) -> str:
    names = (*caller.agent_chain, *further)
    return " → ".join(AGENTS[name].label if name in AGENTS else name for name in names)
