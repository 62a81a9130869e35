"""Collects a stored conversation for the folder that `export` writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from counsel.engine import results
from counsel.engine.consult import prompts
from counsel.engine.history.export_files import ExportedConversation, ExportedTurn, export
from counsel.engine.store.model import SETTINGS
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Message
from counsel.errors import NotFound
from counsel.results import AnswerDetails, QuestionDetails


async def write(store: Store, conversation: str, target: Path, root: Path) -> Path:
    return await asyncio.to_thread(export, await gather(store, conversation), target, root)


async def gather(store: Store, conversation: str) -> ExportedConversation:
    record = await store.conversation(conversation)
    if record is None:
        raise NotFound(
            f"There is no conversation {conversation}.", hint="`counsel conversations list` shows them."
        )
    messages = await store.messages(conversation)
    metadata = {
        "tool": record.tool,
        "title": record.title,
        "provider": record.provider,
        "model": record.model,
        "created_at": results.iso(record.created),
        "updated_at": results.iso(record.updated),
        "system_prompt": prompts.CONSULTED,  # agents use their own
        **_totals(messages),
    }
    return ExportedConversation(conversation, tuple(_turns(messages)), metadata)


def _turns(messages: list[Message]) -> list[ExportedTurn]:
    turns: list[ExportedTurn] = []
    for message in messages:
        if message.role == "user":
            turns.append(ExportedTurn(message.text, None, _question_metadata(message)))
        elif turns:
            last = turns[-1]
            metadata = {**last.metadata, "answered_at": results.iso(message.at), **message.details.to_json()}
            turns[-1] = ExportedTurn(last.request, message.text, metadata)
    return turns


def _question_metadata(message: Message) -> dict[str, object]:
    """A question's metadata, with every setting by name; null where the caller left it to the model."""
    details = message.details
    settings = details.settings if isinstance(details, QuestionDetails) else {}
    rest = {name: value for name, value in details.to_json().items() if name != "settings"}
    return {
        "asked_at": results.iso(message.at),
        "job_id": message.job,
        "models_requested": settings.get("models", []),
        "settings": {name: settings.get(name) for name in SETTINGS},
        "images": len(message.images),
        **rest,
    }


def _totals(messages: list[Message]) -> dict[str, object]:
    """What the whole conversation used and cost, as far as known."""
    details = [message.details for message in messages if isinstance(message.details, AnswerDetails)]
    amounts = [entry.spent for entry in details if entry.spent]
    costs = [entry.cost_usd for entry in amounts if entry.cost_usd is not None]
    return {
        "usage": {
            "input_tokens": sum(entry.usage.input for entry in amounts),
            "output_tokens": sum(entry.usage.output for entry in amounts),
            "total_tokens": sum(entry.usage.total for entry in amounts),
        },
        "cost_usd": round(sum(costs), 10) if costs else None,
    }
