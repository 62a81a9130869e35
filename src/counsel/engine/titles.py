"""Titles and summaries by a small model, when a user wants them. They never hold up or spoil a job."""

from __future__ import annotations

import asyncio
import logging

from counsel.caller import Caller
from counsel.engine import prompts
from counsel.engine.routes import Router
from counsel.types import Call, Finished, Knobs, Text, Turn

log = logging.getLogger("counsel.titles")
TITLE_LENGTH = 60
_SECONDS = 20
_READ = 12_000  # characters of a text that the small model is shown


def snippet(text: str, length: int) -> str:
    """The beginning of a text, cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    cut = flat[: length - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[length // 2 :] else cut).rstrip(" ,;:.") + "…"


def title_of(prompt: str) -> str:
    return snippet(prompt, TITLE_LENGTH)


class Summariser:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def title(self, prompt: str, caller: Caller) -> str:
        said = await self._say(prompts.TITLE, prompt, caller)
        return snippet(said.strip("\"'` \n"), TITLE_LENGTH) if said else title_of(prompt)

    async def summary(self, text: str, caller: Caller) -> str:
        return await self._say(prompts.SUMMARY, text, caller) or snippet(text, 200)

    async def running(self, text: str, caller: Caller) -> str:
        return await self._say(prompts.RUNNING, text[-_READ:], caller) or snippet(text[-400:], 200)

    async def _say(self, wish: str, text: str, caller: Caller) -> str:
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._ask(wish + text[:_READ], caller)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on without
            log.info("no summary by a model: %s", type(error).__name__)
            return ""

    async def _ask(self, prompt: str, caller: Caller) -> str:
        route = self._router.route(caller.settings.summary_model, caller)
        call = Call((Turn("user", prompt),), knobs=Knobs(temperature=0.3, effort="minimal", verbosity="low"))
        pieces: list[str] = []
        async for event in route.answer(call):
            if isinstance(event, Text):
                pieces.append(event.delta)
            elif isinstance(event, Finished):
                break
        return " ".join("".join(pieces).split())
