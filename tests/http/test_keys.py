"""`/api/keys`: stored like `counsel keys` does, used at once, and shown nowhere."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support.api_client import Api, in_process

KEY = "sk-proj-" + "q7Rt" * 10


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(tmp_path, fake_api, OPENAI_API_KEY="", ANTHROPIC_BASE_URL=fake_api.url) as client:
        yield client


async def put(api: Api, provider: str, body: Any) -> tuple[int, Any]:
    async with api.session.put(f"/api/keys/{provider}", json=body) as answer:
        text = await answer.text()
        assert KEY not in text
        return answer.status, json.loads(text)


async def row(api: Api, provider: str) -> Any:
    _, rows = await api.get("/api/keys")
    (match,) = [row for row in rows if row["provider"] == provider]
    return match


async def test_a_key_is_stored_privately_used_and_removed(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    assert (await row(api, "openai"))["set"] is False
    status, reply = await put(api, "openai", {"key": f" {KEY}\n"})
    assert (status, reply["set"], reply["source"], reply["accepted"]) == (200, True, ".env", True)
    file = tmp_path / "counsel" / ".env"
    assert file.read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await row(api, "openai") == {
        "provider": "openai",
        "label": "OpenAI",
        "variable": "OPENAI_API_KEY",
        "set": True,
        "source": ".env",
        "required": True,
        "url": reply["url"],
    }
    status, reply_of_delete = await api.delete("/api/keys/openai")
    assert (status, reply_of_delete["removed"], reply_of_delete["set"]) == (200, ["OPENAI_API_KEY"], False)
    assert KEY not in file.read_text()
    assert (await api.delete("/api/keys/openai"))[1]["removed"] == []


async def test_a_key_that_the_provider_rejects_is_not_stored(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    fake_api.keys = set()
    status, failure = await put(api, "openai", {"key": KEY})
    assert (status, failure["code"], "check: false" in failure["hint"]) == (
        502,
        "AUTHENTICATION_FAILED",
        True,
    )
    assert not (tmp_path / "counsel" / ".env").exists()
    assert (await put(api, "openai", {"key": KEY, "check": False}))[1]["accepted"] is None
    assert (await row(api, "openai"))["set"] is True


async def test_an_invalid_key_or_provider_is_refused(api: Api, tmp_path: Path) -> None:
    for body in ({}, {"key": ""}, {"key": 7}, {"key": "a b"}, {"key": "a\nOTHER=1"}, {"key": KEY, "more": 1}):
        assert (await put(api, "openai", body))[0] == 400, body
    status, failure = await put(api, "opena", {"key": KEY})
    assert (status, failure["hint"]) == (404, "Did you mean openai?")
    assert (await api.delete("/api/keys/nothing"))[0] == 404
    assert not (tmp_path / "counsel" / ".env").exists()
