"""The embedded model of a server, with a program in place of its worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import NotFound, ProviderUnavailable
from counsel.models import embedded, embedded_process
from counsel.models.embedded_process import EmbeddedModel

ENVIRONMENT = {"LOCAL_BASE_URL": "http://127.0.0.1:1/v1"}


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the worker by a shell script with these lines."""

    def replace(*lines: str) -> None:
        script = tmp_path / "worker"
        script.write_text("\n".join(("#!/bin/sh", f'echo "$@" > {tmp_path}/arguments', *lines)))
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return replace


@pytest.fixture
async def model(tmp_path: Path) -> Any:
    instance = EmbeddedModel(tmp_path / "home")
    yield instance
    await asyncio.wait_for(instance.close(), 60)


def echo_document(document: object) -> str:
    return f"echo '{json.dumps(document)}'"


async def test_it_is_absent_until_someone_asks(model: EmbeddedModel) -> None:
    assert model.status() == {
        "state": "absent",
        "progress": None,
        "size_bytes": 127_000_000,
        "error": None,
        "model": "smollm2",
    }
    embedded.folder(model._home).mkdir(parents=True)
    assert model.is_present
    assert (model.status()["state"], model.status()["progress"]) == ("ready", 1.0)


async def test_its_environment_is_what_the_worker_reports(
    model: EmbeddedModel, worker: Any, tmp_path: Path
) -> None:
    worker(echo_document({"environment": ENVIRONMENT}), "read end")
    assert await asyncio.wait_for(model.environment(), 60) == ENVIRONMENT
    assert await model.environment() == ENVIRONMENT, "it is started once"
    assert (model.status()["state"], model.status()["progress"], model.status()["error"]) == (
        "ready",
        1.0,
        None,
    )
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments == ["-P", "-m", "counsel.models.embedded_worker", str(tmp_path / "home")]
    await asyncio.wait_for(model.close(), 60)
    assert model.status()["state"] != "ready"


async def test_closing_ends_the_worker_and_what_it_started(
    model: EmbeddedModel, worker: Any, tmp_path: Path
) -> None:
    worker(f"sleep 600 & echo $! > {tmp_path}/child", echo_document({"environment": ENVIRONMENT}), "wait")
    await asyncio.wait_for(model.environment(), 60)
    child = int((tmp_path / "child").read_text())
    await asyncio.wait_for(model.close(), 60)
    for _ in range(3000):
        if not is_running(child):
            break
        await asyncio.sleep(0.01)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_its_failure_is_reported_and_the_next_question_tries_again(
    model: EmbeddedModel, worker: Any
) -> None:
    worker(echo_document({"error": NotFound("no such", hint="look").as_dict()}))
    with pytest.raises(NotFound, match="no such"):
        await asyncio.wait_for(model.environment(), 60)
    await wait_while(model)
    status = model.status()
    assert (status["state"], status["progress"], status["error"]["error"]) == ("failed", None, "no such")
    worker(echo_document({"environment": ENVIRONMENT}), "read end")
    assert await asyncio.wait_for(model.environment(), 60) == ENVIRONMENT
    assert model.status()["error"] is None


async def wait_while(model: EmbeddedModel, state: str = "installing") -> None:
    async with asyncio.timeout(60):
        while model.status()["state"] == state:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("lines", [("exit 3",), ("echo this is no report",)])
async def test_a_worker_that_reports_nothing_has_ended(
    model: EmbeddedModel, worker: Any, lines: tuple[str, ...]
) -> None:
    worker(*lines)
    with pytest.raises(ProviderUnavailable, match="process has ended") as excinfo:
        await asyncio.wait_for(model.environment(), 60)
    assert excinfo.value.fields["provider"] == "local"


async def test_a_worker_that_ends_later_is_started_again(
    model: EmbeddedModel, worker: Any, tmp_path: Path
) -> None:
    worker(f"echo $$ > {tmp_path}/pid", echo_document({"environment": ENVIRONMENT}), "read end")
    await asyncio.wait_for(model.environment(), 60)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    await wait_while(model, "ready")
    await wait_while(model)
    assert "has ended" in model.status()["error"]["error"]
    worker(echo_document({"environment": ENVIRONMENT}), "read end")
    assert await asyncio.wait_for(model.environment(), 60) == ENVIRONMENT


async def test_a_worker_that_cannot_be_started(model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ProviderUnavailable, match="could not be started: No such file") as excinfo:
        await asyncio.wait_for(model.environment(), 60)
    assert excinfo.value.fields["provider"] == "local"


async def test_the_progress_of_the_download(
    model: EmbeddedModel, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_process, "SIZE", 1000)
    worker("read end")
    model.start()
    model.start()
    assert model.status()["state"] == "installing"
    assert model.status()["progress"] is None, "before its first byte"
    download = embedded.folder(model._home).parent / ".fetch-1"
    (download / "a").mkdir(parents=True)
    (download / "a" / "part").write_bytes(b"x" * 250)
    (download / "part").write_bytes(b"x" * 250)
    (download / "unpacked").mkdir()
    (download / "unpacked" / "again").write_bytes(b"x" * 400)
    assert model.status()["progress"] == 0.5, "unpacked files were counted already, as downloads"
    (download / "part").unlink()
    assert model.status()["progress"] == 0.5, "the installer deletes its copies"
    (download / "part").write_bytes(b"x" * 5000)
    assert model.status()["progress"] == 1.0
    embedded.folder(model._home).mkdir(parents=True)
    assert model.status()["progress"] == 1.0
