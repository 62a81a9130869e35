"""Fallback chains: `gpt-5, opus, local` asks the next model when one fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.errors import (
    AuthenticationFailed,
    CounselError,
    InvalidArgument,
    ModelNotFound,
    ProviderUnavailable,
)
from counsel.models.catalog import Catalog
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI
from support.asking import ask


def without_key(caller: Caller, project: Path, *names: str) -> Caller:
    env = {name: value for name, value in caller.settings.env.items() if name not in names}
    return Caller("test", cwd=project, settings=settings.load(env))


async def test_the_first_of_a_chain_that_can_answer_does(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    result = await ask(engine, caller(), model="gpt-5, sonnet")
    assert (result["metadata"]["model"], len(fake_api.calls)) == ("gpt-5", 1)
    assert "passed_over" not in result["metadata"]


async def test_a_chain_continues_after_a_failure_and_says_which_models_were_passed_over(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    fake_api.script(status=401, vendor="anthropic", times=None)
    caller_ = without_key(caller(), project, "OPENAI_API_KEY")
    result = await ask(engine, caller_, model="gpt-5,sonnet , gemini-2.5-flash")
    assert result["metadata"]["model"] == "gemini-2.5-flash"
    passed_over = [(entry["model"], entry["code"]) for entry in result["metadata"]["passed_over"]]
    assert passed_over == [
        ("gpt-5", "PROVIDER_UNAVAILABLE"),
        ("claude-sonnet-4-5-20250929", "AUTHENTICATION_FAILED"),
    ]


async def test_an_unknown_name_in_a_chain_is_refused_before_anything_is_sent(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with pytest.raises(ModelNotFound, match=r"gpt5x.*sonnett"):
        await ask(engine, caller(), model="gpt-5, gpt5x, sonnett")
    for model in ("gpt-5,", ",", "gpt-5,,sonnet", ", ".join(["gpt-5"] * 11)):
        with pytest.raises(InvalidArgument, match="chain"):
            await ask(engine, caller(), model=model)
    assert not fake_api.calls


async def test_a_chain_in_which_no_model_can_be_asked_says_what_is_missing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    caller_ = without_key(caller(), project, "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    with pytest.raises(ProviderUnavailable) as none:
        await ask(engine, caller_, model="gpt-5, sonnet, o3")
    assert none.value.message == "OpenAI is not available. Anthropic is not available."
    assert "OPENAI_API_KEY" in str(none.value.hint)
    assert "ANTHROPIC_API_KEY" in str(none.value.hint)
    fake_api.script(status=401, times=None)
    with pytest.raises(CounselError) as excinfo:
        await ask(engine, without_key(caller(), project, "OPENAI_API_KEY"), model="gpt-5, sonnet")
    attempts = [(entry["models"], entry["code"]) for entry in excinfo.value.tried or ()]
    assert attempts == [
        (["gpt-5"], "PROVIDER_UNAVAILABLE"),
        (["claude-sonnet-4-5-20250929"], "AUTHENTICATION_FAILED"),
    ]
    with pytest.raises(AuthenticationFailed):
        await ask(engine, caller(), model="sonnet, sonnet")


async def test_auto_and_local_end_a_chain(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path, home: Path
) -> None:
    fake_api.script(status=401, vendor="openai_responses", times=None)
    fake_api.script(status=401, path="/v1/responses", times=None)
    result = await ask(engine, caller(COUNSEL_AUTO_ORDER="gpt-5,sonnet"), model="gpt-5, auto")
    assert result["metadata"]["model"] == "claude-sonnet-4-5-20250929"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[providers.ollama]\nbase_url = "{fake_api.url}/ollama/v1"\nmodels = ["qwen3"]\n'
    )
    result = await ask(engine, caller(), model="gpt-5, local")
    assert result["metadata"]["model"] == "qwen3"
    assert result["metadata"]["passed_over"][0]["model"] == "gpt-5"


async def test_a_chain_continues_when_a_budget_is_used_up(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    result = await ask(engine, caller(COUNSEL_BUDGET_DAY_OPENAI="0"), model="gpt-5, sonnet")
    assert result["metadata"]["passed_over"][0]["code"] == "BUDGET_EXCEEDED"
    assert [request.vendor for request in fake_api.calls] == ["anthropic"]


async def test_the_default_model_may_be_a_chain(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, model="gpt-5", times=None)
    caller_ = caller(COUNSEL_DEFAULT_MODEL="gpt-5, sonnet")
    assert Catalog.load(caller_.settings).problems == ()
    result = await ask(engine, caller_, model="default")
    assert result["metadata"]["model"] == "claude-sonnet-4-5-20250929"
    wrong = Catalog.load(caller(COUNSEL_DEFAULT_MODEL="gpt-5, sonnett").settings).problems
    assert [problem.partition(":")[0] for problem in wrong] == ["default_model"]


async def test_a_background_chain_is_accepted_and_a_member_of_a_council_is_one_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5, sonnet"), caller(), background=True)
    assert (await engine.accepted(job)).to_json()["job_id"] == job
    await engine.wait(job)
    with pytest.raises(InvalidArgument, match="one model"):
        await engine.submit(ConsensusRequest(prompt="hello", models=("gpt-5, sonnet", "gpt-5")), caller())
    assert len(fake_api.calls) == 1
