"""counsel from Python.

async with Counsel() as c:
    answer = await c.ask("Is this lock needed?", model="gpt-5", files=["src/app.py"])
    print(answer.text, answer.cost_usd)

    async for event in c.stream("Explain the event loop", model="flash"):
        print(event.data.get("text", ""), end="")

    both = await c.consensus("Monolith or services?", models=["gpt-5", "opus"])
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from counsel.caller import Caller, here
from counsel.errors import InvalidArgument
from counsel.job_events import JobEvent
from counsel.lazy_dataclass import dataclass
from counsel.requests import ChatRequest, ConsensusRequest, Request
from counsel.results import ChatResult, ConsensusResult, Result
from counsel.types import Effort, Json, MediaResolution, Verbosity

if TYPE_CHECKING:
    from counsel.engine.engine import Engine


class Options(TypedDict, total=False):
    """What every question takes. Paths may be relative to the caller's folder."""

    files: Sequence[str | os.PathLike[str]]
    images: Sequence[str | os.PathLike[str]]
    continuation_id: str
    temperature: float
    reasoning_effort: Effort
    verbosity: Verbosity
    use_websearch: bool
    media_resolution: MediaResolution
    export: bool | str
    tools: Sequence[str]  # MCP servers of the user's agents that the model may use (docs/use/shared-tools.md)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    model: str
    provider: str
    continuation_id: str
    job_id: str
    cost_usd: float | None
    metadata: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Consensus:
    status: str
    text: str
    answers: Mapping[str, str]  # each model's last word
    failed: Sequence[Json]
    continuation_id: str
    job_id: str
    cost_usd: float | None
    result: Json = field(repr=False)


class Counsel:
    """An engine in this process. Conversations and jobs are shared with every other counsel of this user."""

    def __init__(
        self, *, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._caller: Caller = here("python", env, Path(cwd) if cwd else None)
        self._engine: Engine | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop what runs here. Background jobs go on in the next counsel that has the same keys."""
        if self._engine:
            await self._engine.close()
            self._engine = None

    async def ask(self, prompt: str, *, model: str = "auto", **options: Unpack[Options]) -> Answer:
        """One model's answer. Raises a `CounselError`; cancelling the task stops the call upstream."""
        result = await self._finish(_chat(prompt, model, options))
        return _answer(result)

    async def stream(
        self, prompt: str, *, model: str = "auto", **options: Unpack[Options]
    ) -> AsyncGenerator[JobEvent]:
        """The job's events as they come; the last is `done`, and a failure is raised after the events."""
        engine = await self._open()
        job = await engine.submit(_chat(prompt, model, options), self._caller)
        try:
            async for event in engine.follow(job):
                yield event
            await engine.wait(job)
        except BaseException:
            await engine.cancel(job)
            raise

    async def consensus(
        self,
        prompt: str,
        *,
        models: Sequence[str],
        cross_feedback: bool = True,
        cross_feedback_prompt: str | None = None,
        **options: Unpack[Options],
    ) -> Consensus:
        """Several models at once, who then read and refine each other's answers."""
        request = ConsensusRequest(
            prompt=prompt,
            models=_listed("models", models),
            enable_cross_feedback=cross_feedback,
            cross_feedback_prompt=cross_feedback_prompt,
            **_common(options),
        )
        return _consensus(await self._finish(request))

    async def submit(self, prompt: str, *, model: str = "auto", **options: Unpack[Options]) -> str:
        """Start a background job; its id for `wait`, `status` and `cancel`."""
        engine = await self._open()
        return await engine.submit(_chat(prompt, model, options), self._caller, background=True)

    async def wait(self, job_id: str) -> Json:
        return (await (await self._open()).wait(job_id)).to_json()

    async def status(self, any_id: str, *, full_history: bool = False) -> Json:
        return (await (await self._open()).status(any_id, full_history=full_history)).to_json()

    async def cancel(self, any_id: str) -> Json:
        return (await (await self._open()).cancel(any_id)).to_json()

    async def _finish(self, request: Request) -> Result:
        engine = await self._open()
        job = await engine.submit(request, self._caller)
        try:
            return await engine.wait(job)
        except BaseException:
            await engine.cancel(job)
            raise

    async def _open(self) -> Engine:
        if self._engine is None:
            from counsel.engine.engine import open_engine

            self._engine = await open_engine(self._caller.settings.home)
            self._engine.register_caller(self._caller)
        return self._engine


def _common(options: Options) -> dict[str, Any]:
    held: dict[str, Any] = dict(options)
    for name in ("files", "images", "tools"):
        held[name] = _listed(name, held.get(name, ()))
    return held


def _listed(name: str, items: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """A string is a sequence of characters, too, which is never intended."""
    if isinstance(items, str | bytes | os.PathLike):
        raise InvalidArgument(f"{name} must be a list, not {items!r}.", hint=f"Write {name}=[{items!r}].")
    return tuple(os.fspath(item) for item in items)


def _chat(prompt: str, model: str, options: Options) -> ChatRequest:
    return ChatRequest(prompt=prompt, model=model, **_common(options))


def _answer(result: Result) -> Answer:
    assert isinstance(result, ChatResult)  # what a chat request gives
    about = result.metadata
    return Answer(
        text=result.content,
        model=about.model,
        provider=about.provider,
        continuation_id=result.continuation.id,
        job_id=result.job_id,
        cost_usd=about.cost_usd,
        metadata=about.to_json(),
    )


def _consensus(result: Result) -> Consensus:
    assert isinstance(result, ConsensusResult)  # what a consensus request gives
    return Consensus(
        status=result.status,
        text=result.content,
        answers=result.answers,
        failed=[failure.to_json() for failure in result.failed],
        continuation_id=result.continuation.id,
        job_id=result.job_id,
        cost_usd=result.metadata.cost_usd,
        result=result.to_json(),
    )
