"""counsel from Python without `await`: for scripts and notebooks.

with Counsel() as c:
    print(c.ask("Is this lock needed?", model="gpt-5", files=["src/app.py"]).text)
    for event in c.stream("Explain the event loop", model="flash"):
        if isinstance(event, TextAdded):
            print(event.text, end="")

The engine runs on an event loop in a thread of its own, so it also works where a loop already runs, as in Jupyter.
Several threads may use one `Counsel`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from counsel import api
from counsel.api import Answer, Consensus, Job, Options, Review, ReviewOptions
from counsel.errors import CounselError
from counsel.job_events import JobEvent
from counsel.requests import Member, Order, Refine
from counsel.results import Cancellation
from counsel.types import Usage

if TYPE_CHECKING:
    from counsel.engine.history.documents import BudgetReport

__all__ = ["Answer", "Consensus", "Counsel", "CounselError", "Job", "Review", "Usage"]
T = TypeVar("T")


class Counsel:
    """The same as `counsel.Counsel`, blocking. Close it, or use it in a `with` statement."""

    def __init__(
        self, *, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._client = api.Counsel(env=env, cwd=cwd)
        self._thread: _LoopThread | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything that runs here, and the thread. The next question starts another thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def ask(self, prompt: str, *, model: str = "auto", **options: Unpack[Options]) -> Answer:
        """One model's answer. Raises a `CounselError`; Ctrl-C stops the call upstream."""
        return self._run(self._client.ask(prompt, model=model, **options))

    def stream(
        self, prompt: str, *, model: str = "auto", **options: Unpack[Options]
    ) -> Generator[JobEvent, None, None]:
        """The job's events as they come; the last is `done`, and a failure is raised after the events.

        Leaving the loop early stops the call upstream, as soon as the generator is closed or collected.
        """
        thread, events = self._running(), self._client.stream(prompt, model=model, **options)
        try:
            while (event := thread.run(_next(events))) is not None:
                yield event
        finally:
            thread.end(events.aclose())

    def consensus(
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
        return self._run(
            self._client.consensus(
                prompt,
                models=models,
                cross_feedback=cross_feedback,
                cross_feedback_prompt=cross_feedback_prompt,
                judge=judge,
                choices=choices,
                refine=refine,
                rounds=rounds,
                order=order,
                **options,
            )
        )

    def review(
        self,
        diff: str | None = None,
        *,
        base: str | None = None,
        staged: bool = False,
        models: Sequence[str | Member] = ("auto",),
        focus: str | None = None,
        **options: Unpack[ReviewOptions],
    ) -> Review:
        """Let several models review a change; each finding is checked by a model that did not make it."""
        return self._run(
            self._client.review(diff, base=base, staged=staged, models=models, focus=focus, **options)
        )

    def submit(self, prompt: str, *, model: str = "auto", **options: Unpack[Options]) -> str:
        """Start a background job; returns its id for `wait`, `status` and `cancel`."""
        return self._run(self._client.submit(prompt, model=model, **options))

    def wait(self, job_id: str) -> Answer | Consensus | Review:
        """Wait for the job's result; a failed job raises its error."""
        return self._run(self._client.wait(job_id))

    def status(self, any_id: str, *, full_history: bool = False) -> Job:
        """The current state of a job, by its id or its conversation's."""
        return self._run(self._client.status(any_id, full_history=full_history))

    def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop a job and its calls upstream, or only one model of a consensus (name or slot); returns the outcome."""
        return self._run(self._client.cancel(any_id, member))

    def budgets(self) -> list[BudgetReport]:
        """What is left of each daily and monthly budget, as `counsel usage --json` shows it."""
        return self._run(self._client.budgets())

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._running().run(work)

    def _running(self) -> _LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = _LoopThread(self._client)
                weakref.finalize(self, self._thread.close)
            return self._thread


async def _next(events: AsyncGenerator[JobEvent]) -> JobEvent | None:
    return await anext(events, None)


class _LoopThread:
    """An event loop in a thread. Also closed when its `Counsel` is collected, or the interpreter exits."""

    def __init__(self, client: api.Counsel) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._closed = False
        # A daemon thread: otherwise an interpreter whose program did not close it would wait for it forever.
        self._thread = threading.Thread(target=self._serve, name="counsel-sync", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # also Ctrl-C: stop the call upstream
            future.cancel()
            raise

    def end(self, work: Coroutine[object, object, None]) -> None:
        """Run a generator's last step. It may be collected anywhere, even in this thread or after `close`."""
        if self._closed:
            work.close()
        elif threading.current_thread() is self._thread:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        else:
            self.run(work)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        closing = asyncio.run_coroutine_threadsafe(self._client.close(), self._loop)
        closing.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        if threading.current_thread() is not self._thread:  # `Counsel` may be collected in this thread
            self._thread.join()
            closing.result()
