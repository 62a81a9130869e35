"""From a kept conversation to the folder that `export` writes."""

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


async def write(store: Store, conversation: str, target: Path, root: Path) -> Path:
    return await asyncio.to_thread(export, await gather(store, conversation), target, root)


async def gather(store: Store, conversation: str) -> ExportedConversation:
    kept = await store.conversation(conversation)
    if kept is None:
        raise NotFound(
            f"There is no conversation {conversation}.", hint="`counsel conversations list` shows them."
        )
    turns = _turns(await store.messages(conversation))
    about = {
        "tool": kept.tool,
        "title": kept.title,
        "provider": kept.provider,
        "model": kept.model,
        "created_at": results.iso(kept.created),
        "updated_at": results.iso(kept.updated),
        "system_prompt": prompts.CONSULTED,  # agents have their own
        **_totals(turns),
    }
    return ExportedConversation(conversation, tuple(turns), about)


def _turns(messages: list[Message]) -> list[ExportedTurn]:
    turns: list[ExportedTurn] = []
    for message in messages:
        if message.role == "user":
            turns.append(ExportedTurn(message.text, None, _asked(message)))
        elif turns:
            last = turns[-1]
            about = {**last.metadata, "answered_at": results.iso(message.at), **message.about}
            turns[-1] = ExportedTurn(last.request, message.text, about)
    return turns


def _asked(message: Message) -> dict[str, object]:
    """Every setting by name: null where the caller left it to the model."""
    about = dict(message.about)
    settings = about.pop("settings", {})
    return {
        "asked_at": results.iso(message.at),
        "job_id": message.job,
        "models_requested": settings.get("models", []),
        "settings": {name: settings.get(name) for name in SETTINGS},
        "images": len(message.images),
        **about,
    }


def _totals(turns: list[ExportedTurn]) -> dict[str, object]:
    """What the whole conversation used and cost, as far as it is known."""
    metadata = [turn.metadata for turn in turns]
    used = [about["usage"] for about in metadata if isinstance(about.get("usage"), dict)]
    costs = [about["cost_usd"] for about in metadata if about.get("cost_usd") is not None]
    names = ("input_tokens", "output_tokens", "total_tokens")
    return {
        "usage": {name: sum(each.get(name, 0) for each in used) for name in names},
        "cost_usd": round(sum(costs), 10) if costs else None,
    }
