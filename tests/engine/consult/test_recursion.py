"""No agent asks itself, and chains of agents are limited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from counsel.agents import environment
from counsel.caller import Caller, local_caller
from counsel.engine.engine import Engine
from counsel.errors import SelfConsultation
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI


async def ask(
    engine: Engine, sender: Caller, model: str, tool: Literal["chat", "askModel"] = "askModel"
) -> Any:
    return (
        await engine.wait(await engine.submit(ChatRequest(prompt="hello", model=model, tool=tool), sender))
    ).to_json()


@pytest.mark.parametrize("tool", ["askModel", "chat"])
@pytest.mark.parametrize("model", ["claude", "Claude", "claude:opus"])
async def test_no_agent_asks_itself(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    model: str,
    tool: Literal["chat", "askModel"],
) -> None:
    sender = replace(caller(), agent="claude")
    with pytest.raises(SelfConsultation, match="Claude Code cannot consult itself"):
        await ask(engine, sender, model, tool)
    assert (await engine.recent()).to_json()["content"]["jobs"] == []


async def test_an_agent_may_ask_the_model_of_its_maker(engine: Engine, caller: Callable[..., Caller]) -> None:
    answer = await ask(engine, replace(caller(), agent="claude"), "opus")
    assert answer["metadata"]["provider"] == "anthropic"


async def test_a_loop_of_agents_that_ask_each_other_ends(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    sender = replace(caller(), agent="codex", chain=("claude", "codex"))
    with pytest.raises(SelfConsultation, match="Claude Code → Codex → Claude Code") as excinfo:
        await ask(engine, sender, "claude")
    assert excinfo.value.chain == ["claude", "codex"]


@pytest.mark.parametrize("model", ["cursor", "gpt-5", "auto"])
async def test_the_depth_is_limited(engine: Engine, caller: Callable[..., Caller], model: str) -> None:
    sender = replace(caller(), agent="gemini", chain=("claude", "codex", "gemini"))
    with pytest.raises(SelfConsultation, match="already 2 deep: Claude Code → Codex → Gemini CLI") as excinfo:
        await ask(engine, sender, model)
    assert "COUNSEL_MAX_DEPTH" in (excinfo.value.hint or "")


async def test_a_depth_of_two_is_allowed_and_the_setting_changes_it(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    assert await ask(engine, replace(caller(), agent="codex", chain=("claude", "codex")), "gpt-5")
    deep = replace(caller(COUNSEL_MAX_DEPTH="3"), agent="gemini", chain=("claude", "codex", "gemini"))
    assert await ask(engine, deep, "gpt-5")


async def test_in_a_consensus_it_is_that_models_failure(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    request = ConsensusRequest(prompt="hello", models=("gpt-5", "codex"), enable_cross_feedback=False)
    result = (await engine.wait(await engine.submit(request, replace(caller(), agent="codex")))).to_json()
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["code"]) == ("codex", "SELF_CONSULTATION")
    assert [answer["model"] for answer in result["phases"]["initial"]] == ["gpt-5"]


@pytest.mark.parametrize(
    ("agent", "chain", "expected"),
    [
        (None, (), "gemini"),
        ("claude", (), "claude,gemini"),
        ("codex", ("claude", "codex"), "claude,codex,gemini"),
        (None, ("codex",), "codex,gemini"),  # a command line inside Codex
    ],
)
def test_the_asked_agent_gets_the_whole_chain(
    caller: Callable[..., Caller], agent: str | None, chain: Any, expected: str
) -> None:
    sender: Caller = replace(caller(), agent=agent, chain=chain)
    assert environment.for_agent(sender, "gemini")["COUNSEL_CHAIN"] == expected


def test_a_program_started_by_an_agent_knows_its_chain(tmp_path: Path) -> None:
    assert local_caller("cli", {"COUNSEL_CHAIN": "claude, codex"}, tmp_path).agent_chain == (
        "claude",
        "codex",
    )
