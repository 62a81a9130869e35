"""What the agents' own files say about a folder's trust and about a login."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel.agents import failures, trust
from counsel.agents.claude import login as claude_login
from counsel.agents.claude import run as claude
from counsel.agents.codex import run as codex
from counsel.agents.cursor import login as cursor_login
from counsel.agents.cursor import run as cursor
from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.detect import describe, inside, read_json, version
from counsel.agents.gemini import run as gemini
from counsel.agents.opencode import run as opencode
from counsel.caller import local_caller
from counsel.errors import CounselError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "work" / "project"
    (project / "inner").mkdir(parents=True)
    return project


def put(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def claude_says(home: Path, folder: Path, answer: object) -> None:
    put(home / ".claude.json", {"projects": {str(folder): {"hasTrustDialogAccepted": answer}}})


def codex_says(home: Path, folder: Path, level: str) -> None:
    put(home / ".codex" / "config.toml", f'[projects."{folder}"]\ntrust_level = "{level}"\n')


def gemini_says(home: Path, rules: dict[str, Any]) -> None:
    put(home / ".gemini" / "trustedFolders.json", rules)


def test_without_an_answer_of_the_user_no_agent_trusts_the_folder(home: Path, project: Path) -> None:
    workspace = Workspace(home, {}, project)
    assert [trust.by_agent(name, workspace) for name in ("claude", "codex", "gemini", "cursor")] == [None] * 4
    assert not trust.trusted(workspace)


@pytest.mark.parametrize(("answer", "expected"), [(True, True), (False, None), ("yes", None)])
def test_claudes_answer_holds_for_folders_inside(
    home: Path, project: Path, answer: object, expected: bool | None
) -> None:
    claude_says(home, project, answer)
    assert trust.by_agent("claude", Workspace(home, {}, project / "inner")) is expected
    assert trust.by_agent("claude", Workspace(home, {}, project.parent)) is None
    assert trust.trusted(Workspace(home, {}, project / "inner")) is bool(expected)


@pytest.mark.parametrize(("level", "expected"), [("trusted", True), ("untrusted", False)])
def test_codexs_answer_holds_for_the_folder_or_its_repository(
    home: Path, project: Path, level: str, expected: bool
) -> None:
    codex_says(home, project, level)
    assert trust.by_agent("codex", Workspace(home, {}, project)) is expected
    assert trust.by_agent("codex", Workspace(home, {}, project / "inner")) is None
    (project / ".git").mkdir()
    assert trust.by_agent("codex", Workspace(home, {}, project / "inner")) is expected
    assert trust.trusted(Workspace(home, {}, project)) is expected


def test_distrust_by_one_agent_outweighs_trust_by_another(home: Path, project: Path) -> None:
    claude_says(home, project, answer=True)
    assert trust.trusted(Workspace(home, {}, project))
    codex_says(home, project, "untrusted")
    assert not trust.trusted(Workspace(home, {}, project))
    assert trust.trusted(Workspace(home, {}, home), project) is False


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"{project}": "TRUST_FOLDER"}, True),
        ({"{project}/inner": "TRUST_PARENT"}, True),
        ({"{project}": "DO_NOT_TRUST"}, False),
        ({"{project}/inner": "TRUST_FOLDER"}, None),
        ({"{parent}": "TRUST_FOLDER", "{project}": "DO_NOT_TRUST"}, False),
        ({"{project}": "DO_NOT_TRUST", "{parent}": "TRUST_FOLDER"}, False),
        ({"{parent}": "DO_NOT_TRUST", "{project}": "TRUST_FOLDER"}, True),
        ({"project": "TRUST_FOLDER"}, None),
        ({"{project}": ["TRUST_FOLDER"]}, False),
        ({"{project}\0": "TRUST_FOLDER"}, None),
    ],
)
def test_geminis_longest_rule_counts(
    home: Path, project: Path, rules: dict[str, Any], expected: bool | None
) -> None:
    names = {"{project}": str(project), "{parent}": str(project.parent)}
    for name, real in names.items():
        rules = {path.replace(name, real): level for path, level in rules.items()}
    gemini_says(home, rules)
    assert trust.by_agent("gemini", Workspace(home, {}, project)) is expected
    env = {"GEMINI_CLI_TRUSTED_FOLDERS_PATH": str(home / "rules.json")}
    assert trust.by_agent("gemini", Workspace(home, env, project)) is None
    put(home / "rules.json", rules)
    assert trust.by_agent("gemini", Workspace(home, env, project)) is expected


@pytest.mark.parametrize(
    ("env", "settings", "expected"),
    [
        ({}, {}, None),
        ({"GEMINI_CLI_TRUST_WORKSPACE": "true"}, {}, True),
        ({"GEMINI_CLI_TRUST_WORKSPACE": "false"}, {"security": {"folderTrust": {"enabled": False}}}, False),
        ({"GEMINI_RESTRICTED_MODE": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"}, {}, False),
        ({"GEMINI_RESTRICTED_MODE": "false"}, {}, None),
        ({}, {"security": {"folderTrust": {"enabled": False}}}, True),
        ({}, {"security": {"folderTrust": {"enabled": True}}}, None),
    ],
)
def test_geminis_settings_for_all_folders(
    home: Path, project: Path, env: dict[str, str], settings: Any, expected: bool | None
) -> None:
    put(home / ".gemini" / "settings.json", settings)
    assert trust.by_agent("gemini", Workspace(home, env, project)) is expected
    assert not trust.trusted(Workspace(home, env, project))  # nothing about this folder


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_folder_cannot_vouch_for_itself(home: Path, project: Path, agent: str) -> None:
    claude_says(project, project, answer=True)
    codex_says(project, project, "trusted")
    gemini_says(project, {str(project): "TRUST_FOLDER"})
    relative = {"claude": ".", "codex": ".codex", "gemini": "."}[agent]
    inside_it = Workspace(home, {trust.FOLDER_VARIABLES[agent]: relative}, project)
    assert trust.moved_inside(agent, inside_it)
    assert trust.by_agent(agent, inside_it) is None
    assert not trust.trusted(inside_it)
    elsewhere = Workspace(home, {trust.FOLDER_VARIABLES[agent]: str(project / relative)}, project)
    assert not trust.moved_inside(agent, elsewhere)
    assert trust.by_agent(agent, elsewhere) is True
    assert not trust.moved_inside("cursor", inside_it)


# ── logins ──

PROVIDER = 'model_provider = "x"\n[model_providers.x]\n'
OAUTH = {"security": {"auth": {"selectedType": "oauth-personal"}}}


@pytest.mark.parametrize(
    ("agent", "files", "env", "expected"),
    [
        (claude, {}, {}, (False, "")),
        (claude, {".claude/.credentials.json": {"claudeAiOauth": {"a": 1}}}, {"ANTHROPIC_API_KEY": "k"}, (True, "its own login")),
        (claude, {}, {"ANTHROPIC_API_KEY": "k"}, (True, "ANTHROPIC_API_KEY")),
        (claude, {".claude/settings.json": {"apiKeyHelper": "/k"}}, {}, (True, "apiKeyHelper")),
        (codex, {}, {"CODEX_API_KEY": "k"}, (True, "CODEX_API_KEY")),
        (codex, {".codex/auth.json": {"OPENAI_API_KEY": "k"}}, {}, (True, "its own login")),
        (codex, {".codex/auth.json": {"tokens": {"a": "b"}}}, {}, (True, "its own login")),
        (codex, {".codex/config.toml": PROVIDER}, {}, (True, "provider x")),
        (codex, {".codex/config.toml": PROVIDER + "requires_openai_auth = true"}, {}, (False, "")),
        (codex, {".codex/config.toml": PROVIDER + 'env_key = "K"'}, {}, (False, "")),
        (codex, {".codex/config.toml": PROVIDER + 'env_key = "K"'}, {"K": "k"}, (True, "provider x")),
        (codex, {".codex/config.toml": 'model_provider = "openai"'}, {}, (False, "")),
        (codex, {".codex/config.toml": 'cli_auth_credentials_store = "auto"'}, {}, (None, "its login is in the system's keyring")),
        (codex, {".codex/config.toml": 'cli_auth_credentials_store = "file"'}, {}, (False, "")),
        (codex, {".codex/config.toml": "broken = "}, {}, (False, "")),
        (gemini, {}, {"GOOGLE_GENAI_USE_GCA": "true", "GEMINI_API_KEY": "k"}, (False, "")),
        (gemini, {".gemini/oauth_creds.json": {}}, {"GOOGLE_GENAI_USE_GCA": "true"}, (True, "its own login")),
        (gemini, {".gemini/oauth_creds.json": {}}, {"GOOGLE_GENAI_USE_GCA": "no"}, (False, "")),
        (gemini, {".gemini/oauth_creds.json": {}, ".gemini/settings.json": OAUTH}, {}, (True, "its own login")),
        (gemini, {".gemini/settings.json": {"security": {"auth": {"selectedType": "vertex-ai"}}}}, {"GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_CLOUD_PROJECT": "p"}, (True, "GOOGLE_CLOUD_PROJECT")),
        (gemini, {".gemini/settings.json": {"security": {"auth": {"selectedType": "vertex-ai"}}}}, {}, (False, "")),
        (gemini, {".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}}}, {"GEMINI_API_KEY": "k"}, (True, "GEMINI_API_KEY")),
        (gemini, {".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}}}, {"GOOGLE_API_KEY": "k"}, (None, "its key may be in the system's keychain")),
        (gemini, {}, {"GEMINI_API_KEY": "k"}, (True, "GEMINI_API_KEY")),
        (gemini, {}, {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "k"}, (True, "GOOGLE_API_KEY")),
        (gemini, {}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, (False, "")),
        (gemini, {}, {"GOOGLE_CLOUD_PROJECT": "p"}, (False, "")),
        (cursor, {}, {"CURSOR_AUTH_TOKEN": "k"}, (True, "CURSOR_AUTH_TOKEN")),
        (cursor, {".config/cursor/auth.json": {}}, {}, (True, "its own login")),
        (cursor, {"xdg/cursor/auth.json": {}}, {"XDG_CONFIG_HOME": "{home}/xdg"}, (True, "its own login")),
        (cursor, {".cursor/cli-config.json": {"authInfo": {"a": 1}}}, {}, (True, "its own login")),
        (cursor, {".config/cursor/cli-config.json": {"authInfo": {"a": 1}}}, {}, (True, "its own login")),
        (cursor, {".cursor/cli-config.json": {"authInfo": {"a": 1}}}, {"CURSOR_CONFIG_DIR": "{home}/c"}, (False, "")),
        (cursor, {"c/cli-config.json": {"authInfo": {"a": 1}}}, {"CURSOR_CONFIG_DIR": "{home}/c"}, (True, "its own login")),
        (cursor, {".cursor/cli-config.json": {}}, {}, (False, "")),
        (opencode, {".local/share/opencode/auth.json": {"openai": {}}}, {}, (True, "its own login")),
        (opencode, {"d/opencode/auth.json": {"openai": {}}}, {"XDG_DATA_HOME": "{home}/d"}, (True, "its own login")),
        (opencode, {"d/opencode/auth.json": {"openai": {}}}, {"XDG_DATA_HOME": "d"}, (False, "")),
        (opencode, {".config/opencode/opencode.json": {"provider": {"x": {}}, "model": "x/y"}}, {}, (True, "a provider in {home}/.config/opencode")),
        (opencode, {".config/opencode/opencode.json": {"provider": {"x": {}}}}, {}, (False, "")),
        (opencode, {"opencode.json": {"provider": {"x": {}}, "model": "x/y"}}, {}, (False, "")),
        (opencode, {}, {"ANTHROPIC_API_KEY": "k"}, (True, "ANTHROPIC_API_KEY")),
    ],
)  # fmt: skip
def test_how_an_agent_is_logged_in(
    agent: Any, files: dict[str, Any], env: dict[str, str], expected: tuple[bool | None, str], home: Path
) -> None:
    for name, value in files.items():
        put(home / name, value)
    variables = {name: value.replace("{home}", str(home)) for name, value in env.items()}
    logged_in, how = agent.login(local_caller("test", {"HOME": str(home), **variables}, home))
    assert (logged_in, how) == (expected[0], expected[1].replace("{home}", str(home)))


def test_logins_in_a_macs_keychain(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    caller = local_caller("test", {"HOME": str(home)}, home)
    assert claude_login.login(caller) == (False, "")
    put(home / ".claude.json", '{"oauthAccount": broken')
    assert claude_login.login(caller) == (True, "its own login (keychain)")
    assert cursor_login.login(caller) == (None, "its login is in the system's keychain")
    monkeypatch.setattr("sys.platform", "linux")
    assert claude_login.login(caller) == (False, "")


def test_claudes_own_login_goes_before_counsels_key(home: Path) -> None:
    def environment(**env: str) -> dict[str, str | None]:
        return dict(claude.environment(local_caller("test", {"HOME": str(home), **env}, home)))

    assert "ANTHROPIC_API_KEY" not in environment()
    put(home / ".claude" / ".credentials.json", {"claudeAiOauth": {"a": 1}})
    assert environment()["ANTHROPIC_API_KEY"] is None
    assert "ANTHROPIC_API_KEY" not in environment(ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert environment(COUNSEL_MAX_ATTEMPTS="2")["CLAUDE_CODE_MAX_RETRIES"] == "1"
    assert "CLAUDE_CODE_MAX_RETRIES" not in environment(CLAUDE_CODE_MAX_RETRIES="7")
    assert environment()["DISABLE_AUTOUPDATER"] == environment()["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] == "1"


def test_no_agent_opens_a_browser_to_log_in(home: Path) -> None:
    caller = local_caller("test", {"HOME": str(home)}, home)
    assert dict(gemini.environment(caller)) == {"NO_BROWSER": "true"}
    assert dict(cursor.environment(caller)) == {"NO_OPEN_BROWSER": "1"}


# ── what is installed ──


def test_which_agents_are_installed_and_why_they_cannot_be_used(home: Path) -> None:
    caller = local_caller("test", {"HOME": str(home), "PATH": str(home / "bin")}, home)
    agent = AGENTS["codex"]
    absent = describe(agent, caller, lambda _: (True, "its own login"))
    assert (absent.path, absent.usable, absent.reason) == (None, False, f"not installed: {agent.install}")
    put(home / "bin" / "codex", "#!/bin/sh\n")
    (home / "bin" / "codex").chmod(0o755)
    present = describe(agent, caller, lambda _: (True, "its own login"))
    assert (present.path, present.usable, present.reason) == (home / "bin" / "codex", True, "its own login")
    unknown = describe(agent, caller, lambda _: (None, "a keychain"))
    assert (unknown.usable, unknown.reason) == (False, "a keychain")
    out = describe(agent, caller, lambda _: (False, "whatever"))
    assert (out.usable, out.reason) == (False, "not logged in: codex login")


def test_a_version_is_looked_for_in_four_folders_above_the_program(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d" / "program"
    put(deep, "")
    put(tmp_path / "package.json", {"version": "9.9.9"})
    assert version(deep) is None
    put(tmp_path / "a" / "package.json", {"version": "1.2.3"})
    assert version(deep) == "1.2.3"
    put(tmp_path / "v2.1.0" / "x" / "program", "")
    (tmp_path / "package.json").unlink()
    assert version(tmp_path / "v2.1.0" / "x" / "program") == "2.1.0"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": "x // y" /* note */}// end', {"a": "x // y"}),
        ('{"a": "x"} // "not text"', {"a": "x"}),
        ("[1]", {}),
        ("{", {}),
        ("[" * 100_000, {}),
    ],
)
def test_an_agents_json_is_read_leniently(tmp_path: Path, text: str, value: object) -> None:
    assert read_json(tmp_path / "gone") == {}
    put(tmp_path / "file", text)
    assert read_json(tmp_path / "file") == value


def test_a_value_at_a_path_of_keys() -> None:
    assert inside({"a": {"b": 1}}, "a", "b") == 1
    assert inside({"a": {"b": 1}}, "a", "c") is None
    assert inside({"a": 1}, "a", "b") is None
    assert inside(5) == 5


# ── failures ──


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (401, "x", "AUTHENTICATION_FAILED"),
        (403, "x", "AUTHENTICATION_FAILED"),
        (429, "x", "RATE_LIMIT_EXCEEDED"),
        (404, "x", "MODEL_NOT_FOUND"),
        (413, "x", "CONTEXT_LENGTH_EXCEEDED"),
        (None, "Prompt is too long", "CONTEXT_LENGTH_EXCEEDED"),
        (400, "Output blocked by content filtering policy", "CONTENT_FILTERED"),
        (None, "Invalid prompt: your prompt was flagged as potentially violating", "CONTENT_FILTERED"),
        (500, "x", "UPSTREAM_ERROR"),
        (None, "x", "UPSTREAM_ERROR"),
    ],
)
def test_each_status_of_a_vendor_has_its_error(status: int | None, message: str, code: str) -> None:
    error: CounselError = failures.by_status(AGENTS["codex"], status, message, 7.0)
    assert error.code == code
    assert message in error.message
    assert error.fields["agent"] == error.fields["provider"] == "codex"
    assert error.hint
    if code == "RATE_LIMIT_EXCEEDED":
        assert error.fields["retry_after"] == 7.0
    if code == "UPSTREAM_ERROR":
        assert error.fields.get("status") == status


def test_an_agents_message_is_shown_without_secrets_colours_and_excess() -> None:
    env = {"A_TOKEN": "abcd", "SHORT_KEY": "abc", "PLAIN": "word", "my_password": "pass"}
    assert failures.clean("\x1b[31mabcd abc word pass\x1b[0m \n", env) == "*** abc word ***"
    assert failures.clean("x" * 600, {}) == "x" * 600
    assert failures.clean("x" * 601, {}) == "x" * 600 + " …"
    assert failures.clean('it broke: {"error": {"message": "too slow"}}', {}) == "it broke: too slow"
    assert failures.clean('{"error": [1]}', {}) == '{"error": [1]}'


def test_the_last_lines_without_a_stack_trace() -> None:
    text = "one\n two \n\nthree\nfour\n    at f (x.js)\n}\n"
    assert failures.last_lines(text) == "two / three / four"
    assert failures.last_lines(text, 1) == "four"
    assert failures.last_lines("") == ""


def test_a_failure_without_a_reason_says_so() -> None:
    assert failures.upstream(AGENTS["codex"], "").message == "Codex failed: it gave no reason"
    assert "refused." in failures.not_logged_in(AGENTS["codex"]).message
    assert "refused (why)." in failures.not_logged_in(AGENTS["codex"], "why").message
