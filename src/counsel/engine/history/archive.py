"""Reads stored conversations and usage without a running engine."""

from __future__ import annotations

import time
from pathlib import Path

from counsel.caller import Caller
from counsel.engine import results
from counsel.engine.history import usage
from counsel.engine.history.documents import (
    BudgetReport,
    By,
    ConversationList,
    Conversations,
    ConversationSummary,
    UsageSummary,
)
from counsel.engine.store import open_store
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob, Conversation, JobWithoutTurn, Message
from counsel.errors import Conflict, NotFound
from counsel.settings import Settings
from counsel.types import Json


class Archive:
    """Uses an engine's store, or opens one itself; several processes may do that."""

    def __init__(self, home: Path, store: Store | None = None) -> None:
        self._store = open_store(home) if store is None else store

    async def close(self) -> None:
        await self._store.close()

    @property
    def problem(self) -> str | None:
        return self._store.problem

    async def conversations(self, limit: int, offset: int = 0) -> ConversationList:
        rows = await self._store.conversations(limit, offset=offset)
        return {"conversations": [_summary(conversation) for conversation in rows]}

    async def search(self, words: str, limit: int) -> ConversationList:
        hits = await self._store.search(words, limit)
        return {
            "conversations": [
                {**_summary(hit.conversation), "found": _matching_line(hit.text, words)} for hit in hits
            ]
        }

    async def page(self, limit: int, words: str = "", cursor: str | None = None) -> Conversations:
        """A page of the conversations that contain all these words, and the cursor of the next page."""
        page = await self._store.conversations_page(limit, words, cursor)
        rows = [_summary(hit.conversation) for hit in page.rows]
        if words.split():
            for row, hit in zip(rows, page.rows, strict=True):
                row["found"] = _matching_line(hit.text, words)
        return {"conversations": rows, "next": page.next}

    async def contents(self, name: str) -> dict[str, bytes]:
        """The files that `export` would write, by name."""
        from counsel.engine.history import export as exporting
        from counsel.engine.history.export_files import folder_contents

        return folder_contents(await exporting.gather(self._store, name))

    async def image(self, sha: str) -> Blob | None:
        return (await self._store.blobs([sha])).get(sha)

    async def show(self, name: str) -> Json:
        conversation = await self._conversation(name)
        # Read before the messages, so that a job that ends just now is listed twice rather than left out.
        jobs = await self._store.jobs_without_turn(name)
        return {
            **_summary(conversation),
            "history": [_message(message) for message in await self._store.messages(name)],
            "unfinished": [_without_turn(job) for job in jobs if job.status != "processing"],
            "running": [_without_turn(job) for job in jobs if job.status == "processing"],
        }

    async def export(self, name: str, folder: str | None, caller: Caller) -> Path:
        from counsel.engine.history import export as exporting  # half of the other commands' start-up time
        from counsel.engine.history.export_files import destination

        await self._conversation(name)
        target, root = destination(folder or True, caller)
        return await exporting.write(self._store, name, target, root)

    async def delete(self, *names: str) -> None:
        """Delete all of them, or none if one does not exist or has a running job."""
        for name in names:
            await self._conversation(name)
            if await self._store.open_jobs(name):
                raise Conflict(
                    f"A job is running in {name}.",
                    hint=f"Wait for it, or stop it with `counsel cancel {name}`.",
                )
        for name in names:
            await self._store.delete_conversation(name)

    async def usage(self, since: float, by: By, *, local: bool = False) -> UsageSummary:
        """`local`: group by days in this machine's time zone, for people."""
        return await usage.summary(self._store, since, by, local=local)

    async def budgets(self, settings: Settings) -> list[BudgetReport]:
        from counsel.engine.history import budget_report  # few users have budgets

        return await budget_report.report(self._store, settings)

    async def _conversation(self, name: str) -> Conversation:
        conversation = await self._store.conversation(name)
        if conversation is None:
            raise NotFound(
                f"There is no conversation {name}.", hint="`counsel conversations list` shows them."
            )
        return conversation


def _summary(conversation: Conversation) -> ConversationSummary:
    return {
        "id": conversation.id,
        "title": conversation.title,
        "tool": conversation.tool,
        "model": conversation.model,
        "provider": conversation.provider,
        "messages": conversation.messages,
        "project": conversation.project,
        "client": conversation.client,
        "tag": conversation.tag,
        "created_at": results.iso(conversation.created),
        "updated_at": results.iso(conversation.updated),
        "expires_in_days": round((conversation.expires - time.time()) / 86400, 1),
    }


def _message(message: Message) -> dict[str, object]:
    document = results.message(message).to_json()
    if message.job:
        document["job_id"] = message.job
    if message.images:
        document["image_ids"] = list(message.images)
    return document


def _without_turn(job: JobWithoutTurn) -> dict[str, object]:
    document: dict[str, object] = {
        "job_id": job.id,
        "status": job.status,
        "title": job.title,
        "started_at": results.iso(job.created),
        "models": list(job.models),
        "prompt": job.prompt,
        "image_ids": list(job.images),
        "files": list(job.files),
    }
    return {**document, "error": job.error.copy(partial=False).as_dict()} if job.error else document


def _matching_line(text: str | None, words: str) -> str | None:
    """The line that contains the first word."""
    first = words.split(maxsplit=1)[0].lower() if words.split() else ""
    lines = [line.strip() for line in (text or "").splitlines() if first in line.lower()]
    return lines[0][:200] if lines else None
