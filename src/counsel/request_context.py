"""The request that the current work belongs to: its id, for logs, and its trace.

It follows the work through asyncio tasks by itself, and is stored with a job for a server that continues the job.
"""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

from counsel.lazy_dataclass import dataclass

_SANE = re.compile(r"[A-Za-z0-9._:-]{1,128}").fullmatch
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}").fullmatch


@dataclass(frozen=True, slots=True)
class RequestContext:
    id: str = ""
    traceparent: str = ""  # the span that caused the work, in W3C's format; "": there is none

    @property
    def trace(self) -> str:
        """The trace's id."""
        return self.traceparent[3:35]


NONE = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("counsel_request", default=NONE)


def current() -> RequestContext:
    return _current.get()


def enter(context: RequestContext) -> None:
    """Set the context for the rest of this task and for the tasks that it starts."""
    _current.set(context)


def request_id(header: str) -> str:
    """The client's own id if it is short and plain, else a new one."""
    return header if _SANE(header) else secrets.token_hex(16)


def traceparent(header: str) -> str:
    """The client's trace, if its header is well formed."""
    return header if _TRACEPARENT(header) else ""
