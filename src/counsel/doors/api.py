"""The HTTP routes that the rooms add to `counsel serve`, beside `/mcp`. All of them stand behind the token.

A room writes `def routes(engine, settings) -> list[Route]` in a module of its own and adds that module here.
"""

from __future__ import annotations

from importlib import import_module

from starlette.routing import BaseRoute

from counsel.requests import Engine
from counsel.settings import Settings

# modules with a function `routes(engine, settings)`
ROOMS: tuple[str, ...] = ("counsel.doors.api_servers", "counsel.doors.api_skills")


def routes(engine: Engine, settings: Settings) -> list[BaseRoute]:
    return [route for room in ROOMS for route in import_module(room).routes(engine, settings)]
