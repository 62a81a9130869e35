"""An answer's limit is sent only if the vendor requires one: with other vendors, question and limit together must fit
into the window (a small model refuses the call), and some refuse a limit that their own tables allow."""

from pathlib import Path

import pytest

from counsel import Counsel
from fake import FakeAPI


@pytest.mark.parametrize(
    ("model", "field"),
    [("qwen-coder", "max_tokens"), ("deepseek", "max_tokens"), ("gpt-5", "max_output_tokens")],
)
async def test_no_limit_is_sent_unless_one_was_set(
    fake_api: FakeAPI, tmp_path: Path, model: str, field: str
) -> None:
    env = {"COUNSEL_HOME": str(tmp_path)}
    for provider in ("OPENAI", "DEEPSEEK", "OPENROUTER"):
        env |= {f"{provider}_API_KEY": "k", f"{provider}_BASE_URL": fake_api.v1}
    async with Counsel(env=env, cwd=tmp_path) as counsel:
        await counsel.ask("hello", model=model)
    (request,) = await fake_api.wait_for(state="finished")
    assert field not in request.body


async def test_anthropic_gets_the_models_own_limit(fake_api: FakeAPI, tmp_path: Path) -> None:
    env = {"COUNSEL_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": fake_api.url}
    async with Counsel(env=env, cwd=tmp_path) as counsel:
        await counsel.ask("hello", model="opus-4.1")
    (request,) = await fake_api.wait_for(state="finished")
    assert request.body["max_tokens"] == 32_000
