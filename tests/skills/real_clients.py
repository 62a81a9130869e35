"""The real clients' own lists of skills, each obtained in the client's way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.client_programs import COMPILED, environment, program

NOWHERE = "http://127.0.0.1:9"  # needs no API: the lists are sent before the first call


@dataclass(frozen=True)
class ClaudeList:
    skills: list[str]
    commands: list[str]
    plugins: list[str]


def claude(home: Path, cwd: Path, **env: str) -> ClaudeList:
    """The `init` message of a session, which is ended before it calls the API."""
    variables = environment(
        home,
        ANTHROPIC_BASE_URL=NOWHERE,
        ANTHROPIC_API_KEY="none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        **env,
    )
    command = [program("claude"), "-p", "hi", "--output-format", "stream-json", "--verbose"]
    with subprocess.Popen(
        command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            document = next(
                message for message in map(json.loads, process.stdout) if message.get("subtype") == "init"
            )
        finally:
            process.kill()
    plugins = [plugin["source"] for plugin in document["plugins"] if plugin["path"] != "builtin"]
    return ClaudeList(document["skills"], document["slash_commands"], plugins)


def codex(home: Path, cwd: Path, **env: str) -> dict[str, Any]:
    """The app-server's `skills/list` for one folder: `skills` and `errors`."""
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [program("codex"), "app-server"],
        cwd=cwd,
        env=environment(home, **env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        info = {"clientInfo": {"name": "counsel-tests", "title": "tests", "version": "1"}}
        arguments = {"cwds": [str(cwd)], "forceReload": True}
        for message in (
            {"id": 1, "method": "initialize", "params": info},
            {"method": "initialized"},
            {"id": 2, "method": "skills/list", "params": arguments},
        ):
            print(json.dumps({"jsonrpc": "2.0", **message}), file=process.stdin, flush=True)
        try:
            answer = next(message for message in map(json.loads, process.stdout) if message.get("id") == 2)
        finally:
            process.kill()
    return answer["result"]["data"][0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class GeminiSkill:
    name: str
    enabled: bool
    builtin: bool
    location: str


_GEMINI = re.compile(
    r"^(.*) \[(Enabled|Disabled)\]( \[Built-in\])?\n(?:(?!\n  Location:)[\s\S])*?\n  Location:\s+(.*)$",
    re.MULTILINE,
)


def gemini(home: Path, cwd: Path, **env: str) -> list[GeminiSkill]:
    """The skills in the output of `gemini skills list --all`."""
    defaults = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true", "NO_COLOR": "1"}
    variables = environment(home, **{**defaults, **COMPILED, **env})
    with subprocess.Popen(
        [program("gemini"), "skills", "list", "--all"],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            page, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # otherwise its child processes would continue
            raise
    assert process.returncode == 0
    return [
        GeminiSkill(name, state == "Enabled", bool(builtin), location)
        for name, state, builtin, location in _GEMINI.findall(page)
    ]
