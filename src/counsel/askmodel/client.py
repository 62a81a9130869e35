"""A client of a session's askModel socket. Standard library only: copy it or import it.

    client = AskClient(path)                       # the `socket` that `counsel ask-service` printed
    answer = client.ask("codex", "Is this lock needed?", session_tag="review", on_partial=print)

Thread-safe: each request has its own connection. While a service restarts, the client tries again with growing pauses.
If a connection breaks, the client sends its request again, since the service has cancelled the first one.
"""

from __future__ import annotations

import json
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from counsel.lazy_dataclass import dataclass

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Answer:
    text: str
    session_tag: str | None = None
    continuation_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class AskError(Exception):
    """A failure. `code` is one of counsel's error codes, `details` contains its other fields."""

    def __init__(
        self, message: str, code: str = "INTERNAL", details: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


class AskClient:
    """Asks one service. `timeout`: seconds for a request with all attempts; `patience`: for a missing service."""

    def __init__(
        self, path: str, *, timeout: float = 600.0, patience: float = 10.0, attempts: int = 3
    ) -> None:
        self.path = path
        self.timeout = timeout
        self.patience = patience
        self.attempts = attempts

    def ask(
        self,
        model: str,
        prompt: str,
        *,
        session_tag: str | None = None,
        on_partial: Callable[[str, int], None] | None = None,
        on_restart: Callable[[dict[str, Any]], None] | None = None,
    ) -> Answer:
        """Return the answer or raise `AskError`.

        `on_partial` gets each piece with its offset; earlier text after that offset is discarded. When text is
        discarded, `on_restart` gets the reason and the model that answers now, then `on_partial` an empty piece.
        """
        request = {
            "requestId": f"askmodel_{uuid.uuid4().hex}",
            "model": model,
            "prompt": prompt,
            "sessionTag": session_tag,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "stream": on_partial is not None,
        }
        deadline = time.monotonic() + self.timeout
        for attempt in range(1, self.attempts + 1):
            try:
                return self._try(request, deadline, on_partial, on_restart)
            except TimeoutError:
                raise AskError(f"No answer within {self.timeout:g} s.", "TIMEOUT") from None
            except OSError as error:
                if attempt == self.attempts:
                    message = f"The askModel service at {self.path} cannot be reached: {error}."
                    raise AskError(message, "PROVIDER_UNAVAILABLE") from error
        raise AssertionError("attempts must be at least 1")

    def _try(
        self,
        request: dict[str, Any],
        deadline: float,
        on_partial: Callable[[str, int], None] | None,
        on_restart: Callable[[dict[str, Any]], None] | None,
    ) -> Answer:
        with self._connect(deadline) as connection:
            connection.settimeout(_remaining(deadline))
            connection.sendall(json.dumps(request).encode() + b"\n")
            for line in _lines(connection, deadline):
                if line.get("requestId") != request["requestId"]:
                    if line.get("requestId") is None and line.get("error"):  # our line was not parsed
                        raise AskError(line["error"], line.get("code", "INTERNAL"), line.get("details"))
                elif "partial" in line:
                    if on_restart is not None and "restarted" in line:
                        on_restart(line["restarted"])
                    if on_partial is not None:
                        on_partial(line["partial"], line.get("offset", 0))
                elif line.get("error") is not None:
                    raise AskError(line["error"], line.get("code", "INTERNAL"), line.get("details"))
                else:
                    return Answer(
                        line["text"],
                        line.get("sessionTag"),
                        line.get("continuationId"),
                        line.get("metadata") or {},
                    )
        raise ConnectionResetError("it disconnected before it answered")

    def _connect(self, deadline: float) -> socket.socket:
        pause, give_up_at = _FIRST_PAUSE, min(deadline, time.monotonic() + self.patience)
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self.path)
            except OSError:
                connection.close()
                if time.monotonic() + pause > give_up_at:
                    raise
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that many clients do not retry at once
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return connection


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _lines(connection: socket.socket, deadline: float) -> Iterator[dict[str, Any]]:
    buffer = bytearray()
    while True:
        connection.settimeout(_remaining(deadline))
        data = connection.recv(_CHUNK)
        if not data:
            return
        buffer += data
        if b"\n" in data:
            *lines, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            yield from (json.loads(line) for line in lines if line.strip())
