"""Callers' catalogs are cached, and only those of the most recent callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.consult import routes
from counsel.engine.consult.routes import Router
from counsel.models.transport import Transport
from counsel.settings import load


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    router_ = Router(Transport())
    yield router_
    await router_.close()


def caller(home: Path, **env: str) -> Caller:
    return Caller(settings=load({"COUNSEL_HOME": str(home), **env}))


async def test_a_caller_has_one_catalog_as_long_as_its_settings_are_the_same(
    router: Router, tmp_path: Path
) -> None:
    first, second = caller(tmp_path), caller(tmp_path)
    assert router.catalog(first) is router.catalog(first)
    assert router.catalog(second) is not router.catalog(first)


async def test_catalogs_of_many_callers_are_dropped_the_oldest_first(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_MOST", 2)
    callers = [caller(tmp_path) for _ in range(4)]
    first, *_, last = [router.catalog(caller_) for caller_ in callers]
    assert len(router._catalogs) == 2
    assert router.catalog(callers[-1]) is last
    assert router.catalog(callers[0]) is not first


async def test_routes_are_cached_up_to_a_limit(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_MOST", 2)
    caller_ = caller(tmp_path, OPENAI_API_KEY="sk-test-0000000000000000")
    assert router.route("gpt-5", caller_) is router.route("gpt-5", caller_)
    for name in ("gpt-5-mini", "gpt-5-nano", "o3", "gpt-4.1"):
        router.route(name, caller_)
    (entry,) = router._catalogs.values()
    assert len(entry.routes) <= 3
