"""Loaded by pytest in a checkout: runs the listed tests in the listed order, or records which lines each test
reaches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import hook
from tools.mutants.packages import ROOT

NOTES = ROOT / ".mutants"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (NOTES / "order").exists():
        return
    order = {name: place for place, name in enumerate((NOTES / "order").read_text().splitlines())}
    rest = [item for item in items if item.nodeid not in order]
    config.hook.pytest_deselected(items=rest)
    items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    hook.switch(item.nodeid)
    yield


_seconds: dict[str, float] = {}
_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:  # includes skipped tests, which prove nothing
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    tests: dict[str, Any] = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    Path(NOTES / "tests.json").write_text(json.dumps({"passed": tests, "failed": sorted(_failed)}))
