"""`RemoteEngine` when its daemon dies or does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.daemon import rpc_client
from counsel.daemon.files import DaemonFiles, bind
from counsel.daemon.rpc_client import RemoteEngine
from counsel.daemon.server import DaemonServer
from counsel.errors import Internal, InvalidArgument
from counsel.requests import ChatRequest
from support.fake_engine import FakeEngine


async def test_a_job_whose_daemon_does_not_answer_is_named_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path
    files = DaemonFiles(home)
    files.take()
    daemon = DaemonServer(FakeEngine(), files)
    await daemon.listen()
    remote = RemoteEngine({"COUNSEL_HOME": str(home)})
    job = await remote.submit(ChatRequest(prompt="hang"), Caller("test", cwd=home))
    waiting = asyncio.ensure_future(remote.wait(job))
    await remote.recent()  # on the same connection: the daemon has the other request, too
    monkeypatch.setattr(rpc_client, "START_TIMEOUT", 0.2)
    silent, _ = bind(files.socket)  # accepts connections and never answers
    await daemon.close()
    with silent, pytest.raises(Internal, match="cannot be reached") as excinfo:
        await asyncio.wait_for(waiting, 30)
    assert job in str(excinfo.value.hint)
    assert "continues as soon as a daemon runs" in str(excinfo.value.hint)
    assert (home / "run" / "kept" / job).exists()
    await remote.close()
    files.release()


async def test_a_daemon_that_stops_leaves_the_jobs_of_waiting_programs_to_the_next(tmp_path: Path) -> None:
    files = DaemonFiles(tmp_path)
    files.take()
    engine = FakeEngine()
    daemon = DaemonServer(engine, files)
    await daemon.listen()
    remote = RemoteEngine({"COUNSEL_HOME": str(tmp_path)})
    job = await remote.submit(ChatRequest(prompt="hang"), Caller("test", cwd=tmp_path))
    await daemon.close()
    for _ in range(20):  # the connection is lost in the loop's next turns
        await asyncio.sleep(0)
    assert engine.jobs[job].status == "processing"
    await remote.close()
    files.release()


async def test_a_number_that_json_lacks_is_refused_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    files = DaemonFiles(tmp_path)
    files.take()
    daemon = DaemonServer(FakeEngine(), files)
    await daemon.listen()
    remote = RemoteEngine({"COUNSEL_HOME": str(tmp_path)})
    try:
        request = ChatRequest(prompt="?", max_cost_usd=float("nan"))
        with pytest.raises(InvalidArgument, match="NaN"):
            await asyncio.wait_for(remote.submit(request, Caller("test", cwd=tmp_path)), 30)
    finally:
        await remote.close()
        await daemon.close()
        files.release()
