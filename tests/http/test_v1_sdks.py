"""Clients of OpenAI's and Anthropic's APIs from npm and PyPI ask through counsel."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support import client_processes as clients
from support.api_client import TOKEN
from support.client_programs import ROOT
from support.v1 import V1, served

pytestmark = pytest.mark.client
SCRIPTS = ROOT / "tests" / "clients"
GPT, CLAUDE, GEMINI = "gpt-5", "claude-sonnet-4-6", "gemini-2.5-pro"


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    fake_api.script(
        contains="look",
        thinking="I look.",
        tool_calls=[{"name": "look", "arguments": {"n": 1}}],
        text="A cat.",
        times=None,
    )
    fake_api.script(contains="object", text='{"n": 7}', times=None)
    fake_api.script(contains="fail", error="rate_limit", retry_after=4000, times=None)
    (tmp_path / "home").mkdir()
    async with served(tmp_path / "counsel", fake_api) as client:
        yield client


async def _node(script: str, v1: V1, folder: Path, *models: str) -> Any:
    shutil.copy(SCRIPTS / "sdks" / script, clients.node_project(folder))
    env = clients.environment(folder / "home", v1.url)
    output = await clients.run(clients.node(), script, *models, cwd=folder, env=env)
    return json.loads(output.splitlines()[-1])


def _results_reached_the_models(fake: FakeAPI) -> int:
    return sum("fur 1" in json.dumps(call.body) for call in fake.calls)


def _expected(model: str, error: str) -> dict[str, Any]:
    text = f"{model} says: hello"
    return {
        "plain": text,
        "streamed": text,
        "usage": True,
        "tools": "A cat.",
        "error": error,
    }


async def test_openais_sdk_for_typescript(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    models = (GPT, CLAUDE, GEMINI)
    results = await _node("openai.mjs", v1, tmp_path, *models)
    for model in models:
        error = "RateLimitError 429"
        expected = {**_expected(model, error), "error_streamed": error}
        assert results[model] == {"chat": expected, "responses": expected}
    assert _results_reached_the_models(fake_api) == 6


async def test_anthropics_sdk_for_typescript(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    models = (CLAUDE, GPT, GEMINI)
    results = await _node("anthropic.mjs", v1, tmp_path, *models)
    for model in models:
        error = "RateLimitError 429"
        assert results[model] == {"messages": {**_expected(model, error), "error_streamed": error}}
    assert _results_reached_the_models(fake_api) == 3


async def test_vercels_ai_sdk(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    models = (GPT, CLAUDE)
    results = await _node("ai.mjs", v1, tmp_path, *models)
    for model in models:
        expected = {**_expected(model, "AI_APICallError 429"), "object": {"n": 7}}
        assert results[model] == dict.fromkeys(("responses", "chat", "messages", "compatible"), expected)
    assert _results_reached_the_models(fake_api) == 8


async def test_langchain(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    models = (GPT, CLAUDE)
    script = str(SCRIPTS / "python" / "langchain_client.py")
    env = clients.environment(tmp_path / "home", v1.url)
    output = await clients.run(clients.python("langchain"), script, *models, cwd=tmp_path, env=env)
    results = json.loads(output.splitlines()[-1])
    for model in models:
        expected = {**_expected(model, "429"), "object": {"n": 7}}
        for api, view in results[model].items():
            assert (api, view) == (api, expected)
    assert _results_reached_the_models(fake_api) == 6


LLM_MODEL = """
- model_id: {model}
  model_name: {model}
  api_base: {url}/v1
  api_key_name: counsel
  supports_tools: true
"""


async def test_the_llm_command_asks_through_v1(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    models = tmp_path / "home" / "extra-openai-models.yaml"
    models.write_text("".join(LLM_MODEL.format(model=model, url=v1.url) for model in (GPT, CLAUDE)))
    env = clients.environment(tmp_path / "home", v1.url, LLM_USER_PATH=str(models.parent))
    (models.parent / "keys.json").write_text(json.dumps({"counsel": TOKEN}))
    llm = clients.python("llm", "llm")

    async def output_of(model: str, *arguments: str, expect: int = 0) -> str:
        command = (llm, "-m", model, *arguments)
        return await clients.run(*command, cwd=tmp_path, env=env, expect=expect)

    looks = 'def look(n: int) -> str:\n    return f"fur {n}"\n'
    assert (await output_of(GPT, "hello")).strip() == f"{GPT} says: hello", "streamed"
    assert "A cat." in await output_of(CLAUDE, "--no-stream", "--functions", looks, "look")
    assert _results_reached_the_models(fake_api) == 1
    assert "429" in await output_of(GPT, "fail", expect=1)


EDIT = """notes.txt
```
<<<<<<< SEARCH
the cat is called Tom
=======
the cat is called Mirabelle
>>>>>>> REPLACE
```
"""


async def test_aider_edits_a_file(v1: V1, fake_api: FakeAPI, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the cat is called Tom\n")
    fake_api.script(contains="rename", text=EDIT, times=None)
    env = clients.environment(
        tmp_path / "home",
        v1.url,
        OPENAI_API_BASE=f"{v1.url}/v1",
        OPENAI_API_KEY=TOKEN,
        AIDER_ANALYTICS="false",
        AIDER_CHECK_UPDATE="false",
        AIDER_SHOW_RELEASE_NOTES="false",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    # With this file aider does not look for prices on the internet.
    prices = tmp_path / "home" / ".aider" / "caches" / "model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}')
    options = ("--edit-format", "diff", "--no-git", "--yes-always", "--no-show-model-warnings")

    async def output_of(model: str, *more: str) -> str:
        aider = (clients.python("aider", "aider"), "--model", f"openai/{model}", *options, *more)
        return await clients.run(*aider, cwd=tmp_path, env=env, expect=None)

    output = await output_of(CLAUDE, "--message", "rename the cat", "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "the cat is called Mirabelle\n", output
    assert "HTTPSConnectionPool" not in output
    assert "counsel models" in await output_of("nothing", "--no-stream", "--message", "hello"), "the error"
