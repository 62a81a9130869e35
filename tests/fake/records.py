"""The requests that the fake received, and waiting for them without sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Received:
    """One request, updated while it is answered."""

    number: int
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # names in lower case
    body: Any  # parsed JSON, or the raw text
    vendor: str = "other"  # openai-chat openai-responses anthropic gemini models tokens other
    model: str = ""
    stream: bool = False
    text: str = ""
    images: int = 0
    at: float = field(default_factory=time.monotonic)
    deltas: int = 0  # sent so far
    status: int | None = None
    finished: bool = False
    disconnected: bool = False
    ended_at: float | None = None

    @property
    def open(self) -> bool:
        return self.ended_at is None

    @property
    def state(self) -> str:
        if self.disconnected:
            return "disconnected"
        return "finished" if self.finished else "answering" if self.status else "received"

    def as_json(self) -> dict[str, Any]:
        names = (
            "number method path query headers body vendor model stream text images deltas status at ended_at"
        )
        return {name: getattr(self, name) for name in names.split()} | {"state": self.state}


@dataclass(slots=True)
class Filter:
    """Selects requests. Fields that are not set match everything."""

    vendor: str | None = None
    model: str | None = None
    path: str | None = None
    contains: str | None = None
    state: str | None = None
    deltas: int = 0

    def __call__(self, request: Received) -> bool:
        return (
            self.vendor in {None, request.vendor}
            and (self.model or "") in request.model
            and (self.path or "") in request.path
            and (self.contains or "") in request.text
            and self.state in {None, request.state}
            and request.deltas >= self.deltas
        )


class Log:
    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.most_open = 0
        self._changed = asyncio.Condition()
        self._pending: set[asyncio.Task[None]] = set()

    @property
    def calls(self) -> list[Received]:
        """Requests to a model (without listings and token counts)."""
        return [request for request in self.requests if request.vendor not in {"models", "tokens", "other"}]

    @property
    def open_calls(self) -> int:
        return sum(request.open for request in self.calls)

    def add(self, request: Received) -> None:
        self.requests.append(request)
        self.most_open = max(self.most_open, self.open_calls)
        self.changed()

    def changed(self) -> None:
        task = asyncio.get_running_loop().create_task(self._notify())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def wait_for(
        self, fits: Callable[[Received], bool], count: int = 1, wait: float = 10.0
    ) -> list[Received]:
        """The first `count` matching requests, once there are that many; TimeoutError lists what was received."""

        def matching() -> list[Received]:
            return [request for request in self.requests if fits(request)]

        try:
            async with asyncio.timeout(wait), self._changed:
                await self._changed.wait_for(lambda: len(matching()) >= count)
        except TimeoutError:
            rows = [f"{r.method} {r.path} {r.state} deltas={r.deltas}" for r in self.requests]
            raise TimeoutError(
                f"{len(matching())} of {count} requests match after {wait} s; received: {rows}"
            ) from None
        return matching()[:count]
