"""The values in COUNSEL_HOME/.env are for counsel alone: no agent that it starts gets them, over any interface."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.rigs import script
from counsel import settings
from counsel.agents import environment
from counsel.caller import Caller, local_caller
from counsel.daemon.rpc_server import caller_from_json, caller_to_json
from counsel.engine.engine import open_engine
from counsel.http import app
from support.stdio_client import StdioClient, daemon_pid

OWN = {
    "OPENAI_API_KEY": "sk-counsels-own-0000",
    "ANTHROPIC_API_KEY": "sk-ant-counsels-own-0000",
    "COUNSEL_TOKEN": "its-token",
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose `cursor-agent` records its environment."""
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in OWN.items()))
    (tmp_path / "bin").mkdir()
    script(
        tmp_path / "bin" / "cursor-agent",
        f'env > "{tmp_path}/seen.$$"; mv "{tmp_path}/seen.$$" "{tmp_path}/seen"',
    )
    yield tmp_path
    if (pid := daemon_pid(tmp_path)) is not None:
        os.kill(pid, signal.SIGKILL)


def env(home: Path) -> dict[str, str]:
    path = f"{home / 'bin'}:/usr/bin:/bin"
    variables = {
        "PATH": path,
        "HOME": str(home),
        "COUNSEL_HOME": str(home),
        "COUNSEL_DAEMON_IDLE_SECONDS": "3",
    }
    return {**variables, "CURSOR_API_KEY": "the-callers-own", "COUNSEL_MAX_ATTEMPTS": "1"}


def check(home: Path) -> None:
    variables = (home / "seen").read_text()
    assert "CURSOR_API_KEY=the-callers-own" in variables
    assert not [value for value in OWN.values() if value in variables]


@pytest.mark.parametrize("way", [(), ("--standalone",)])
async def test_the_command_line_passes_none_of_counsels_keys_to_an_agent(
    way: tuple[str, ...], home: Path
) -> None:
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "counsel", "ask", *way, "-m", "cursor", "hello"),
        env=env(home),
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await asyncio.wait_for(asking.communicate(), 60)
    check(home)


@pytest.mark.parametrize("way", [(), ("--standalone",)])
async def test_a_client_passes_none_of_counsels_keys_to_an_agent(way: tuple[str, ...], home: Path) -> None:
    command = [sys.executable, "-m", "counsel", "stdio", "--as", "claude", *way]
    async with StdioClient(home, command=command, env=env(home)) as client:
        await client.initialize(name="claude-code")
        await client.call("askModel", model="cursor", prompt="hello")
    check(home)


async def test_http_passes_none_of_counsels_keys_to_an_agent(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(home)
    callers: list[Caller] = []
    monkeypatch.setattr(engine, "register_caller", callers.append)
    try:
        server = app.build(engine, settings.load(env(home)), host="127.0.0.1", secret="s" * 40)
        await server.close()
    finally:
        await engine.close()
    assert callers[0].env["OPENAI_API_KEY"] == OWN["OPENAI_API_KEY"]  # counsel itself has it
    assert not [
        value for value in OWN.values() if value in environment.for_agent(callers[0], "cursor").values()
    ]


def test_the_daemon_knows_which_keys_are_counsels_own(home: Path) -> None:
    """The askModel service and every program with the Python client use this path."""
    document = caller_to_json(local_caller("test", env(home), home))
    assert not [value for value in OWN.values() if value in str(document)]
    caller = caller_from_json(document)
    assert caller.env["OPENAI_API_KEY"] == OWN["OPENAI_API_KEY"]
    variables = environment.for_agent(caller, "cursor")
    assert variables["CURSOR_API_KEY"] == "the-callers-own"
    assert not [value for value in OWN.values() if value in variables.values()]


def test_an_agent_gets_the_callers_own_key(home: Path) -> None:
    caller = caller_from_json(
        caller_to_json(local_caller("test", {**env(home), "OPENAI_API_KEY": "sk-mine"}, home))
    )
    assert environment.for_agent(caller, "cursor")["OPENAI_API_KEY"] == "sk-mine"
