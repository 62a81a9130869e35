"""A team under faults: every job ends once, no stored reply is asked for again, followers miss and repeat no event."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fake import FakeProcess
from support.provider_keys import keys

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


async def test_a_team_under_faults(
    tmp_path: Path, postgres_server: PostgresServer, fake_process: FakeProcess
) -> None:
    from team.storm import Plan, storm

    plan = Plan(
        servers=2,
        workers=1,
        chats=32,
        councils=6,
        conversations=2,
        turns=7,
        kills=6,
        restarts=1,
        seconds=24,
        limit=400,
    )
    if os.environ.get("COUNSEL_CHAOS"):  # make chaos
        plan = Plan(
            servers=3,
            workers=2,
            chats=200,
            councils=40,
            conversations=6,
            turns=10,
            kills=30,
            restarts=2,
            seconds=100,
            limit=600,
        )
    with postgres_server.migrated() as url:
        outcome = await storm(plan, tmp_path, postgres_server, url, fake_process, keys(fake_process))
    sys.stderr.write(json.dumps(outcome.numbers, indent=1))
    assert outcome.problems == []
