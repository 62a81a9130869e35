"""docs/internals/peers.md: every test that it names exists. Also tests of peers' failures that no other test covers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import open_engine
from counsel.errors import Conflict
from counsel.requests import ChatRequest
from fake import FakeAPI, FakeProcess
from support.stdio_client import StdioClient
from test_requirements import exists

ROOT = Path(__file__).parent.parent
KEY = "sk-test-0000000000000000"
COMMAND = [sys.executable, "-P", "-m", "counsel"]


def test_every_row_of_the_page_names_something_that_shows_it() -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "internals" / "peers.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| what ", "|---"))
    ]
    assert len(rows) > 40
    assert [row for row in rows if "`" not in row.split(" | ")[-1] and "not built" not in row] == []


def test_every_test_that_the_page_names_exists() -> None:
    references = re.findall(
        r"`([\w/.]+)::(\w+)`", (ROOT / "docs" / "internals" / "peers.md").read_text("utf-8")
    )
    assert [f"{path}::{name}" for path, name in references if not exists(path, name)] == []


def test_every_dependency_has_an_upper_bound() -> None:
    """A peer stopped starting on the day on which `mcp` 2 came out."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requirements = [*about["project"]["dependencies"], *about["dependency-groups"]["dev"]]
    assert [requirement for requirement in requirements if "<" not in requirement] == []


async def test_of_two_jobs_on_one_conversation_exactly_the_named_one_is_stopped(
    fake_api: FakeAPI, tmp_path: Path
) -> None:
    env = {"COUNSEL_HOME": str(tmp_path), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake_api.v1}
    sender = Caller("test", cwd=tmp_path, settings=settings.load(env))
    engine = await open_engine(tmp_path)
    fake_api.script(gate="go", times=None)
    request = ChatRequest(prompt="hello", model="gpt-5", continuation_id="shared")
    first, second = [await engine.submit(request, sender, background=True) for _ in range(2)]
    with pytest.raises(Conflict) as refusal:
        await engine.cancel("shared")
    assert first in str(refusal.value)
    assert second in str(refusal.value)
    assert (await engine.cancel(second)).to_json()["content"]["status"] == "cancelled"
    fake_api.open_gate("go")
    assert (await engine.wait(first)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


async def test_a_small_answer_is_a_small_result(fake_process: FakeProcess, tmp_path: Path) -> None:
    """A peer gave 205,670 bytes for 12 characters."""
    command = [*COMMAND, "stdio", "--standalone"]
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake_process.v1}
    async with StdioClient(tmp_path, command=command, env=env) as client:
        await client.initialize()
        async with asyncio.timeout(30):
            result = await client.call("chat", prompt="hi", model="gpt-5")
    assert result["structuredContent"]["content"] == "gpt-5 says: hi"
    assert len(json.dumps(result)) < 1_500
