"""A job as the process that owns it runs it."""

from __future__ import annotations

from counsel.caller import Caller
from counsel.engine.store.model import Task
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status

TOOLS = frozenset({"chat", "askModel", "consensus"})  # kinds of jobs that this release can run


@dataclass(slots=True)
class Job:
    """A task on its way, as its owner holds it."""

    id: str
    conversation: str
    task: Task
    caller: Caller
    background: bool
    created: float
    key: str | None = None
    attempt: int = 1
    continues: bool = True  # the conversation may hold turns
    status: Status = "processing"

    @property
    def tool(self) -> str:
        return self.task.tool
