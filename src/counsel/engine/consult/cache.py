"""Caches answers for identical requests if the user has set a lifetime for them. Off by default."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Awaitable

from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.types import Call


class AnswerCache:
    def __init__(self, store: Store) -> None:
        self._store = store

    def ask(
        self, consultation: Consultation, step: Step, route: Route, call: Call, variant: str = ""
    ) -> Awaitable[Reply]:
        """Ask, unless the same model answered the same question with the same key within the caller's lifetime.

        `variant` separates identical calls that need different answers.
        """
        task, settings = consultation.job.task, consultation.job.caller.settings
        # What an agent or a tool reads may have changed.
        if not settings.cache_seconds or route.is_agent or task.tools:
            return consultation.ask(step, route, call)
        return self._ask_or_recall(consultation, step, route, call, variant)

    async def _ask_or_recall(
        self, consultation: Consultation, step: Step, route: Route, call: Call, variant: str
    ) -> Reply:
        key = _key(route, call, variant)
        owner = consultation.job.caller.owner
        store = self._store.scoped(owner) if owner else self._store
        if reply := await store.cached_answer(key):
            return consultation.recall(step, dataclasses.replace(reply, cached=True, ms=0))
        reply = await consultation.ask(step, route, call)
        if reply.finish_reason == "stop":
            store.cache_answer(
                key, reply, expires=time.time() + consultation.job.caller.settings.cache_seconds
            )
        return reply


def _key(route: Route, call: Call, variant: str) -> str:
    turns = [
        (turn.role, turn.text, [hashlib.sha256(image.data).hexdigest() for image in turn.images])
        for turn in call.turns
    ]
    model = [route.provider, route.name, route.account, *([variant] if variant else [])]
    document = json.dumps(
        [model, call.system, dataclasses.asdict(call.model_settings), call.max_output, call.schema, turns]
    )
    return hashlib.sha256(document.encode()).hexdigest()
