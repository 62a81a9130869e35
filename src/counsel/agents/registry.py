"""The agents that can be asked, by name: `claude`, `codex:gpt-5` …"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from counsel.agents import detect
from counsel.agents.definitions import ASKABLE, Agent
from counsel.agents.detect import Installed, Login
from counsel.caller import Caller
from counsel.records import Record
from counsel.types import Call, Event, Limits

if TYPE_CHECKING:  # importing it takes 25 ms, for asyncio; commands that list agents do not need it
    from counsel.agents.driver import AgentDriver

_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@+\[\]-]{0,127}", re.ASCII).fullmatch


class AskableAgent(Record):
    """An agent and the model that it should use; None: the agent's own choice."""

    agent: Agent
    model: str | None = None

    @property
    def name(self) -> str:
        return f"{self.agent.name}:{self.model}" if self.model else self.agent.name

    def answer(self, call: Call, caller: Caller, limits: Limits) -> AsyncGenerator[Event]:
        from counsel.agents import driver

        return driver.answer(driver_of(self.agent.name), call, caller, limits, self.model)

    def probe(self, caller: Caller) -> Installed:
        return detect.describe(self.agent, caller, self._login)

    def _login(self, caller: Caller) -> Login:
        """Imports only the agent's login module, not the code that asks the agent."""
        login = importlib.import_module(f"counsel.agents.{self.agent.name}.login").login
        return cast(Login, login(caller))


def driver_of(name: str) -> AgentDriver:
    """The agent's driver; its module is imported at first use."""
    return cast("AgentDriver", importlib.import_module(f"counsel.agents.{name}.run").DRIVER)


def askable_agents() -> dict[str, AskableAgent]:
    return {name: AskableAgent(agent) for name, agent in ASKABLE.items()}


@lru_cache(maxsize=256)
def resolve(name: str) -> AskableAgent | None:
    """The agent that a model's name means; None: no agent has this name.

    A model that could be read as an option is rejected: `gemini:--yolo` must not reach a command line.
    """
    agent, colon, model = name.partition(":")
    row = ASKABLE.get(agent.strip().lower())
    if row is None:
        return None
    model = model.strip()
    if colon and not _MODEL(model):
        return None
    return AskableAgent(row, model or None)


def available(caller: Caller) -> list[AskableAgent]:
    """Agents that are installed and certainly logged in, in the table's order: `auto` may pick them without waiting."""
    return [agent for agent in askable_agents().values() if agent.probe(caller).usable]
