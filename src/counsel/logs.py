"""Logs on stderr and in COUNSEL_HOME/logs: without keys, and without content unless COUNSEL_LOG_CONTENT is set.

A module has `log = logging.getLogger("counsel.<package>")` and logs prompts and answers through `content`. Redaction is
only the last line of defence: do not log secrets.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from counsel import paths, request_context
from counsel.redaction import protect, redact
from counsel.settings import Settings

FILE = "counsel.log"
MAX_BYTES = 5 * 1024 * 1024
BACKUPS = 3
CHECK_SECONDS = 1.0  # between checks whether the file was rotated; a check costs as much as writing a line

_MAX_WARNED = 1_000

log = logging.getLogger("counsel.logs")
_warned: set[str] = set()


def setup(settings: Settings, *, stderr: bool) -> None:
    """Send all records to stderr (if requested) and to the log file. A second call replaces earlier handlers."""
    protect(settings)
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler.formatter, _RedactingFormatter)]:
        root.removeHandler(old)
        old.close()
    # counsel's lines show none of these, nor the source line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - as the library's documentation advises
    level = settings.log_level.upper()
    logging.getLogger("counsel").setLevel(level)
    if stderr:
        _add(root, _Stderr(), settings)
    if not settings.home.is_absolute():
        return
    try:
        _add(root, _PrivateFile(settings.home / "logs" / FILE), settings)
    except OSError as error:  # a read-only disk never prevents a start
        log.warning("no log file: %s: %s", settings.home / "logs", error.strerror)


def announce(settings: Settings, text: str) -> None:
    """Tell people that a server starts or stops: on stderr, or as a record if every line must be JSON."""
    if settings.log_format == "json":
        logging.getLogger("counsel.serve").info("%s", text)
    else:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def leave_file() -> None:
    """Stop writing to COUNSEL_HOME, which another process uses now."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _PrivateFile)]:
        root.removeHandler(handler)
        handler.close()


def warn_once(problems: Iterable[str]) -> None:
    """Log each problem in the user's files once: with counsel as a server, the user sees no other sign of it."""
    for problem in problems:
        if problem not in _warned and len(_warned) < _MAX_WARNED:
            _warned.add(problem)
            log.warning("%s", problem)


def content(text: str, settings: Settings) -> str:
    """The text of a prompt or an answer for the log: only its length, unless COUNSEL_LOG_CONTENT is set."""
    return text if settings.log_content else f"({len(text)} characters)"


def _add(root: logging.Logger, handler: logging.Handler, settings: Settings) -> None:
    form = _JsonFormatter if settings.log_format == "json" else _RedactingFormatter
    handler.setFormatter(form(with_content=settings.log_content))
    handler.addFilter(_ours_or_warning)
    root.addHandler(handler)


def _ours_or_warning(record: logging.LogRecord) -> bool:
    """Whether to log a record: of libraries only warnings and errors; at lower levels they log whole requests."""
    return _is_ours(record) or record.levelno >= logging.WARNING


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == "counsel" or record.name.startswith("counsel.")


# ── formatter and handlers ─────────────────────────────────────────────────────────────────────────────────

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class _RedactingFormatter(logging.Formatter):
    """Redacts secrets, and indents all lines of a record but the first: a client's name cannot forge a record."""

    def __init__(self, *, with_content: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self.with_content = with_content
        self._second = 0, ""

    def format(self, record: logging.LogRecord) -> str:
        text = redact(
            super().format(record) if self.with_content or _is_ours(record) else self._brief(record)
        )
        return text if text.isprintable() else text.translate(_CONTROLS).replace("\n", "\n    ")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002 - logging passes it
        """Like the library's, but computed once per second."""
        second = int(record.created)
        if second != self._second[0]:
            self._second = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._second[1]},{int(record.msecs):03d}"

    def _brief(self, record: logging.LogRecord) -> str:
        """Only the first line and the type of the error: a library's message may quote a request."""
        first = record.getMessage().partition("\n")[0][:200]
        kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
        record.message = f"{first} ({kind.__name__})" if kind else first
        record.asctime = self.formatTime(record)
        return self.formatMessage(record)


class _JsonFormatter(_RedactingFormatter):
    """Writes a record as one line of JSON, with the request that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        is_complete = self.with_content or _is_ours(record)
        if is_complete:
            record.message = record.getMessage()
        else:
            self._brief(record)
        context = request_context.current()
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.message),
            "request_id": context.id,
            "trace_id": context.trace,
            "span_id": context.traceparent[36:52],
            **getattr(record, "fields", {}),
        }
        if is_complete and record.exc_info:
            fields["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps({name: value for name, value in fields.items() if value != ""}, ensure_ascii=True)


class _Quiet:
    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a full disk or a closed stream: the default handler would print the record without redacting it."""


class _Stderr(_Quiet, logging.StreamHandler[TextIO]):
    def __init__(self) -> None:
        super().__init__(sys.stderr)


class _PrivateFile(_Quiet, RotatingFileHandler):
    """A rotating file that only its owner can read. Several processes share it; each notices if another rotated it."""

    def __init__(self, path: Path) -> None:
        paths.private_folder(path.parent)
        self._size = 0
        self._check_at = 0.0
        super().__init__(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="backslashreplace"
        )

    def _open(self) -> TextIOWrapper:
        fd = os.open(
            self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        os.fchmod(fd, 0o600)
        return open(fd, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123 — a descriptor

    def emit(self, record: logging.LogRecord) -> None:
        if (now := time.monotonic()) >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            if self._was_rotated():
                with contextlib.suppress(OSError):
                    self._reopen()
        super().emit(record)

    def doRollover(self) -> None:
        super().doRollover()
        self._size = 0

    def shouldRollover(self, record: logging.LogRecord) -> int:  # noqa: ARG002 - logging passes it
        """Compare the size. The library formats the record a second time, which costs more than the rest of a line."""
        return self._size >= self.maxBytes

    def _was_rotated(self) -> bool:
        try:
            current = os.stat(self.baseFilename)  # noqa: PTH116 - for every line
            ours = os.fstat(self.stream.fileno() if self.stream else -1)
        except (OSError, ValueError):  # deleted, closed or never opened
            self._size = 0
            return True
        is_rotated = (current.st_dev, current.st_ino) != (ours.st_dev, ours.st_ino)
        self._size = 0 if is_rotated else ours.st_size
        return is_rotated

    def _reopen(self) -> None:
        before, self.stream = self.stream, self._open()  # if it cannot be opened, keep the old one
        if before:
            before.close()
