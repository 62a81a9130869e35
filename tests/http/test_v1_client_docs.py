"""The examples of docs/use/v1-clients.md, run unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fake import FakeAPI
from support import client_processes as clients
from support.client_programs import CLIENTS, ROOT, program
from support.v1 import V1, served

pytestmark = pytest.mark.client
PAGE = (ROOT / "docs" / "use" / "v1-clients.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:3157"
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    for section in PAGE.split("\n## ")[1:]
}
PYTHON = {"LangChain": "langchain"}  # sections whose Python has an environment of its own
PROGRAMS = {"llm": "llm", "aider": "aider"}


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path / "counsel", fake_api) as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository, which Codex and aider want, beside an empty home."""
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    home = tmp_path / "home"
    (home / ".codex").mkdir(parents=True)
    (home / ".aider.conf.yml").write_text(
        "analytics: false\ncheck-update: false\nyes-always: true\nshow-release-notes: false\n"
    )
    prices = home / ".aider" / "caches" / "model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}')  # with it, aider does not look for prices on the internet
    return folder


def _command(section: str, language: str, code: str, project: Path) -> list[str]:
    if language == "python":
        own = PYTHON.get(section)
        return [clients.python(own) if own else sys.executable, "-c", code]
    if language == "ts":
        clients.node_project(project)
        # Node 20 does not run TypeScript; the examples have one annotation of it
        (project / "example.mjs").write_text(code.replace(" as const", ""))
        return [clients.node(), "example.mjs"]
    return ["bash", "-euc", code]


def test_every_client_has_an_example() -> None:
    assert len(SECTIONS) == 10
    assert all(examples for examples in SECTIONS.values())


@pytest.mark.parametrize("section", SECTIONS)
async def test_an_example_runs(v1: V1, project: Path, section: str) -> None:
    home = project.parent / "home"
    env = clients.environment(
        home,
        v1.url,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        GIT_CONFIG_NOSYSTEM="1",
    )
    if own := PROGRAMS.get(section):
        env["PATH"] = f"{Path(clients.python(own)).parent}{os.pathsep}{env['PATH']}"
    if section in {"Claude Code", "Codex"}:
        program(section.split(maxsplit=1)[0].lower())
        env["PATH"] = f"{CLIENTS}{os.pathsep}{env['PATH']}"
    for language, example in SECTIONS[section]:
        code = example.replace(ADDRESS, v1.url)
        if language == "toml":
            (home / ".codex" / "config.toml").write_text(code)
            continue
        output = await clients.run(*_command(section, language, code, project), cwd=project, env=env)
        assert "says: " in output
    shutil.rmtree(home, ignore_errors=True)
