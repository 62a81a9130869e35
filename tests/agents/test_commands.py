"""How each agent is started and what it is sent, for every kind of request (tests/golden/agent_commands.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import counsel
from agents.reading import request_to
from counsel.agents.claude import run as claude
from counsel.agents.codex import exec as codex_exec
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.driver import AgentRequest, Send
from counsel.agents.gemini import run as gemini
from counsel.agents.opencode import run as opencode
from counsel.agents.process import Command
from counsel.caller import local_caller
from counsel.types import Call, Image, ModelSettings, Turn

GOLDEN = Path(__file__).parent.parent / "golden" / "agent_commands.txt"
COMMANDS: dict[str, tuple[str, Callable[[AgentRequest], Command]]] = {
    "claude": ("claude", claude.command),
    "codex": ("codex", codex.command),
    "codex exec": ("codex", codex_exec.command),
    "gemini": ("gemini", gemini.command),
    "cursor": ("cursor", cursor.command),
    "opencode": ("opencode", opencode.command),
}
TRUSTED = "everybody trusts the folder"
IMAGE = Image("image/png", b"\x89PNG\r\n\x1a\npixels", "a.png")


def requests(agent: str, home: Path, project: Path) -> Iterator[tuple[str, AgentRequest]]:
    env = {"HOME": str(home), "OPENAI_API_KEY": "hush-hush", "COUNSEL_HOME": str(home / "counsel")}
    plain = request_to(agent, env=env, caller=local_caller("cli", env, project), cwd=project, start=project)
    call = replace(plain.call, cwd=project)
    plain = replace(plain, call=call)
    yield "plain", plain
    yield "its session", replace(plain, session="11111111-1111-4111-8111-111111111111")
    yield "a model", replace(plain, model="of-its-own")
    for level in ("workspace-write", "danger-full-access"):
        yield level, replace(plain, level=level)
    for name, model_settings in {
        "web search": ModelSettings(web_search=True),
        "effort": ModelSettings(effort="high"),
        "verbosity": ModelSettings(verbosity="low"),
    }.items():
        yield name, replace(plain, call=replace(call, model_settings=model_settings))
    yield "a file elsewhere", replace(plain, call=replace(call, files=(home / "other" / "note.txt",)))
    yield "an image", replace(plain, call=replace(call, turns=(Turn("user", "look", images=(IMAGE,)),)))
    turns = (Turn("user", "first"), Turn("assistant", "yes"), Turn("user", "/then @note"))
    yield "a conversation", replace(plain, call=Call(turns, cwd=project, system="Be brief."))
    yield (
        "a key for Codex",
        replace(plain, caller=local_caller("cli", {**env, "CODEX_API_KEY": "of-codex"}, project)),
    )
    yield "an untrusted folder", replace(plain, start=home / "empty")
    yield TRUSTED, plain


def set_up(home: Path, project: Path, *, trusted: bool) -> None:
    """A login for Codex, one of the user's servers in each agent, and a project with instructions of its own."""
    for folder in (home / "empty", home / "other", home / ".codex", home / ".gemini", project / ".git"):
        folder.mkdir(parents=True)
    (project / "CLAUDE.md").write_text("Be kind.")
    (home / ".codex" / "auth.json").write_text('{"OPENAI_API_KEY": "k"}')
    server: dict[str, Any] = {"mine": {"command": "python3", "args": ["-m", "x"]}}
    folders = {str(project): {"hasTrustDialogAccepted": True}} if trusted else {}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": server, "projects": folders}))
    level = f'[projects."{project}"]\ntrust_level = "trusted"\n' if trusted else ""
    (home / ".codex" / "config.toml").write_text(f'[mcp_servers.mine]\ncommand = "python3"\n{level}')
    (home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": server}))
    rules = {str(project): "TRUST_FOLDER"} if trusted else {}
    (home / ".gemini" / "trustedFolders.json").write_text(json.dumps(rules))
    config = home / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"mcp": {"mine": {"type": "local", "command": ["python3", "-m", "x"]}}}')


def description(command: Command, request: AgentRequest) -> list[str]:
    added_variables = {name: value for name, value in command.env.items() if request.env.get(name) != value}
    removed_names = [name for name in request.env if name not in command.env]
    lines = command.stdin.decode().splitlines()
    parts = [
        "argv " + json.dumps(command.argv[1:]),
        f"in {command.cwd}",
        *(f"env {name}={value}" for name, value in sorted(added_variables.items())),
        *(f"without {name}" for name in removed_names),
        *(f"stdin {line}" for line in lines),
        *(f"note {note}" for note in command.notes),
    ]
    return parts + (["stdin stays open"] if command.dialog else [])


def dialog(reader: Any, *replies: dict[str, Any]) -> list[str]:
    """The messages that a reader sends after each of these replies."""
    messages = [step for line in replies for step in reader.feed(line) if isinstance(step, Send)]
    return [f"sends {json.dumps(step.message)}" for step in messages]


def codex_dialog(request: AgentRequest) -> list[str]:
    login = [{"id": 2, "result": {}}] if request.caller.settings.codex_api_key else []
    thread = {"id": 3, "result": {"thread": {"id": "t1"}, "model": "m"}}
    return dialog(codex.Reader(request), {"id": 1, "result": {}}, *login, thread)


def opencode_dialog(request: AgentRequest) -> list[str]:
    return dialog(opencode.Reader(request), {"id": 1, "result": {}}, {"id": 2, "result": {"sessionId": "s1"}})


DIALOGS = {"codex": codex_dialog, "opencode": opencode_dialog}


def test_every_request_of_every_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = []
    for name, (agent, command) in COMMANDS.items():
        for kind in (kind for kind, _ in requests(agent, Path("/x"), Path("/x"))):
            home, project = tmp_path / name / kind / "home", tmp_path / name / kind / "project"
            set_up(home, project, trusted=kind == TRUSTED)
            request = dict(requests(agent, home, project))[kind]
            lines += [f"# {name}: {kind}", *description(command(request), request)]
            if name in DIALOGS:
                lines += DIALOGS[name](request)
            lines = [line.replace(str(tmp_path / name / kind), "TOP") for line in lines]
    text = "\n".join(lines).replace(str(Path(counsel.__file__).parent), "COUNSEL") + "\n"
    text = re.sub(r'("version": ")[^"]*', r"\1VERSION", text)
    text = re.sub(r"links/[0-9a-f]{16}", "links/HASH", text)  # of the project's path
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
