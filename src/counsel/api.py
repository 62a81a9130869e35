"""counsel from Python.

async with Counsel() as c:
    answer = await c.ask("Is this lock needed?", model="gpt-5", files=["src/app.py"])
    print(answer.text, answer.cost_usd)

    async for event in c.stream("Explain the event loop", model="flash"):
        if isinstance(event, TextAdded):
            print(event.text, end="")

    both = await c.consensus("Monolith or services?", models=["gpt-5", "opus"])

`counsel.sync` has the same without `await`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from counsel.caller import Caller, local_caller
from counsel.errors import CounselError, InvalidArgument
from counsel.job_events import JobEvent, Wait
from counsel.lazy_dataclass import dataclass
from counsel.requests import ChatRequest, ConsensusRequest, Member, Order, Refine, Request
from counsel.results import (
    Cancellation,
    ChatResult,
    ConsensusResult,
    Finding,
    HistoryMessage,
    JobState,
    JobStatus,
    JudgeVerdict,
    LeftOutFile,
    ModelState,
    Refinement,
    Result,
    ReviewResult,
    Vote,
    review_formats,
    usage_from_json,
)
from counsel.types import Effort, Json, MediaResolution, Usage, Verbosity

if TYPE_CHECKING:
    from counsel.engine.consult.review.source import Change
    from counsel.engine.engine import Engine
    from counsel.engine.history.documents import BudgetReport


class Options(TypedDict, total=False):
    """Options of every question. Paths may be relative to the caller's folder."""

    files: Sequence[str | os.PathLike[str]]
    images: Sequence[str | os.PathLike[str]]
    continuation_id: str
    temperature: float
    reasoning_effort: Effort
    verbosity: Verbosity
    use_websearch: bool
    media_resolution: MediaResolution
    export: bool | str
    max_cost_usd: float  # of all calls of the question (docs/use/budgets.md)
    tools: Sequence[str]  # MCP servers of the user's agents that the model may use (docs/use/shared-tools.md)


@dataclass(frozen=True, slots=True)
class Answer:
    """One model's answer."""

    text: str
    model: str  # the model that answered
    provider: str  # its provider, or the agent
    continuation_id: str  # the conversation's id, for the next question
    job_id: str
    cost_usd: float | None  # None: no price is known
    usage: Usage  # tokens
    metadata: Json = field(repr=False)  # everything else, as the MCP tools return it


@dataclass(frozen=True, slots=True)
class Consensus:
    """The answers of several models, and the outcome."""

    status: str  # consensus_complete, consensus_partial or no_consensus
    text: str  # all last answers as one text, failures first
    answers: Mapping[str, str]  # each model's last answer
    failed: Sequence[Json]  # models that failed: `model`, `phase`, `error`, `code` …
    continuation_id: str
    job_id: str
    cost_usd: float | None  # of all calls whose price is known, including failed ones
    usage: Usage  # of all calls
    result: Json = field(repr=False)  # all rounds, as `/api` returns them
    verdict: JudgeVerdict | None = None  # of the judge, if there was one
    vote: Vote | None = None  # if there were choices
    refinement: Refinement | None = None  # the number of rounds, and why there were no more


class ReviewOptions(TypedDict, total=False):
    """Options of a review."""

    temperature: float
    reasoning_effort: Effort
    verbosity: Verbosity
    export: bool | str
    max_cost_usd: float  # of all calls of the review


@dataclass(frozen=True, slots=True)
class Review:
    """The findings of several models about a change."""

    status: str  # review_complete or review_partial
    text: str  # for people
    findings: Sequence[Finding]  # worst first
    failed: Sequence[Json]  # models that failed: `model`, `phase`, `error`, `code` …
    left_out: Sequence[LeftOutFile]  # files that were not reviewed
    continuation_id: str
    job_id: str
    cost_usd: float | None  # of all calls whose price is known, including failed ones
    usage: Usage  # of all calls
    result: Json = field(repr=False)  # the whole document, as `counsel review --json` prints it

    def sarif(self) -> Json:
        """The review as a SARIF 2.1.0 document, for code scanning."""
        return review_formats.sarif(ReviewResult.from_json(self.result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job at one moment."""

    id: str
    continuation_id: str  # of its conversation
    status: JobState  # processing, completed, completed_with_errors, failed or cancelled
    tool: str  # chat, consensus, askModel, completion or review
    models: tuple[str, ...]  # as requested
    completed: int  # models that have finished this round
    total: int  # models that were asked
    started_at: datetime  # UTC
    finished_at: datetime | None
    elapsed_seconds: float
    title: str | None
    summary: str | None
    text: str  # the answer, or its text so far
    result: Answer | Consensus | Review | None  # once the job is done
    error: CounselError | None  # why the job failed
    usage: Usage | None  # tokens; None: not yet known
    cost_usd: float | None
    members: tuple[ModelState, ...]  # each model of a job without a result: its status, text and error
    waiting_for: Wait | None  # a turn, a free slot, a retry, keys or its client
    history: tuple[HistoryMessage, ...]  # the conversation, with `full_history=True`
    document: Json = field(repr=False)  # the whole document, as `check_status` returns it

    @property
    def is_done(self) -> bool:
        """Whether the job has ended, with or without a result."""
        return self.status != "processing"


class Counsel:
    """An engine in this process. Conversations and jobs are shared with every other counsel of this user."""

    def __init__(
        self, *, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._caller: Caller = local_caller("python", env, Path(cwd) if cwd else None)
        self._engine: Engine | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop everything that runs here. Background jobs continue in the next counsel that has the same keys."""
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
        job_id = await engine.submit(_chat(prompt, model, options), self._caller)
        try:
            async with aclosing(engine.follow(job_id)) as events:
                async for event in events:
                    yield event
            await engine.wait(job_id)
        except BaseException:
            await engine.cancel(job_id)
            raise

    async def consensus(
        self,
        prompt: str,
        *,
        models: Sequence[str | Member],
        cross_feedback: bool = True,
        cross_feedback_prompt: str | None = None,
        judge: str | None = None,
        choices: Sequence[str] = (),
        refine: Refine | None = None,
        rounds: int = 2,
        order: Order = "parallel",
        **options: Unpack[Options],
    ) -> Consensus:
        """Ask several models, which then read each other's answers without names and refine their own."""
        request = ConsensusRequest(
            prompt=prompt,
            models=_members(models),
            enable_cross_feedback=cross_feedback,
            cross_feedback_prompt=cross_feedback_prompt,
            judge=judge,
            choices=_tuple_of("choices", choices),
            refine=refine,
            rounds=rounds,
            order=order,
            **_common(options),
        )
        return _consensus(await self._finish(request))

    async def review(
        self,
        diff: str | None = None,
        *,
        base: str | None = None,
        staged: bool = False,
        models: Sequence[str | Member] = ("auto",),
        focus: str | None = None,
        **options: Unpack[ReviewOptions],
    ) -> Review:
        """Let several models review a change; each finding is checked by a model that did not make it.

        `diff` is a unified diff. Without it, the change comes from the repository in `cwd`: with `base`, the changes on
        HEAD since it branched off `base`; with `staged`, the staged changes; otherwise those of the working tree or, if
        there are none, those of the branch.
        """
        change = await asyncio.to_thread(_change, diff, base, self._caller, staged=staged)
        from counsel.engine.consult.review import source

        request = source.request(change, _members(models), focus, **options)
        return _review(await self._finish(request))

    async def submit(self, prompt: str, *, model: str = "auto", **options: Unpack[Options]) -> str:
        """Start a background job; returns its id for `wait`, `status` and `cancel`."""
        engine = await self._open()
        return await engine.submit(_chat(prompt, model, options), self._caller, background=True)

    async def wait(self, job_id: str) -> Answer | Consensus | Review:
        """Wait for the job's result; a failed job raises its error."""
        return _typed(await (await self._open()).wait(job_id))

    async def status(self, any_id: str, *, full_history: bool = False) -> Job:
        """The current state of a job, by its id or its conversation's."""
        return _job(await (await self._open()).status(any_id, full_history=full_history))

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop a job and its calls upstream, or only one model of a consensus (name or slot); returns the outcome."""
        return await (await self._open()).cancel(any_id, member)

    async def budgets(self) -> list[BudgetReport]:
        """What is left of each daily and monthly budget, as `counsel usage --json` shows it."""
        return await (await self._open()).budget_report(self._caller.settings)

    async def _finish(self, request: Request) -> Result:
        engine = await self._open()
        job_id = await engine.submit(request, self._caller)
        try:
            return await engine.wait(job_id)
        except BaseException:
            await engine.cancel(job_id)
            raise

    async def _open(self) -> Engine:
        if self._engine is None:
            from counsel.engine.engine import open_engine

            self._engine = (await open_engine(self._caller.settings.home, takes_jobs=False)).for_machine()
            self._engine.register_caller(self._caller)
        return self._engine


def _common(options: Options) -> dict[str, Any]:
    fields: dict[str, Any] = dict(options)
    for name in ("files", "images", "tools"):
        fields[name] = _tuple_of(name, fields.get(name, ()))
    return fields


def _tuple_of(name: str, items: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The items as a tuple. A string is refused: it is a sequence, too, but no caller means its characters."""
    if isinstance(items, str | bytes | os.PathLike):
        raise InvalidArgument(f"{name} must be a list, not {items!r}.", hint=f"Write {name}=[{items!r}].")
    return tuple(os.fspath(item) for item in items)


def _members(models: Sequence[str | Member]) -> tuple[str | Member, ...]:
    if isinstance(models, str | bytes):
        _tuple_of("models", models)  # raises
    return tuple(models)


def _chat(prompt: str, model: str, options: Options) -> ChatRequest:
    return ChatRequest(prompt=prompt, model=model, **_common(options))


def _answer(result: Result) -> Answer:
    assert isinstance(result, ChatResult)  # the result of a chat request
    metadata = result.metadata
    return Answer(
        text=result.content,
        model=metadata.model,
        provider=metadata.provider,
        continuation_id=result.continuation.id,
        job_id=result.job_id,
        cost_usd=metadata.cost_usd,
        usage=metadata.usage,
        metadata=metadata.to_json(),
    )


def _consensus(result: Result) -> Consensus:
    assert isinstance(result, ConsensusResult)  # the result of a consensus request
    return Consensus(
        status=result.status,
        text=result.content,
        answers=result.answers,
        failed=[failure.to_json() for failure in result.failed],
        continuation_id=result.continuation.id,
        job_id=result.job_id,
        cost_usd=result.metadata.cost_usd,
        usage=result.metadata.usage,
        result=result.to_json(),
        verdict=result.verdict,
        vote=result.vote,
        refinement=result.refinement,
    )


def _change(diff: str | None, base: str | None, caller: Caller, *, staged: bool) -> Change:
    from counsel.engine.consult.review import source

    if diff is not None:
        change = source.from_text(diff, "a diff", caller)
    else:
        change = source.from_git(caller, base=base, staged=staged)
    if not change.diff:
        raise InvalidArgument(
            f"There is nothing to review ({change.about}).",
            hint="Nothing was sent.",
            left_out=[entry.to_json() for entry in change.left_out],
        )
    return change


def _review(result: Result) -> Review:
    assert isinstance(result, ReviewResult)  # the result of a review request
    return Review(
        status=result.status,
        text=result.content,
        findings=result.findings,
        failed=[failure.to_json() for failure in result.failed],
        left_out=result.left_out,
        continuation_id=result.continuation.id,
        job_id=result.job_id,
        cost_usd=result.metadata.cost_usd,
        usage=result.metadata.usage,
        result=result.to_json(),
    )


def _typed(result: Result) -> Answer | Consensus | Review:
    if isinstance(result, ReviewResult):
        return _review(result)
    return _answer(result) if isinstance(result, ChatResult) else _consensus(result)


def _job(status: JobStatus) -> Job:
    result = _typed(status.result) if status.result else None
    usage = result.usage if result else _usage_of(status.error)
    return Job(
        id=status.job_id,
        continuation_id=status.id,
        status=status.status,
        tool=status.tool,
        models=status.models,
        completed=status.completed,
        total=status.total,
        started_at=datetime.fromisoformat(status.started_at),
        finished_at=datetime.fromisoformat(status.completed_at) if status.completed_at else None,
        elapsed_seconds=status.elapsed_seconds,
        title=status.title,
        summary=status.summary,
        text=result.text if result else status.partial,
        result=result,
        error=status.error,
        usage=usage,
        cost_usd=result.cost_usd if result else usage.cost_usd if usage else None,
        members=status.models_status or (),
        waiting_for=status.waiting_for,
        history=status.history or (),
        document=status.content,
    )


def _usage_of(error: CounselError | None) -> Usage | None:
    return usage_from_json(error.usage, error.cost_usd) if error and error.usage else None
