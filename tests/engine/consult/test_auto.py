"""`auto`: which model answers, and when another one is asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    CounselError,
    ProviderUnavailable,
    RateLimited,
)
from counsel.models import retries
from counsel.types import Call, Limits, Turn
from fake import FakeAPI
from support.asking import ask


async def test_auto_passes_over_unavailable_models_and_says_so(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=429, retry_after=3600, model="gpt-5", times=None)
    order = {"COUNSEL_AUTO_ORDER": "gpt-5,sonnet"}
    result = await ask(engine, caller(**order), model="auto")
    assert result["metadata"]["provider"] == "anthropic"
    assert result["metadata"]["passed_over"][0] | {"error": ""} == {
        "model": "gpt-5",
        "code": "RATE_LIMIT_EXCEEDED",
        "error": "",
    }


async def test_auto_does_not_wait_long_where_another_can_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """The delays are minutes, so the test hangs if the engine waits for them."""
    fake_api.script(status=429, retry_after=120, model="gpt-5", times=None)
    result = await ask(engine, caller(COUNSEL_AUTO_ORDER="gpt-5,sonnet"), model="auto")
    assert result["metadata"]["provider"] == "anthropic"
    assert [request.model for request in fake_api.calls][:2] == ["gpt-5", "claude-sonnet-4-5-20250929"]


async def test_a_named_model_that_fails_is_not_replaced(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=429, retry_after=3600, times=None)
    with pytest.raises(RateLimited) as excinfo:
        await ask(engine, caller())
    assert excinfo.value.retry_after == 3600
    assert excinfo.value.fields["continuation_id"].startswith("conv_")


async def test_auto_continues_when_a_vendor_is_down(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=500, model="gpt-5", times=None)
    sender = caller(COUNSEL_AUTO_ORDER="gpt-5,sonnet", COUNSEL_MAX_ATTEMPTS="1")
    assert (await ask(engine, sender, model="auto"))["metadata"]["provider"] == "anthropic"


async def test_auto_replaces_a_conversations_model_that_cannot_serve_the_next_turn(
    engine: Engine, caller: Callable[..., Caller], project: Path
) -> None:
    Image.new("RGB", (4, 4)).save(project / "p.png")
    sender = caller(COUNSEL_AUTO_ORDER="sonnet")
    await ask(engine, sender, model="deepseek-chat", continuation_id="mine")
    second = await ask(engine, sender, "look", model="auto", images=("p.png",), continuation_id="mine")
    assert second["continuation"]["provider"] == "anthropic"
    assert second["metadata"]["passed_over"][0]["model"] == "deepseek-chat"
    assert "cannot see images" in second["metadata"]["passed_over"][0]["error"]
    sender = caller(COUNSEL_AUTO_ORDER="gpt-5.1")
    await ask(engine, sender, model="haiku", continuation_id="long")
    fits = await ask(engine, sender, "word " * 170_000, model="auto", continuation_id="long")
    assert fits["metadata"]["passed_over"][0]["code"] == "CONTEXT_LENGTH_EXCEEDED"
    with pytest.raises(ContextLengthExceeded):
        await ask(engine, sender, "word " * 170_000, model="haiku", continuation_id="long")


async def test_without_any_key_it_says_what_to_set(engine: Engine, home: Path, project: Path) -> None:
    from counsel import settings
    from counsel.caller import Caller

    bare = Caller("test", cwd=project, settings=settings.load({"COUNSEL_HOME": str(home)}))
    with pytest.raises(ProviderUnavailable, match="counsel demo"):
        await ask(engine, bare, model="auto")


# ── everyone fails ───────────────────────────────────────────────────────────────────────────────────

PROVIDERS = ["openai", "anthropic", "google", "xai", "deepseek"]  # in the order of `auto`


async def test_a_provider_is_dropped_after_its_first_rejected_key(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.keys = {"none of theirs"}
    with pytest.raises(AuthenticationFailed) as excinfo:
        await ask(engine, caller(), model="auto")
    assert len(fake_api.calls) == len(PROVIDERS)
    attempts = excinfo.value.tried or []
    assert [entry["provider"] for entry in attempts] == PROVIDERS
    assert [len(entry["models"]) for entry in attempts] == [1] * len(PROVIDERS)
    assert attempts[0]["models"] == ["gpt-6.1-sol"]
    assert "OPENAI_API_KEY" in attempts[0]["hint"]
    assert all("refused the key" in entry["error"] for entry in attempts)
    assert excinfo.value.message == "No model answered; 5 providers were tried."


async def test_one_provider_that_fails_reports_its_own_error(
    engine: Engine, home: Path, project: Path, fake_api: FakeAPI
) -> None:
    fake_api.keys = {"none of theirs"}
    env = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": fake_api.v1, "COUNSEL_HOME": str(home)}
    with pytest.raises(AuthenticationFailed, match="OpenAI refused the key") as excinfo:
        await ask(engine, Caller("test", cwd=project, settings=settings.load(env)), model="auto")
    assert excinfo.value.tried is None
    assert len(fake_api.calls) == 1


async def test_providers_that_cannot_be_reached_are_asked_once_each(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "AUTO_RETRY_SECONDS", 0.0)
    with socket.socket() as unused_port:  # bound and not listening
        unused_port.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused_port.getsockname()[1]}/v1"
        names = ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI", "XAI", "DEEPSEEK")
        sender = caller(**{f"{name}_BASE_URL": dead for name in names})
        with pytest.raises(ProviderUnavailable) as excinfo:
            await ask(engine, sender, model="auto")
    attempts = excinfo.value.tried or []
    assert [(entry["provider"], len(entry["models"])) for entry in attempts] == [
        (name, 1) for name in PROVIDERS
    ]
    assert all("cannot be reached" in entry["error"] for entry in attempts)


@pytest.mark.parametrize("behaviour", [{"status": 500}, {"status": 429, "retry_after": 1}])
async def test_when_the_retry_time_is_used_up_every_model_is_asked_once(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: dict[str, Any],
) -> None:
    monkeypatch.setattr(retries, "AUTO_RETRY_SECONDS", 0.0)
    fake_api.script(**behaviour, times=None)
    with pytest.raises(CounselError) as excinfo:
        await ask(engine, caller(), model="auto")
    models = [request.model for request in fake_api.calls]
    assert len(models) == len(set(models)) > len(PROVIDERS)
    assert [entry["provider"] for entry in excinfo.value.tried or []] == PROVIDERS
    asked_models = [name for entry in excinfo.value.tried or [] for name in entry["models"]]
    assert sorted(asked_models) == sorted(models)


async def test_retries_stop_when_the_retry_time_is_used_up() -> None:
    now = asyncio.get_running_loop().time()
    failure, limits = retries.Retryable(ProviderUnavailable("down"), retry_after=4.0), Limits()

    def wait(retry_deadline: float | None) -> float | None:
        call = Call((Turn("user", "Q"),), retry_deadline=retry_deadline)
        return retries.wait_before_next(failure, 1, call, limits, ends=now + 300, backoff=0.5)

    assert (wait(None), wait(now + 60), wait(now + 2), wait(now - 60)) == (4.0, 4.0, None, None)


async def test_a_connection_that_hangs_does_not_keep_the_next_model_waiting() -> None:
    now, limits = asyncio.get_running_loop().time(), Limits()

    def connect(retry_deadline: float | None) -> float:
        return retries.attempt_limits(
            limits, Call((Turn("user", "Q"),), retry_deadline=retry_deadline)
        ).connect

    assert connect(None) == limits.connect
    assert connect(now + 60) == retries.CONNECT_WITH_ALTERNATIVES
    assert connect(now - 60) == retries.LEAST_CONNECT
