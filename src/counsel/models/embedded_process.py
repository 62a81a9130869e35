"""The embedded model of a server: downloaded and started on request, in a process of its own (`embedded_worker.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from counsel import untrusted
from counsel.errors import CounselError, ProviderUnavailable, from_dict
from counsel.models import embedded
from counsel.types import Json

State: TypeAlias = Literal["absent", "installing", "ready", "failed"]
MODEL = "smollm2"
SIZE = embedded.MEGABYTES * 1_000_000  # bytes to download
_LONGEST_REPORT = 64 * 1024
_UNPACKED = {"unpacked", "model"}  # folders with unpacked copies of downloaded files, which are not counted


class EmbeddedModel:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._task: asyncio.Task[None] | None = None
        self._environment: dict[str, str] = {}
        self._error: CounselError | None = None
        self._received = 0  # bytes of the download
        self._settled = asyncio.Event()  # the model answers requests, or has failed

    @property
    def is_present(self) -> bool:
        """Whether it was downloaded. It is started for the first question."""
        return self._folder.is_dir()

    @cached_property
    def _folder(self) -> Path:
        return embedded.folder(self._home)

    def status(self) -> Json:
        state = self._state()
        installing = state == "installing"
        return {
            "state": state,
            "progress": self._progress() if installing else 1.0 if state == "ready" else None,
            "size_bytes": SIZE,
            "error": self._error.as_dict() if self._error and state == "failed" else None,
            "model": MODEL,
        }

    def _state(self) -> State:
        if self._environment:
            return "ready"
        if self._task and not self._task.done():
            return "installing"
        if self._error:
            return "failed"
        return "ready" if self.is_present else "absent"

    def _progress(self) -> float | None:
        """The downloaded share, from 0 to 1; None before the first byte, and where the installer does not show it."""
        if self.is_present:
            return 1.0
        size = sum(map(_size, self._folder.parent.glob(".fetch-*")))
        self._received = max(self._received, size)  # the installer moves files and deletes its copies
        return round(min(1.0, self._received / SIZE), 3) if self._received else None

    def start(self) -> None:
        """Download it unless it is present, then serve it. Does nothing while it runs; tries again after a failure."""
        if self._task is None or self._task.done():
            self._error, self._received = None, 0
            self._settled.clear()
            self._task = asyncio.ensure_future(self._run())

    async def environment(self) -> Mapping[str, str]:
        """The variables with which callers reach it; starts it if necessary. Raises if it cannot be started."""
        if not self._environment:
            self.start()
            await self._settled.wait()
        if not self._environment:
            raise self._error.copy() if self._error else _process_ended()
        return dict(self._environment)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        try:
            await self._serve()
        except OSError as error:
            self._error = ProviderUnavailable(
                f"The embedded model could not be started: {error.strerror}.", provider="local"
            )
        finally:
            self._environment = {}
            self._settled.set()

    async def _serve(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "counsel.models.embedded_worker", str(self._home)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=untrusted.env_in_folder(os.environ, "/"),
            cwd="/",
            start_new_session=True,
            limit=_LONGEST_REPORT,
        )
        try:
            if process.stdout:  # it is a pipe
                self._read_report(await process.stdout.readline())
            if self._environment:
                self._settled.set()
            await process.wait()
            self._error = self._error or _process_ended()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # the installer, too
                await process.wait()

    def _read_report(self, line: bytes) -> None:
        try:
            report = json.loads(line)
        except ValueError:
            self._error = _process_ended()
            return
        self._environment = report.get("environment", {})
        self._error = from_dict(report["error"]) if "error" in report else None


def _process_ended() -> ProviderUnavailable:
    return ProviderUnavailable(
        "The embedded model's process has ended.", hint="Ask again to restart it.", provider="local"
    )


def _size(folder: Path) -> int:
    size = 0
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _UNPACKED]
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - `os.walk` yields strings
    return size
