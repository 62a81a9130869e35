"""What is decided before an agent starts: levels, environment, names, versions, logins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel.agents import definitions, detect, environment, failures, prompt, registry, sandbox
from counsel.agents.claude import run as claude
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.definitions import AGENTS
from counsel.agents.gemini import run as gemini
from counsel.caller import Caller, local_caller
from counsel.types import Call, Image, Turn
from skills.sample_skills import variants


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def caller(home: Path, **env: str) -> Caller:
    return local_caller("test", {"HOME": str(home), "PATH": str(home / "bin"), **env}, home)


# ── levels ──


@pytest.mark.parametrize(
    ("agent", "env", "expected"),
    [
        ("claude", {}, "read-only"),
        ("codex", {}, "read-only"),
        ("codex", {"CODEX_SANDBOX_MODE": "workspace-write"}, "workspace-write"),
        ("claude", {"CODEX_SANDBOX_MODE": "danger-full-access"}, "read-only"),
        ("codex", {"COUNSEL_AGENT_SANDBOX": "danger-full-access"}, "read-only"),
        ("gemini", {"COUNSEL_AGENT_SANDBOX": "workspace-write"}, "workspace-write"),
        ("cursor", {"PERMISSION_MODE": "acceptEdits"}, "workspace-write"),
        ("codex", {"PERMISSION_MODE": "bypassPermissions"}, "danger-full-access"),
        ("codex", {"PERMISSION_MODE": "default"}, "read-only"),
        ("claude", {"PERMISSION_MODE": "no such mode"}, "read-only"),
        ("claude", {"PERMISSION_MODE": "yolo", "COUNSEL_AGENT_SANDBOX": "read-only"}, "read-only"),
    ],
)
def test_which_level_an_agent_gets(agent: str, env: dict[str, str], expected: str, home: Path) -> None:
    assert sandbox.level(AGENTS[agent].name, caller(home, **env).settings) == expected


@pytest.mark.parametrize("levels", [claude.LEVELS, gemini.LEVELS, cursor.LEVELS])
def test_only_the_last_level_bypasses_permissions(levels: dict[str, tuple[str, ...]]) -> None:
    assert list(levels) == ["read-only", "workspace-write", "danger-full-access"]
    dangerous = {"bypassPermissions", "yolo", "disabled"}
    for level, flags in levels.items():
        assert bool(dangerous & set(flags)) == (level == "danger-full-access")


# ── environment ──


def test_an_agent_gets_the_callers_environment_without_marks(home: Path) -> None:
    marks = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CODEX_SANDBOX": "seatbelt",
        "GEMINI_CLI": "1",
    }
    own = {"COUNSEL_TOKEN": "t", "SESSION_ID": "s", "PERMISSION_MODE": "yolo"}
    user_variables = {
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_OAUTH_TOKEN": "o",
        "CLAUDE_CONFIG_DIR": "/c",
        "LANG": "C",
    }
    env = environment.for_agent(caller(home, **marks, **own, **user_variables), "claude")
    assert not (marks.keys() | own.keys()) & env.keys()
    assert user_variables.items() <= env.items()


def test_keys_of_counsels_own_file_stay_with_counsel(home: Path) -> None:
    (home / "counsel").mkdir()
    (home / "counsel" / ".env").write_text("ANTHROPIC_API_KEY=for-counsel\n")
    sender = caller(home, COUNSEL_HOME=str(home / "counsel"))
    assert sender.env["ANTHROPIC_API_KEY"] == "for-counsel"
    assert "ANTHROPIC_API_KEY" not in environment.for_agent(sender, "claude")


def test_the_chain_grows_by_the_agent(home: Path) -> None:
    sender = Caller(settings=caller(home).settings, chain=("claude",))
    assert environment.for_agent(sender, "codex")["COUNSEL_CHAIN"] == "claude,codex"


# ── names ──


def test_a_name_is_an_agent_with_or_without_its_model() -> None:
    assert registry.resolve("codex") == registry.AskableAgent(AGENTS["codex"])
    result = registry.resolve("Claude:opus")
    assert result is not None
    assert (result.agent.name, result.model, result.name) == ("claude", "opus", "claude:opus")
    assert registry.resolve("gpt-5") is None


@pytest.mark.parametrize("name", ["gemini:--yolo", "claude:", "codex:-c", "claude:a b", "codex:x\ny"])
def test_a_model_name_is_never_mistaken_for_an_option(name: str) -> None:
    assert registry.resolve(name) is None


# ── installed agents ──


def program(home: Path, name: str, folder: str = "bin") -> Path:
    path = home / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 9\n")
    path.chmod(0o755)
    return path


def test_agents_that_are_not_installed_say_how_to_install_them(home: Path) -> None:
    for driver in registry.askable_agents().values():
        result = driver.probe(caller(home))
        assert result.path is None
        assert not result.usable
        assert driver.agent.install in result.reason
    assert registry.available(caller(home)) == []


def test_a_program_in_the_working_folder_is_not_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home, "codex", "here")
    monkeypatch.chdir(home / "here")
    assert definitions.locate(AGENTS["codex"], {"PATH": ".:"}) is None
    assert definitions.locate(AGENTS["codex"], {}) is None
    assert definitions.locate(AGENTS["codex"], {"PATH": f".:{home / 'here'}"}) == home / "here" / "codex"


def test_the_version_comes_from_the_package(home: Path) -> None:
    real = program(home, "codex.js", "lib/node_modules/@openai/codex/bin")
    (real.parents[1] / "package.json").write_text(json.dumps({"name": "x", "version": "0.166.0"}))
    (home / "bin").mkdir()
    (home / "bin" / "codex").symlink_to(real)
    result = registry.askable_agents()["codex"].probe(caller(home))
    assert (result.path, result.version, result.logged_in) == (home / "bin" / "codex", "0.166.0", False)
    assert "codex login" in result.reason


def test_the_version_comes_from_the_path(home: Path) -> None:
    real = program(home, "2.1.325", "share/claude/versions")
    assert detect.version(real) == "2.1.325"


@pytest.mark.parametrize(
    ("login_module", "files", "env", "expected"),
    [
        (claude, {}, {}, False),
        (claude, {".claude/.credentials.json": '{"claudeAiOauth": {"accessToken": "x"}}'}, {}, True),
        (claude, {".claude/.credentials.json": "broken"}, {}, False),
        (claude, {".claude/settings.json": '{"apiKeyHelper": "/bin/key"}'}, {}, True),
        (claude, {}, {"ANTHROPIC_API_KEY": "k"}, True),
        (claude, {}, {"CLAUDE_CODE_USE_BEDROCK": "1"}, True),
        (codex, {}, {}, False),
        (codex, {".codex/auth.json": '{"tokens": {"id_token": "x"}}'}, {}, True),
        (codex, {".codex/auth.json": '{"tokens": null, "OPENAI_API_KEY": null}'}, {}, False),
        (codex, {}, {"CODEX_API_KEY": "k"}, True),
        (codex, {".codex/config.toml": 'cli_auth_credentials_store = "keyring"'}, {}, None),
        (
            codex,
            {".codex/config.toml": 'model_provider = "x"\n[model_providers.x]\nenv_key = "X_KEY"'},
            {},
            False,
        ),
        (
            codex,
            {".codex/config.toml": 'model_provider = "x"\n[model_providers.x]\nenv_key = "X_KEY"'},
            {"X_KEY": "k"},
            True,
        ),
        (
            codex,
            {
                ".codex/config.toml": '\ufeffmodel_provider = "x"\nmodel_providers.x = {\n  env_key = "X_KEY",\n}'
            },
            {"X_KEY": "k"},
            True,
        ),
        (gemini, {}, {}, False),
        (gemini, {}, {"GEMINI_API_KEY": "k"}, True),
        (gemini, {}, {"GOOGLE_API_KEY": "k"}, False),
        (
            gemini,
            {".gemini/settings.json": '{"security": {"auth": {"selectedType": "oauth-personal"}}}'},
            {"GEMINI_API_KEY": "k"},
            False,
        ),
        (
            gemini,
            {
                ".gemini/settings.json": '{"security": {"auth": {"selectedType": "oauth-personal"}}}',
                ".gemini/oauth_creds.json": "{}",
            },
            {},
            True,
        ),
        (
            gemini,
            {
                ".gemini/settings.json": '{"security": // mine\n {"auth": {"selectedType": "oauth-personal"}}}',
                ".gemini/oauth_creds.json": "{}",
            },
            {},
            True,
        ),
        (
            gemini,
            {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
            {},
            None,
        ),
        (cursor, {}, {}, False),
        (cursor, {}, {"CURSOR_API_KEY": "k"}, True),
        (cursor, {".config/cursor/auth.json": "{}"}, {}, True),
    ],
)
def test_which_login_is_reported(
    login_module: object, files: dict[str, str], env: dict[str, str], expected: bool | None, home: Path
) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    assert login_module.login(caller(home, **env))[0] is expected  # type: ignore[attr-defined]


SETTINGS = {
    ".claude/.credentials.json": {"claudeAiOauth": {"accessToken": "x"}},
    ".claude/settings.json": {"apiKeyHelper": "x"},
    ".codex/auth.json": {"tokens": {"a": "b"}},
    ".codex/config.toml": {"model_provider": "p", "model_providers": {"p": {"env_key": "K"}}},
    ".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    ".cursor/cli-config.json": {"authInfo": {"a": "b"}},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_another_shape_stop_nothing(name: str, home: Path) -> None:
    (home / name).parent.mkdir(parents=True)
    for odd in variants(SETTINGS[name]):
        rows = [f"{key} = {_toml(value)}" for key, value in odd.items()] if isinstance(odd, dict) else []
        (home / name).write_text("\n".join(rows) if name.endswith("toml") else json.dumps(odd))
        assert all(driver.probe(caller(home)).path is None for driver in registry.askable_agents().values())
        assert [
            module.login(caller(home))[0] in {True, False, None} for module in (claude, codex, gemini, cursor)
        ]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if value is not None else '""'


# ── messages and prompts ──


def test_errors_never_repeat_a_key() -> None:
    words = "\x1b[31mIncorrect API key provided: sk-12345678.\x1b[0m"
    assert failures.clean(words, {"X_API_KEY": "sk-12345678"}) == "Incorrect API key provided: ***."
    assert len(failures.clean("x" * 5000, {})) < 700


def test_how_a_prompt_is_put_together() -> None:
    turns = (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three"))
    call = Call(turns, system="Be brief.", files=(Path("/p/a.txt"), Path("/p/b")), ranges=("", "1-2, 9-12"))
    with_history, with_session = prompt.compose(call, history=True), prompt.compose(call, history=False)
    assert all(word in with_history for word in ("Be brief.", "one", "two", "three"))
    assert "\n- /p/a.txt\n- /p/b (lines 1-2, 9-12)\n" in with_history
    assert with_history.index("</conversation>") < with_history.index("three")
    assert "one" not in with_session
    assert "<conversation>" not in prompt.compose(Call(turns[-1:]), history=True)


def test_the_images_block_is_closed_and_numbered() -> None:
    block = prompt.images_block([Path("/p/1.png"), Path("/p/2.png")])
    assert block.startswith("<images_input>\n")
    assert block.endswith("\n1. /p/1.png\n2. /p/2.png\n</images_input>")


def test_images_of_earlier_turns_are_sent_only_with_the_history() -> None:
    first, second = Image("image/png", b"1"), Image("image/png", b"2")
    call = Call((Turn("user", "a", (first,)), Turn("assistant", "b"), Turn("user", "c", (second,))))
    assert prompt.images(call, history=True) == (first, second)
    assert prompt.images(call, history=False) == (second,)
