"""A whole council of the embedded model: members, a vote, refinement, a judge. The answers' contents do not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import CounselError
from counsel.models import embedded
from counsel.requests import ConsensusRequest
from counsel.results import ConsensusResult, Vote

# The same weights under another name, which is not a member. Without a limit it may ramble until its window is full.
JUDGE = """[models.judge]
provider = "local"
wire_id = "smollm2"
context = 8192
options = { body = { max_tokens = 120 } }
"""


@pytest.mark.localmodel
async def test_the_embedded_model_holds_a_whole_council(tmp_path: Path, local_home: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(JUDGE)
    engine = await open_engine(home)
    with embedded.LocalModel(local_home) as model:
        user_settings = settings.load({**model.environment, "COUNSEL_HOME": str(home)})
        request = ConsensusRequest(
            prompt="Tea or coffee? One sentence.",
            models=("smollm2", {"model": "smollm2", "role": "a doctor"}),
            judge="judge",
        )
        caller = Caller("test", cwd=tmp_path, settings=user_settings)
        result = await engine.wait(await engine.submit(request, caller))
        ballot = ConsensusRequest(
            prompt="Tea or coffee? Give one short reason.",
            models=("judge", "judge"),
            choices=("tea", "coffee"),
            refine="never",
        )
        vote = await counted(engine, ballot, caller)
    await engine.close()
    assert isinstance(result, ConsensusResult)
    assert [answer.model for answer in result.initial] == ["smollm2", "smollm2#2"]
    assert all(answer.text.strip() for answer in result.initial)
    assert result.refined_count == 2
    assert result.verdict is not None
    assert result.verdict.judge == "judge"
    assert result.verdict.error is None or result.verdict.error.code in {"SCHEMA_MISMATCH", "EMPTY_ANSWER"}
    if vote is not None:
        assert sum(vote.counts.values()) + len(vote.failed) == 2
        assert {ballot.choice for ballot in vote.votes} <= {"tea", "coffee"}


async def counted(engine: Engine, request: ConsensusRequest, caller: Caller) -> Vote | None:
    """The vote; None if both reasons were longer than the limit, twice: then there is no JSON."""
    try:
        result = await engine.wait(await engine.submit(request, caller))
    except CounselError as error:
        if "picked none of the choices" not in error.message:
            raise
        return None
    assert isinstance(result, ConsensusResult)
    return result.vote
