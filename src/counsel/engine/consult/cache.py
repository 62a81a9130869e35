"""Answers for identical requests, when a user has set a lifetime for them. Off by default."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import time
from typing import Any

from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route
from counsel.engine.jobs.model import Reply
from counsel.engine.store.sqlite.database import Database
from counsel.types import Call


class AnswerCache:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def through(self, talk: Consultation, step: Step, route: Route, call: Call) -> Reply:
        """Ask, unless the same question to the same model with the same key was answered within the caller's lifetime."""
        seconds = talk.job.caller.settings.cache_seconds
        # what an agent or a shared tool looks at may have changed
        if not seconds or route.is_agent or talk.job.task.tools:
            return await talk.ask(step, route, call)
        name = _name(route, call)
        row = self._database.row("SELECT reply FROM answers WHERE key = ? AND expires > ?", name, time.time())
        if row:
            return talk.recall(step, dataclasses.replace(Reply.load(row[0]), cached=True, ms=0))
        reply = await talk.ask(step, route, call)
        if reply.finish_reason == "stop":
            self._database.soon(_keep(name, time.time() + seconds, reply))
        return reply


def _keep(name: str, expires: float, reply: Reply) -> Any:
    def work(db: sqlite3.Connection) -> None:
        db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?)", (name, expires, reply.dump()))

    return work


def _name(route: Route, call: Call) -> str:
    said = [
        (turn.role, turn.text, [hashlib.sha256(image.data).hexdigest() for image in turn.images])
        for turn in call.turns
    ]
    asked = [route.provider, route.name, route.account]
    whole = json.dumps([asked, call.system, dataclasses.asdict(call.knobs), call.max_output, said])
    return hashlib.sha256(whole.encode()).hexdigest()
