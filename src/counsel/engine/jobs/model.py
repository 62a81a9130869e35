"""A job in the process that owns and runs it."""

from __future__ import annotations

import asyncio
from dataclasses import field

from counsel import request_context
from counsel.caller import Caller
from counsel.engine.store.model import Task
from counsel.lazy_dataclass import dataclass
from counsel.request_context import RequestContext
from counsel.requests import Status

# kinds of jobs that this release can run
TOOLS = frozenset({"chat", "askModel", "consensus", "completion", "review"})


@dataclass(slots=True)
class Members:
    """The models of a consensus, by slot: each can be stopped while the others continue."""

    cancelled: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # of members cancelled in an earlier attempt
    tasks: dict[str, asyncio.Task[object]] = field(default_factory=dict)  # of the current round

    def stop(self, slot: str) -> None:
        if slot not in self.cancelled:
            self.cancelled.add(slot)
            if task := self.tasks.get(slot):
                task.cancel()


@dataclass(slots=True)
class Job:
    """A task in progress, in the process that owns it."""

    id: str
    conversation: str
    task: Task
    caller: Caller
    background: bool
    created: float
    key: str | None = None
    attempt: int = 1
    continues: bool = True  # the conversation may have turns
    status: Status = "processing"
    members: Members = field(default_factory=Members)
    handed_over: bool = False  # another process continues it
    request: RequestContext = field(default_factory=request_context.current)  # the request that submitted it
    is_adopted: bool = False  # another process started it, or it waited in a team's queue

    @property
    def tool(self) -> str:
        return self.task.tool

    def task_without_messages(self) -> str | None:
        """The task without messages that were stored only because it waited in a queue; None: nothing to remove."""
        return self.task.dump() if self.is_adopted and not self.task.can_run_again else None
