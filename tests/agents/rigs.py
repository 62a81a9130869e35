"""Each agent set up against the loopback fake: a home of its own, its config, its keys, its program.

Claude Code, Codex, Gemini CLI and OpenCode are the real ones from npm. Cursor's CLI needs an account: `fake_cursor.py`
has its documented interface instead.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from counsel.caller import Caller, local_caller
from counsel.types import Call, Image, Limits, Turn
from fake import FakeAPI
from support.client_programs import CLIENTS, COMPILED, program

KEY = "key-of-the-test-1234"


def real(name: str) -> Path:
    return Path(program(name))


@dataclass
class Rig:
    name: str
    vendor: str  # the fake's name for the API that the agent uses
    home: Path
    project: Path
    env: dict[str, str]
    writes: dict[str, object] = field(default_factory=dict)  # a tool call that would write `touched`

    @property
    def patience(self) -> float:
        """Seconds: enough for a first word on a busy machine, and short enough for a test that expects none."""
        return {"claude": 3.0, "codex": 3.0, "gemini": 6.0, "cursor": 1.0, "opencode": 12.0}[self.name]

    def logged_out(self, fake: FakeAPI) -> Caller:
        """A caller without a key or a login. Codex without a custom provider asks OpenAI, which is the fake here."""
        if self.name == "codex":
            config = self.home / ".codex" / "config.toml"
            config.write_text(f'model = "gpt-5.1"\nopenai_base_url = "{fake.v1}"\n')
            fake.keys = {"nobody's"}
        if self.name == "gemini":
            (self.home / ".gemini" / "settings.json").unlink()
        if self.name == "opencode":
            (self.home / ".config" / "opencode" / "opencode.json").unlink()
        secrets = ("ANTHROPIC_API_KEY", "FAKE_API_KEY", "GEMINI_API_KEY", "CURSOR_API_KEY")
        return local_caller(self.name, {k: v for k, v in self.env.items() if k not in secrets}, self.project)

    @property
    def reports_usage(self) -> bool:
        return self.name != "cursor"  # its interface has none

    def caller(self, **env: str) -> Caller:
        return local_caller(self.name, {**self.env, **env}, self.project)

    def call(self, *texts: str, session: str | None = None, images: tuple[Image, ...] = ()) -> Call:
        """Turns that alternate, the user's last; the images are sent with it."""
        roles = ["user" if (len(texts) - place) % 2 else "assistant" for place in range(len(texts))]
        turns = [Turn(role, text) for role, text in zip(roles, texts, strict=True)]  # type: ignore[arg-type]
        turns[-1] = Turn("user", texts[-1], images)
        return Call(tuple(turns), cwd=self.project, session=session)


LIMITS = Limits(total=60.0, attempts=1)


def _base(name: str, fake: FakeAPI, home: Path, project: Path, programs: Path) -> dict[str, str]:
    for folder in (home, project, programs):
        folder.mkdir(parents=True, exist_ok=True)
    trust(home, project)
    return {
        "PATH": os.pathsep.join([str(programs), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(home),
        "COUNSEL_HOME": str(home / "counsel"),
        "COUNSEL_MAX_ATTEMPTS": "1",
        "COUNSEL_TEST_MARK": f"{name}:{home}",
    }


def claude(fake: FakeAPI, tmp: Path) -> Rig:
    home, project, programs = tmp / "home", tmp / "project", tmp / "bin"
    env = _base("claude", fake, home, project, programs)
    _link(programs, "claude", "node")
    env |= {"ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": KEY}
    env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    writes: dict[str, object] = {
        "name": "Write",
        "arguments": {"file_path": str(project / "touched"), "content": "x"},
    }
    return Rig("claude", "anthropic", home, project, env, writes)


def codex(fake: FakeAPI, tmp: Path) -> Rig:
    home, project, programs = tmp / "home", tmp / "project", tmp / "bin"
    env = _base("codex", fake, home, project, programs)
    _link(programs, "codex", "node")
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        f"""
        model = "gpt-5.1"
        model_provider = "fake"
        [model_providers.fake]
        name = "fake"
        base_url = "{fake.v1}"
        wire_api = "responses"
        env_key = "FAKE_API_KEY"
        request_max_retries = 0
        stream_max_retries = 0
        """
    )
    env |= {"FAKE_API_KEY": KEY}
    writes: dict[str, object] = {"name": "exec_command", "arguments": {"cmd": f"touch {project / 'touched'}"}}
    return Rig("codex", "openai-responses", home, project, env, writes)


def gemini(fake: FakeAPI, tmp: Path) -> Rig:
    home, project, programs = tmp / "home", tmp / "project", tmp / "bin"
    env = _base("gemini", fake, home, project, programs)
    _link(programs, "gemini", "node")
    (home / ".gemini").mkdir(exist_ok=True)
    # a named model: `auto` first asks a small model to choose, which the fake's echo cannot answer
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": "gemini-2.5-flash"},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    env |= {"GOOGLE_GEMINI_BASE_URL": fake.url, "GEMINI_API_KEY": KEY, **COMPILED}
    writes: dict[str, object] = {
        "name": "write_file",
        "arguments": {"file_path": str(project / "touched"), "content": "x"},
    }
    return Rig("gemini", "gemini", home, project, env, writes)


def cursor(fake: FakeAPI, tmp: Path) -> Rig:
    home, project, programs = tmp / "home", tmp / "project", tmp / "bin"
    env = _base("cursor", fake, home, project, programs)
    stand_in = Path(__file__).with_name("fake_cursor.py")
    script(programs / "cursor-agent", f'exec "{sys.executable}" -I -S "{stand_in}" "$@"')
    env |= {"STAND_IN_URL": fake.v1, "CURSOR_API_KEY": KEY}
    writes: dict[str, object] = {"name": "write", "arguments": {"path": str(project / "touched")}}
    return Rig("cursor", "openai-chat", home, project, env, writes)


def opencode(fake: FakeAPI, tmp: Path) -> Rig:
    home, project, programs = tmp / "home", tmp / "project", tmp / "bin"
    env = _base("opencode", fake, home, project, programs)
    _link(programs, "opencode")
    config = home / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    # not called gpt: OpenCode gives those another tool to write with
    model = {
        "name": "Some",
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
    }
    options = {"baseURL": fake.v1, "apiKey": "{env:FAKE_API_KEY}"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options}
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "model": "fake/some-model",
        "provider": {"fake": {**provider, "models": {"some-model": model}}},
    }
    config.write_text(json.dumps(settings))
    # its own list of models, which no test needs, takes two of the six seconds that it needs to start
    models = home / "models.json"
    models.write_text("{}")
    env |= {"FAKE_API_KEY": KEY, "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_MODELS_PATH": str(models)}
    writes: dict[str, object] = {
        "name": "write",
        "arguments": {"filePath": str(project / "touched"), "content": "x"},
    }
    return Rig("opencode", "openai-chat", home, project, env, writes)


def start_once(rig: Rig) -> None:
    """Keep Gemini CLI from restarting itself with more memory, which takes half of its start.

    counsel removes the variable for this from an agent's environment, so a script sets it.
    """
    path = rig.project.parent / "bin" / "gemini"
    path.unlink()
    script(path, f'GEMINI_CLI_NO_RELAUNCH=true exec "{real("gemini")}" "$@"')


def trust(home: Path, project: Path) -> None:
    """Trust the project as its user, so that agents are started in it (test_hostile_folder.py has other folders)."""
    document = {"projects": {os.path.realpath(project): {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(document))


def distrust(rig: Rig) -> Rig:
    """Return the same rig in a folder that no agent was told to trust."""
    (rig.home / ".claude.json").unlink()
    return rig


RIGS: dict[str, Callable[[FakeAPI, Path], Rig]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "cursor": cursor,
    "opencode": opencode,
}


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _link(programs: Path, *names: str) -> None:
    for name in names:
        (programs / name).unlink(missing_ok=True)
        if name == "node" and not (CLIENTS / "node").exists():
            (programs / name).symlink_to(shutil.which("node") or real(name))
        else:
            (programs / name).symlink_to(real(name))


def processes_of(rig: Rig) -> list[int]:
    """Every live process with any parent that was started for this rig."""
    mark = rig.env["COUNSEL_TEST_MARK"].encode()
    matches = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes():
                matches.append(int(entry.parent.name))
        except OSError:
            continue
    return matches
