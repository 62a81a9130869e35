"""A budget that several servers share: together they do not exceed it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.consult.test_budget import CONFIG
from fake import FakeProcess
from support.provider_keys import keys

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer
    from team.fleet import Fleet, Member

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


async def test_of_200_simultaneous_calls_to_three_servers_at_most_40_are_sent(
    tmp_path: Path, postgres_server: PostgresServer, fake_process: FakeProcess
) -> None:
    """A call can cost a cent, and does; the day's budget is 40 cents."""
    from team.fleet import Fleet

    fake_process.script(usage={"input": 10, "output": 1_000}, gate="all", gate_after=0, times=None)
    with postgres_server.migrated() as url:
        async with Fleet(tmp_path, url, {**keys(fake_process), "COUNSEL_BUDGET_DAY": "0.40"}) as fleet:
            for number in range(3):
                fleet.add("serve", f"server-{number}").config = CONFIG
            await fleet.start()
            calls = [
                asyncio.create_task(ask(fleet, fleet.members[number % 3], number)) for number in range(200)
            ]
            await asyncio.to_thread(fake_process.wait_for, count=40)
            await asyncio.to_thread(fake_process.open_gate, "all")
            outcomes = Counter(await asyncio.gather(*calls))
    assert len(fake_process.calls) == 40
    assert outcomes == {"answered": 40, "BUDGET_EXCEEDED": 160}


async def ask(fleet: Fleet, member: Member, number: int) -> str:
    body = {"prompt": f"question {number}", "model": "penny", "mode": "sync"}
    async with fleet.session.post(f"{member.url}/api/jobs", json=body) as response:
        document = await response.json()
        return "answered" if response.status == 200 else str(document.get("code", document))
