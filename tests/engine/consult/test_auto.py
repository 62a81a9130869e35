"""`auto`: which model answers, and when another one is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.errors import ContextLengthExceeded, ProviderUnavailable, RateLimited
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
    """The waits are minutes: the test would not end if they were waited for."""
    fake_api.script(status=429, retry_after=120, model="gpt-5", times=None)
    result = await ask(engine, caller(COUNSEL_AUTO_ORDER="gpt-5,sonnet"), model="auto")
    assert result["metadata"]["provider"] == "anthropic"
    assert [request.model for request in fake_api.calls][:2] == ["gpt-5", "claude-sonnet-4-5-20250929"]


async def test_a_named_model_that_fails_is_not_replaced(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=429, retry_after=3600, times=None)
    with pytest.raises(RateLimited) as caught:
        await ask(engine, caller())
    assert caught.value.retry_after == 3600
    assert caught.value.fields["continuation_id"].startswith("conv_")


async def test_auto_goes_on_when_a_vendor_is_down(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=500, model="gpt-5", times=None)
    who = caller(COUNSEL_AUTO_ORDER="gpt-5,sonnet", COUNSEL_MAX_ATTEMPTS="1")
    assert (await ask(engine, who, model="auto"))["metadata"]["provider"] == "anthropic"


async def test_auto_leaves_a_conversations_model_that_cannot_serve_the_next_turn(
    engine: Engine, caller: Callable[..., Caller], project: Path
) -> None:
    Image.new("RGB", (4, 4)).save(project / "p.png")
    who = caller(COUNSEL_AUTO_ORDER="sonnet")
    await ask(engine, who, model="deepseek-chat", continuation_id="mine")
    seen = await ask(engine, who, "look", model="auto", images=("p.png",), continuation_id="mine")
    assert seen["continuation"]["provider"] == "anthropic"
    assert seen["metadata"]["passed_over"][0]["model"] == "deepseek-chat"
    assert "cannot see images" in seen["metadata"]["passed_over"][0]["error"]
    who = caller(COUNSEL_AUTO_ORDER="gpt-5.1")
    await ask(engine, who, model="haiku", continuation_id="long")
    fits = await ask(engine, who, "word " * 170_000, model="auto", continuation_id="long")
    assert fits["metadata"]["passed_over"][0]["code"] == "CONTEXT_LENGTH_EXCEEDED"
    with pytest.raises(ContextLengthExceeded):
        await ask(engine, who, "word " * 170_000, model="haiku", continuation_id="long")


async def test_without_any_key_it_says_what_to_set(engine: Engine, home: Path, project: Path) -> None:
    from counsel import settings
    from counsel.caller import Caller

    bare = Caller("test", cwd=project, settings=settings.load({"COUNSEL_HOME": str(home)}))
    with pytest.raises(ProviderUnavailable, match="counsel demo"):
        await ask(engine, bare, model="auto")
