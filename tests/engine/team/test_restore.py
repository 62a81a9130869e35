"""A backup that is made while jobs run, restored into another database: its jobs continue there.

`make restore-check` tests this with real servers, sixty jobs and followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import open_engine
from counsel.requests import ConsensusRequest
from fake import FakeAPI

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.thorough]
LONG_AGO = """
    UPDATE counsel.owners SET seen = clock_timestamp() - interval '60 s';
    UPDATE counsel_queue.procrastinate_workers SET last_heartbeat = clock_timestamp() - interval '60 s'
"""  # as if the dump were from yesterday


async def test_an_open_job_of_a_dump_continues_in_the_restored_database_with_its_stored_replies(
    postgres_server: PostgresServer,
    tmp_path: Path,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from team.restore import run

    monkeypatch.setattr("counsel.engine.store.postgres.presence.SETTLE_SECONDS", -1.0)
    fake_api.script(hang_after=1, times=1, model="sonnet")
    dump = str(tmp_path / "dump")
    with postgres_server.empty() as url:
        first = await open_engine(tmp_path / "a")
        try:
            request = ConsensusRequest(
                prompt="hello", models=("gpt-5", "sonnet"), enable_cross_feedback=False
            )
            job = await first.submit(request, caller(), background=True)
            await fake_api.wait_for(deltas=1, model="sonnet")
            first_store: Any = first.store
            while not await first_store.reply(job, "initial:0"):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(
                run, "pg_dump", "--format=custom", f"--file={dump}", postgres_server.url("counsel")
            )
        finally:
            await first.close()
        await asyncio.to_thread(run, "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={url}", dump)
        postgres_server.execute(LONG_AGO, url.partition("?")[0].rpartition("/")[2])
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        second = await open_engine(tmp_path / "b")
        try:
            second.register_caller(caller())
            async with asyncio.timeout(60):
                result: Any = (await second.wait(job)).to_json()
            models = [answer["model"] for answer in result["phases"]["initial"]]
            assert models == ["gpt-5", "sonnet"], result
            requested_models = [request.body["model"] for request in fake_api.calls]
            assert (requested_models.count("gpt-5"), len(requested_models)) == (1, 3), requested_models
        finally:
            await second.close()
