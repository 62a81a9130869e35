"""`counsel demo`: try counsel without a key, with a tiny model in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from counsel import Counsel, settings
from counsel.cli import json_option
from counsel.cli.terminal import output
from counsel.job_events import TextAdded
from counsel.models import embedded
from counsel.models.auto import Needs, candidates
from counsel.models.catalog import Catalog
from counsel.settings import Settings

QUESTIONS = ("Which city is the capital of France?", "What is a compiler, in one sentence?")
TINY = "SmolLM2 (135 million parameters) is a tiny model for trying things out: it is often wrong."


@click.command()
@click.option("--prompt", multiple=True, help="Ask this instead of the demo's questions; repeatable.")
@click.option(
    "--keep", is_flag=True, help="Ask nothing; keep the model running for other clients until Ctrl-C."
)
@json_option
def demo(*, prompt: tuple[str, ...], keep: bool, as_json: bool) -> None:
    """Try counsel without a key, with a tiny model on this machine.

    The first run downloads the model (about 127 MB, checked against hashes) to COUNSEL_HOME/local.
    """
    user_settings = settings.load()
    embedded.fetch(user_settings.home, output.message)
    with embedded.LocalModel(user_settings.home) as model:
        output.message(f"{TINY}\n")
        if keep:
            _keep(model, as_json=as_json)
            return
        environment, questions = {**os.environ, **model.environment}, prompt or QUESTIONS
        answers = asyncio.run((_ask if as_json else _ask_live)(environment, questions))
    offers = _offers(user_settings)
    if as_json:
        output.document({"model": "smollm2", "note": TINY, "answers": answers, "with_your_keys": offers})
    else:
        _suggest(offers)


async def _ask(environment: Mapping[str, str], questions: Sequence[str]) -> list[dict[str, object]]:
    """Ask the local model in the same way as any other model."""
    answers: list[dict[str, object]] = []
    async with Counsel(env=environment) as counsel:
        for question in questions:
            answer = await counsel.ask(question, model="smollm2", temperature=0.0)
            answers.append({"prompt": question, "content": answer.text, "metadata": answer.metadata})
    return answers


async def _ask_live(environment: Mapping[str, str], questions: Sequence[str]) -> None:
    """Ask it, and print its answers as they arrive."""
    async with Counsel(env=environment) as counsel:
        for question in questions:
            output.message(f"> {question}")
            async for event in counsel.stream(question, model="smollm2", temperature=0.0):
                if isinstance(event, TextAdded):
                    output.answer(event.text)
            output.answer("\n\n")


def _keep(model: embedded.LocalModel, *, as_json: bool) -> None:
    """Print how other programs reach the model, and wait."""
    if as_json:
        output.document({"model": "smollm2", "note": TINY, "environment": model.environment})
    else:
        sys.stdout.writelines(f"export {name}={value}\n" for name, value in model.environment.items())
        output.message(
            "With these variables set, `counsel ask -m smollm2 …` uses the model, and auto may pick it. "
            "Ctrl-C stops it."
        )
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        signal.pause()


def _offers(settings: Settings) -> list[str]:
    """The best model of each provider that has a key."""
    best: dict[str, str] = {}
    for target in candidates(Catalog.load(settings), Needs()):
        best.setdefault(target.model.provider, target.model.id)
    return list(best.values())


def _suggest(offers: list[str]) -> None:
    if offers:
        output.message(f'You have keys. Ask a large model:  counsel ask -m {offers[0]} "…"')
        output.message(f"  ({', '.join(offers)}; `counsel models` lists all models)")
    else:
        output.message(
            "To ask large models, set a key such as OPENAI_API_KEY; `counsel models --all` lists them."
        )
