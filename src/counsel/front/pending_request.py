"""A request that waits for the daemon's answer, the failure to report when none comes, and its progress numbers."""

from __future__ import annotations

import time

from counsel import pending_calls, random_ids
from counsel.front.json_messages import encode
from counsel.front.protocol import INTERNAL_ERROR, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from counsel.front.protocol import ProtocolState
    from counsel.types import Json


def as_line(message: Mapping[str, object]) -> bytes:
    return encode(message)[:-1]


class PendingRequest:
    __slots__ = ("abandoned", "began", "cancelled", "job", "key", "line", "noted", "request_id", "was_sent")

    def __init__(self, request_id: object, line: bytes) -> None:
        self.request_id = request_id  # for a batch, the list of its ids
        self.line = line
        self.key = random_ids.key()
        self.began = time.monotonic()
        self.job = ""
        self.was_sent = False  # a daemon may have started it
        self.noted = False  # a note (`pending_calls`) lets its job continue without us
        self.abandoned = False  # the client's own time limit has passed: the job continues
        self.cancelled = b""  # the client's notification; the next daemon gets it when it has found the job

    def to_send(self) -> bytes:
        new, self.was_sent = b"" if self.was_sent else b',"new":true', True
        seconds = b"%.1f" % (time.monotonic() - self.began)  # the client's clock runs while a daemon starts
        return b'@{"key":"%s","waited":%s%s}\n%s\n' % (self.key.encode(), seconds, new, self.line)

    @property
    def is_call(self) -> bool:
        return b'"tools/call"' in self.line

    def jobs(self) -> list[str]:
        """The ids of the jobs that a daemon may have started for this request."""
        if not self.is_call or not self.was_sent:
            return []
        if not isinstance(self.request_id, list):
            return [pending_calls.job_id(self.key)]
        return [pending_calls.job_id(f"{self.key}.{index}") for index in range(len(self.request_id))]

    def failures(self, reason: str, state: ProtocolState) -> list[dict[str, object]]:
        """The responses when no daemon answers: one, or one for each request of a batch."""
        message = f"counsel's daemon cannot be reached: {reason}."
        ids = self.request_id if isinstance(self.request_id, list) else [self.request_id]
        if not self.is_call:
            return [RpcError(INTERNAL_ERROR, message).response(request_id) for request_id in ids]
        jobs = self.jobs() or [""] * len(ids)
        if self.job and len(ids) == 1:
            jobs = [self.job]
        results = [state.stamped("tools/call", self._failed_call(message, job)) for job in jobs]
        return [
            {"jsonrpc": "2.0", "id": request_id, "result": result}
            for request_id, result in zip(ids, results, strict=True)
        ]

    def _failed_call(self, message: str, job: str) -> dict[str, object]:
        failure = {"error": message, "code": "INTERNAL", "hint": self._hint(job)}
        if job:
            failure["job_id"] = job
        text = f"INTERNAL: {message} {failure['hint']}"
        return {"content": [{"type": "text", "text": text}], "structuredContent": failure, "isError": True}

    def _hint(self, job: str) -> str:
        if not job:
            return "Nothing was asked. Run `counsel doctor`, then ask again."
        status = f"check_status with continuation_id {job}"
        if not self.noted:
            return f"The call was interrupted; {status} shows whether it continues."
        if self.job:
            return f"The job is kept and continues as soon as a daemon runs: {status}."
        return f"If the job had started, it continues as soon as a daemon runs: {status}."


class Progress:
    """The progress numbers of one call. They must grow, although each daemon counts from zero."""

    __slots__ = ("last", "offset")

    def __init__(self) -> None:
        self.offset: float = 0
        self.last: float = 0

    def adjusted(self, line: bytes, message: Json) -> bytes:
        self.last = message["params"]["progress"] = self.offset + message["params"]["progress"]
        return as_line(message) if self.offset else line

    def restart(self) -> None:
        """The next numbers come from another daemon."""
        self.offset = self.last
