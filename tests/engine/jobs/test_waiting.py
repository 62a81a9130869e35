"""Waiting for a job of another process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine import engine as engine_module
from counsel.engine.engine import Engine
from counsel.engine.jobs import recovery
from counsel.errors import CounselError, NotFound


class RemoteJob:
    """A job that another process owns or owned: the successive states of its row."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, *rows: dict[str, object]) -> None:
        self.rows = [SimpleNamespace(**{"result": None, "error": None, **row}) for row in rows]
        self.searches: list[str] = []
        self.owner_states: list[bool] = []
        monkeypatch.setattr(engine, "_job", self._read)
        monkeypatch.setattr(engine.runner, "look_for_orphans", self._look)
        monkeypatch.setattr(engine.runner.recovery, "has_owner", self._has_owner)
        monkeypatch.setattr(engine.store, "wait_for_change", self._change)

    async def _read(self, job: str) -> Any:
        return self.rows.pop(0)

    async def _look(self, only: str) -> None:
        self.searches.append(only)

    async def _has_owner(self, job: object) -> bool:
        return self.owner_states.pop(0)

    async def _change(self, *_: object) -> None:
        """Return at once, as if something had changed."""


async def test_a_job_whose_process_has_died_is_looked_for_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    result: Any = object()
    job = RemoteJob(engine, monkeypatch, {}, {}, {"result": result})
    job.owner_states = [True, False]
    assert await engine.wait("job_1") is result
    assert job.searches == ["job_1"]


async def test_the_jobs_failure_is_raised(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    error = NotFound("There is none.")
    job = RemoteJob(engine, monkeypatch, {}, {"error": error})
    job.owner_states = [True]
    with pytest.raises(NotFound) as excinfo:
        await engine.wait("job_1")
    assert excinfo.value is error
    assert job.searches == []


async def test_a_job_that_nobody_takes_is_not_waited_for_forever(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_RECOVERY_WAIT", -1.0)
    error = CounselError("It waits for keys.")

    async def missing_keys(job: object) -> tuple[str, ...]:
        return ("OPENAI_API_KEY",)

    monkeypatch.setattr(engine.runner.recovery, "missing_keys", missing_keys)
    monkeypatch.setattr(recovery, "waiting_error", lambda job, keys: error)
    job = RemoteJob(engine, monkeypatch, {})
    job.owner_states = [False]
    with pytest.raises(CounselError) as excinfo:
        await engine.wait("job_1")
    assert excinfo.value is error
