"""Files and images of a page, which has no paths: stored privately, sent with the question that names them."""

from __future__ import annotations

import base64
import io
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counsel.engine.context import uploads
from fake import FakeAPI
from support.api_client import Api, in_process


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(
        tmp_path, fake_api, COUNSEL_MAX_PDF_BYTES="2000000", COUNSEL_MAX_IMAGE_BYTES="2000000"
    ) as client:
        yield client


async def upload(api: Api, name: str, data: bytes) -> tuple[int, Any]:
    async with api.session.post("/api/files", params={"name": name}, data=io.BytesIO(data)) as answer:
        return answer.status, await answer.json()


async def ask(api: Api, **more: Any) -> tuple[int, Any]:
    return await api.post("/api/jobs", {"prompt": "read", "model": "gpt-5", **more})


async def test_an_uploaded_file_is_private_and_sent_with_its_question(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    status, reply = await upload(api, "notes.md", b"the word is seven\nand eight\n")
    assert (status, reply["size"]) == (200, 28)
    path = Path(reply["path"])
    assert (path.name, path.parents[1]) == ("notes.md", tmp_path / "counsel" / "uploads")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    body = {"prompt": "read", "model": "gpt-5", "files": [reply["path"]], "mode": "background"}
    status, job = await api.post("/api/jobs", body)
    assert status == 202
    await api.end(job["job_id"])
    assert "the word is seven" in str(fake_api.calls[0].body)
    assert 'path="notes.md"' in str(fake_api.calls[0].body)
    assert str(tmp_path / "counsel") not in str(fake_api.calls[0].body)  # where it is stored
    await ask(api, files=[f"{path}{{2:2}}"])
    assert "and eight" in str(fake_api.calls[1].body)
    assert "seven" not in str(fake_api.calls[1].body)


async def test_only_the_caller_that_names_it_over_http_can_send_an_upload(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    _, reply = await upload(api, "notes.md", b"text")
    info = {"name": "test", "version": "1"}
    await api.mcp("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
    over_mcp = await api.ask("read", files=[reply["path"]])
    assert over_mcp["code"] == "FILE_NOT_ALLOWED"
    for name in ("counsel.db", "uploads", "uploads/../counsel.db", "token"):
        status, failure = await ask(api, files=[str(tmp_path / "counsel" / name)])
        assert status in {400, 403, 404}, name
    own = Path(reply["path"]).parent
    status, failure = await ask(api, files=[f"{own}/../../counsel.db"])
    assert (status, failure["code"]) == (403, "FILE_NOT_ALLOWED")
    (own / "link").symlink_to(tmp_path / "counsel" / "counsel.db")
    status, failure = await ask(api, files=[str(own / "link")])
    assert (status, failure["code"]) == (403, "FILE_NOT_ALLOWED")
    _, secret = await upload(api, ".env", b"KEY=1")
    assert (await ask(api, files=[secret["path"]]))[0] == 403
    assert fake_api.calls == []


@pytest.mark.parametrize(
    ("name", "safe_name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\\\notes\\\\a.txt", "a.txt"),
        ("a{1:2}.md", "a_1:2_.md"),
        ("..", "file"),
        (" ", "file"),
        ("ä" * 300 + ".pdf", "ä" * 98 + ".pdf"),
    ],
)
def test_an_uploads_name_is_reduced_to_a_safe_file_name(name: str, safe_name: str) -> None:
    assert uploads.safe_name(name) == safe_name


async def test_uploads_are_bounded_in_size_and_number_and_deleted_after_a_day(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, failure = await upload(api, "large.pdf", b"x" * 2_000_001)
    assert (status, failure["code"]) == (413, "FILE_TOO_LARGE")
    async with api.session.post("/api/files", data=b"x") as answer:
        assert answer.status == 400
    folder = tmp_path / "counsel" / "uploads"
    assert list(folder.iterdir()) == []
    old = [Path((await upload(api, "a.md", b"x"))[1]["path"]).parent for _ in range(4)]
    for number, path in enumerate(old):
        os.utime(path, (time.time() - 100 + number,) * 2)
    os.utime(old[3], (time.time() - uploads.KEEP - 5,) * 2)
    monkeypatch.setattr(uploads, "MOST_FILES", 2)
    uploads.sweep(tmp_path / "counsel")
    assert sorted(folder.iterdir()) == sorted(old[1:3])
    monkeypatch.setattr(uploads, "MOST_BYTES", 1)
    uploads.sweep(tmp_path / "counsel")
    assert list(folder.iterdir()) == [old[2]]


# ── images ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["data URL", "uploaded"])
async def test_a_pasted_image_reaches_the_model_and_stays_in_the_history(
    api: Api, fake_api: FakeAPI, way: str
) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(buffer, "PNG")
    data = buffer.getvalue()
    text = base64.b64encode(data).decode()
    if way == "uploaded":
        name = (await upload(api, "paste.png", data))[1]["path"]
    else:
        name = f"data:image/png;base64,{text}"
    status, job = await ask(api, images=[name], mode="background")
    assert status == 202
    await api.end(job["job_id"])
    assert text in str(fake_api.calls[0].body)
    _, conversation = await api.get(f"/api/conversations/{job['id']}")
    (image,) = conversation["history"][0]["image_ids"]
    async with api.session.get(f"/api/images/{image}") as answer:
        assert (answer.status, await answer.read()) == (200, data)
