"""A start that fails, and a connection for which there is no free descriptor."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from counsel.daemon import server
from counsel.daemon.files import DaemonFiles
from support.fake_engine import FakeEngine


def test_a_home_that_cannot_be_used_is_named_and_fails_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNSEL_HOME", "not/absolute")
    assert server.run(lambda: None) == 1
    assert capsys.readouterr().err.startswith("COUNSEL_HOME is not/absolute: it must be an absolute path")


async def test_a_daemon_that_is_asked_to_end_closes_its_engine_and_keeps_what_runs(tmp_path: Path) -> None:
    ends: list[bool] = []

    class Engine(FakeEngine):
        async def close(self, *, keep: bool = False) -> None:
            ends.append(keep)

    async def opened(home: Path) -> Engine:
        return Engine()

    files = DaemonFiles(tmp_path)
    files.take()
    await server._serve(files, lambda: os.kill(os.getpid(), signal.SIGTERM), opened)
    assert ends == [True]
    assert not Path(files.socket).exists()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_without_descriptors_a_connection_is_refused_through_the_reserved_one(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.setblocking(False)
        client.connect(str(tmp_path / "s"))
        before = descriptors()
        refusals = server.Refusals(listener)
        full = OSError(errno.EMFILE, "Too many open files")
        refusals.handle(loop, {"message": "socket.accept() out of system resource", "exception": full})
        line = client.makefile("rb").readline()
        assert "limit of open files" in json.loads(line.removeprefix(b"@"))["refused"]
        assert descriptors() == before + 1, "one is reserved again"
        refusals.close()
        assert descriptors() == before
    loop.close()
