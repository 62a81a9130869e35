"""What the tests of agents' readers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counsel.agents.definitions import AGENTS
from counsel.agents.driver import AgentRequest, Step
from counsel.agents.process import Exit
from counsel.caller import Caller
from counsel.types import Call, Limits, Text, Thinking, ToolUse, Turn

CLEAN = Exit(0)


def request_to(agent: str, session: str | None = None, **fields: Any) -> AgentRequest:
    call = Call((Turn("user", "look"),), session=session)
    base: dict[str, Any] = {
        "agent": AGENTS[agent],
        "program": Path("/bin/agent"),
        "call": call,
        "caller": Caller(),
        "limits": Limits(attempts=2),
        "model": None,
        "session": session,
        "level": "read-only",
        "env": {"SOME_API_KEY": "hush-hush"},
    }
    return AgentRequest(**(base | fields))


def parts(steps: list[Step]) -> tuple[str, str, list[str]]:
    text = "".join(step.delta for step in steps if isinstance(step, Text))
    thinking = "".join(step.delta for step in steps if isinstance(step, Thinking))
    return text, thinking, [step.call.name for step in steps if isinstance(step, ToolUse)]
