"""Real agents in a council: they vote, judge and review like models, and do not learn who the others are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.rigs import KEY, RIGS
from counsel.caller import Caller, local_caller
from counsel.engine.consult.review import source
from counsel.engine.engine import Engine, open_engine
from counsel.requests import ConsensusRequest
from counsel.results import ReviewResult
from fake import FakeAPI
from support import planted
from support.council import JUDGING, picks, verdict

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("agents")]


@pytest.fixture
def caller(fake_api: FakeAPI, tmp_path: Path) -> Caller:
    """With Claude Code, Codex and a model of an API."""
    claude, codex = RIGS["claude"](fake_api, tmp_path), RIGS["codex"](fake_api, tmp_path)
    env = claude.env | codex.env | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake_api.v1}
    return local_caller("test", env, codex.project)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    instance = await open_engine(tmp_path / "counsel")
    yield instance
    await instance.close()


async def test_one_agent_votes_and_another_judges(engine: Engine, caller: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(text=verdict(recommendation="Use tabs.", choice="Tabs"), contains=JUDGING, times=None)
    fake_api.script(text=picks("Tabs", "Fewer bytes."), model="gpt-5.1", times=None)
    fake_api.script(text=picks("Spaces", "Same everywhere."), model="gpt-5-mini", times=None)
    request = ConsensusRequest(
        prompt="Tabs or spaces?",
        models=("codex", "gpt-5-mini"),
        choices=("Tabs", "Spaces"),
        judge="claude",
        refine="never",
    )
    result = (await engine.wait(await engine.submit(request, caller))).to_json()
    assert result["vote"]["counts"] == {"Tabs": 1, "Spaces": 1}
    assert result["vote"]["failed"] == []
    assert result["phases"]["verdict"]["recommendation"] == "Use tabs."
    judging = [call for call in fake_api.calls if JUDGING in json.dumps(call.body)]
    assert {call.vendor for call in judging} == {"anthropic"}
    question = json.dumps(judging[0].body["messages"]).lower()
    assert not [name for name in ("codex", "gpt-5", "openai") if name in question]


async def test_two_agents_review_a_change_and_check_each_other(
    engine: Engine, caller: Caller, fake_api: FakeAPI
) -> None:
    planted.repository(caller.cwd)
    fake_api.script(text=planted.checks(), contains="Check these findings", times=None)
    fake_api.script(text=planted.review(0), vendor="openai-responses", times=None)
    fake_api.script(text=planted.review(1), vendor="anthropic", times=None)
    change = source.from_git(caller)
    result = await engine.wait(await engine.submit(source.request(change, ("codex", "claude")), caller))
    assert isinstance(result, ReviewResult)
    assert (result.status, result.failed) == ("review_complete", ())
    first = result.findings[0]
    assert (first.status, first.models) == ("agreed", ("codex", "claude"))
    assert planted.titles(result.to_json()["findings"], "confirmed") == ["The first price is skipped"]
