"""The MCP project's own conformance suites against `counsel serve`, in every revision that they know.

The other scenarios of the suites ask for a reference server's tools, prompts and resources (`test_image_content` …).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.client_programs import CLIENTS, ROOT, missing

SUITES = ROOT / ".cache" / "conformance" / "node_modules"

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.xdist_group("conformance")]

_ANY = ["tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress"]
_ANY += ["resources-list", "prompts-list", "dns-rebinding-protection", "server-sse-multiple-streams"]
_HANDSHAKE = [*_ANY, "server-initialize", "ping", "logging-set-level"]
_STATELESS = [*_ANY, "server-stateless", "caching", "http-header-validation", "sep-2164-resource-not-found"]
CASES = [
    *(("handshake", None, name) for name in _HANDSHAKE),
    *(
        ("stateless", "2025-06-18", name)
        for name in ("server-initialize", "server-session-lifecycle", "ping")
    ),
    *(("stateless", "2025-11-25", name) for name in (*_HANDSHAKE, "server-session-lifecycle")),
    *(("stateless", "2026-07-28", name) for name in _STATELESS),
]


def suite(name: str) -> list[str]:
    program = SUITES / f"conformance-{name}" / "dist" / "index.js"
    if not program.exists():
        missing(f"{program} is not there: run `make clients`")
    node = CLIENTS / "node"
    return [str(node) if node.exists() else "node", str(program)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).parent / "serve_with_token.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


@pytest.fixture(scope="module")
def results(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str | None], dict[str, Any]]:
    """All scenarios of a suite in one run: the checks of each, by its name."""

    @cache
    def run(name: str, version: str | None) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("conformance")
        command = [*suite(name), "server", "--url", address, "--suite", "all", "-o", str(folder)]
        command += ["--spec-version", version] if version else []
        subprocess.run(command, capture_output=True, check=False, timeout=300)
        return {_scenario(file): json.loads(file.read_text()) for file in folder.rglob("checks.json")}

    return run


def _scenario(file: Path) -> str:
    """The scenario of a results folder, which is called `server-NAME-2026-11-15T…`."""
    return re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name).removeprefix("server-")


@pytest.mark.parametrize(("name", "version", "scenario"), CASES)
def test_a_scenario_of_the_conformance_suite_passes(
    results: Any, name: str, version: str | None, scenario: str
) -> None:
    checks = results(name, version)[scenario]
    failures = [check for check in checks if check["status"] == "FAILURE" and not _untestable(check)]
    assert not failures, json.dumps(failures, indent=1)
    assert any(check["status"] == "SUCCESS" for check in checks)


def _untestable(check: dict[str, str]) -> bool:
    """The suite says so itself: the check needs a tool of the reference server."""
    return str(check.get("errorMessage", "")).startswith("Not testable")
