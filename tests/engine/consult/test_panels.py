"""Named panels, the size of `auto`, and members with a role or a stance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from counsel.caller import Caller
from counsel.cli.questions import consensus_members
from counsel.engine.engine import Engine
from counsel.errors import CounselError, InvalidArgument, ModelNotFound, NotFound
from counsel.models.catalog import Catalog
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI

PANELS = """[panels]
duo = ["gpt-5", "sonnet"]
roles = [{ model = "gpt-5", role = "security reviewer" }, { model = "sonnet", stance = "against" }]
nested = ["@duo"]
empty = []
text = "gpt-5"
"two words" = ["gpt-5"]
wrong = [{ model = "gpt-5", stance = "maybe" }]
big = ["gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5", "gpt-5"]
"""


@pytest.fixture(autouse=True)
def panels(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(PANELS)


async def members_asked(engine: Engine, caller: Caller, *models: Any, **fields: Any) -> list[str]:
    request = ConsensusRequest(prompt="q", models=models, enable_cross_feedback=False, **fields)
    result = (await engine.wait(await engine.submit(request, caller))).to_json()
    return [entry["model"] for entry in result["phases"]["initial"]]


async def test_a_panel_stands_for_its_models(engine: Engine, caller: Callable[..., Caller]) -> None:
    assert await members_asked(engine, caller(), "@duo") == ["gpt-5", "sonnet"]
    assert await members_asked(engine, caller(), "gpt-5-mini", "@duo") == ["gpt-5-mini", "gpt-5", "sonnet"]


async def test_the_users_own_panel_may_be_a_named_one(engine: Engine, caller: Callable[..., Caller]) -> None:
    assert await members_asked(engine, caller(COUNSEL_CONSENSUS_MODELS="@duo"), "auto") == ["gpt-5", "sonnet"]


def test_a_role_or_stance_is_for_a_member_of_the_users_own_panel(caller: Callable[..., Caller]) -> None:
    """The models on the command line if none are named."""
    for own in ("sonnet,gpt-5", "@duo"):
        settings = caller(COUNSEL_CONSENSUS_MODELS=own).settings
        members = consensus_members.assign_roles(("auto",), ["sonnet=critic"], ["gpt-5=for"], settings)
        assert {str(member) for member in members} == {
            "{'model': 'sonnet', 'role': 'critic'}",
            "{'model': 'gpt-5', 'stance': 'for'}",
        }
    with pytest.raises(click.BadParameter, match="opus is not a member"):
        consensus_members.assign_roles(
            ("auto",), ["opus=critic"], [], caller(COUNSEL_CONSENSUS_MODELS="sonnet,gpt-5").settings
        )


async def test_a_stance_of_auto_applies_to_each_member_of_the_users_own_panel(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    own = caller(COUNSEL_CONSENSUS_MODELS="@roles")
    assert await members_asked(engine, own, {"model": "auto", "stance": "for"}) == ["gpt-5", "sonnet"]
    bodies = {call.model: str(call.body) for call in fake_api.calls}
    assert "security reviewer" in bodies["gpt-5"]
    assert "strongest honest case for it" in bodies["gpt-5"]
    assert "strongest honest case against it" in str(bodies), "its own part comes first"


async def test_the_size_of_auto_is_a_setting(engine: Engine, caller: Callable[..., Caller]) -> None:
    assert len(await members_asked(engine, caller(), "auto")) == 3
    assert len(await members_asked(engine, caller(COUNSEL_PANEL_SIZE="2"), "auto")) == 2


@pytest.mark.parametrize(
    ("models", "kind", "message"),
    [
        (("@nobody",), NotFound, "There is no panel @nobody. Known panels: @duo, @roles, @big."),
        (("@nested",), InvalidArgument, "panels cannot contain panels"),
        (("@empty",), InvalidArgument, "1 to 20 models, not 0"),
        (("@text",), InvalidArgument, "must be a list of models"),
        (("@wrong",), InvalidArgument, "one of for, against, neutral"),
        (("@big", "@big"), InvalidArgument, "has 22 models; at most 20"),
        (({"model": "@duo", "role": "judge"},), InvalidArgument, "cannot have a role"),
        (({"model": "gpt-5", "stance": "maybe"},), InvalidArgument, "one of for, against, neutral"),
        (({"role": "x"},), InvalidArgument, "models[0].model is missing"),
    ],
)
async def test_a_panel_that_cannot_be_asked_is_refused_before_anything_is_sent(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    models: Any,
    kind: type[CounselError],
    message: str,
) -> None:
    with pytest.raises(kind) as excinfo:
        await members_asked(engine, caller(), *models)
    assert message in str(excinfo.value)
    assert fake_api.log.requests == []


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest(prompt="q", model="@duo"),
        ChatRequest(prompt="q", model="gpt-5, @duo"),
        ConsensusRequest(prompt="q", models=("gpt-5",), judge="@duo"),
    ],
    ids=["chat", "chain", "judge"],
)
async def test_a_panel_is_refused_where_one_model_is_needed(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, request_: ChatRequest | ConsensusRequest
) -> None:
    with pytest.raises(ModelNotFound, match=r"^@duo is a panel, and one model is needed here\."):
        await engine.wait(await engine.submit(request_, caller()))
    assert fake_api.log.requests == []


def test_bad_panels_are_reported(caller: Callable[..., Caller]) -> None:
    problems = "\n".join(Catalog.load(caller().settings).problems)
    for name in ("nested", "empty", "text", "two words", "wrong"):
        assert f"config.toml [panels] {name}: " in problems
    assert "[panels] duo" not in problems


async def test_a_role_and_a_stance_reach_their_own_model_alone(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    request = ConsensusRequest(prompt="q", models=("@roles",))
    await engine.wait(await engine.submit(request, caller()))
    bodies = {
        name: [str(call.body) for call in fake_api.calls if name in call.model] for name in ("gpt", "claude")
    }
    assert all("Answer in this role: security reviewer" in body for body in bodies["gpt"])
    assert all("strongest honest case against" in body for body in bodies["claude"])
    assert not any("security reviewer" in body for body in bodies["claude"])
    assert not any("case against" in body for body in bodies["gpt"])
