"""From a kept conversation to the folder that `export` writes."""

from __future__ import annotations

from pathlib import Path

from counsel.engine import results
from counsel.engine.export import ExportedConversation, ExportedTurn, export
from counsel.engine.store import conversations
from counsel.engine.store.conversations import Message
from counsel.engine.store.database import Database
from counsel.errors import NotFound


def write(database: Database, conversation: str, target: Path, root: Path) -> Path:
    return export(gather(database, conversation), target, root)


def gather(database: Database, conversation: str) -> ExportedConversation:
    row = conversations.by_id(database, conversation)
    if row is None:
        raise NotFound(
            f"There is no conversation {conversation}.", hint="`counsel conversations list` shows them."
        )
    about = {
        "tool": row["tool"],
        "title": row["title"],
        "provider": row["provider"],
        "model": row["model"],
        "created_at": results.iso(row["created"]),
        "updated_at": results.iso(row["updated"]),
    }
    return ExportedConversation(
        conversation, tuple(_turns(conversations.messages(database, conversation))), about
    )


def _turns(messages: list[Message]) -> list[ExportedTurn]:
    turns: list[ExportedTurn] = []
    for message in messages:
        if message.role == "user":
            about = {"asked_at": results.iso(message.at), **message.about}
            turns.append(ExportedTurn(message.text, None, about))
        elif turns:
            last = turns[-1]
            about = {**last.metadata, "answered_at": results.iso(message.at), **message.about}
            turns[-1] = ExportedTurn(last.request, message.text, about)
    return turns
