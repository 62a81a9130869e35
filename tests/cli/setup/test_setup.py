"""`counsel setup`: what is written, that it is written once, and that it can be taken back."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import Any

import pytest

from counsel.agents.definitions import WITH_SETUP
from counsel.servers import Servers
from support.user import User

OWN = {
    "claude": '{\n\t"numStartups": 3,\n\t"mcpServers": {"other": {"type": "stdio", "command": "x"}}\n}\n',
    "codex": '# mine\nmodel = "gpt-5.1"   # keep\n\n[mcp_servers.other]\ncommand = "x"\n',
    "gemini": '{\n  // mine\n  "security": {"auth": {"selectedType": "gemini-api-key"}},\n}\n',
    "cursor": '{"mcpServers": {"other": {"command": "x"}}}',
    "opencode": '{"theme": "x", /* mine */ "mcp": {}}\n',
    "vscode": '{"inputs": [], "servers": {"other": {"command": "x"}}}\n',
}
ARGS = ["-E", "-P", "-m", "counsel", "stdio", "--as"]


def by_agent(user: User, *arguments: str, code: int = 0) -> dict[str, Any]:
    rows = user.json(*arguments, code=code)["agents"]
    return {row["agent"]: row for row in rows}


def actions(user: User, *arguments: str, code: int = 0) -> dict[str, str]:
    return {name: row["action"] for name, row in by_agent(user, *arguments, code=code).items()}


def entry(user: User, agent: str) -> Any:
    text = user.file(agent).read_text()
    if agent == "codex":
        return tomllib.loads(text)["mcp_servers"]["counsel"]
    return json.loads(
        "\n".join(line for line in text.splitlines() if "//" not in line).replace("},\n}", "}\n}")
    )["mcpServers"]["counsel"]


def test_every_installed_agent_gets_one_entry(user: User) -> None:
    user.install("claude", "codex", "cursor")
    rows = by_agent(user, "--yes", "--no-check")
    assert {name: row["action"] for name, row in rows.items()} == {
        "claude": "added",
        "codex": "added",
        "gemini": "not installed",
        "cursor": "added",
        "opencode": "not installed",
        "vscode": "not installed",
    }
    assert "npm install -g @google/gemini-cli" in rows["gemini"]["said"]
    for agent in ("claude", "codex", "cursor"):
        content = entry(user, agent)
        assert (content["command"], content["args"]) == (sys.executable, [*ARGS, agent])
    assert not user.file("gemini").exists()


def test_variables_that_an_agent_filters_are_named_and_never_written(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.install(*WITH_SETUP)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-secret-itself")
    user.counsel("--yes", "--no-check")
    assert entry(user, "claude")["env"] == {}
    assert {"COUNSEL_CHAIN", "OPENAI_API_KEY", "XAI_BASE_URL"} <= set(entry(user, "codex")["env_vars"])
    assert "env" not in entry(user, "codex")
    assert entry(user, "gemini")["env"]["OPENAI_API_KEY"] == "${OPENAI_API_KEY:-}"
    assert "COUNSEL_CHAIN" not in entry(user, "gemini")["env"]  # it passes that on itself
    assert entry(user, "cursor")["env"]["COUNSEL_CHAIN"] == "${env:COUNSEL_CHAIN}"
    assert all(b"the-secret" not in data for data in user.files().values())


WAYS = {
    "HTTPS_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "MAX_MCP_OUTPUT_TOKENS",
    "REQUEST_TIMEOUT_MS",
    "LOG_LEVEL",
}


def test_proxies_and_settings_that_are_set_are_named_too(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.install(*WITH_SETUP)
    for name in (*WAYS, "COUNSEL_AUTO_ORDER", "CLIENT_CWD"):
        monkeypatch.setenv(name, "1")
    user.counsel("--yes", "--no-check")
    names = {"codex": entry(user, "codex")["env_vars"], "cursor": entry(user, "cursor")["env"]}
    for agent, variables in names.items():
        assert {*WAYS, "COUNSEL_AUTO_ORDER"} <= set(variables), agent
        assert not {"CLIENT_CWD", "COUNSEL_HOME", "COUNSEL_MAX_FILES"} & set(variables), agent
    assert not WAYS & set(entry(user, "claude")["env"])
    assert {"SSL_CERT_FILE", "MAX_MCP_OUTPUT_TOKENS"} == WAYS & set(entry(user, "gemini")["env"])
    assert actions(user, "--yes", "--no-check")["codex"] == "unchanged"


def test_unset_variables_are_named_only_where_that_is_harmless(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codex leaves out what is not set; elsewhere it would arrive empty, and an empty SSL_CERT_FILE means no
    certificates."""
    for name in WAYS:
        monkeypatch.delenv(name, raising=False)
    user.install(*WITH_SETUP)
    user.counsel("--yes", "--no-check")
    assert set(entry(user, "codex")["env_vars"]) >= WAYS
    assert not WAYS & {*entry(user, "cursor")["env"], *entry(user, "gemini")["env"]}


def test_the_key_of_a_users_own_provider_is_passed_on(user: User) -> None:
    user.install("codex")
    config = user.home / ".local/share/counsel/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "WORK_LLM_KEY"\nmodels = ["m"]\n'
    )
    user.counsel("--yes", "--no-check")
    assert "WORK_LLM_KEY" in entry(user, "codex")["env_vars"]


@pytest.mark.parametrize(
    ("python", "warned"),
    [
        ("/home/u/.cache/uv/archive-v0/Xy12/bin/python", True),
        ("/home/u/.cache/pipx/0f3a/bin/python", True),
        ("/home/u/.local/share/uv/tools/counsel/bin/python", False),
        ("/home/u/.local/pipx/venvs/counsel/bin/python", False),
    ],
)
def test_a_python_in_a_cache_is_warned_about(
    python: str, warned: bool, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.install("claude")
    monkeypatch.setattr(sys, "executable", python)
    user.counsel("--yes", "--no-check")
    assert ("is in a cache" in user.err) is warned
    user.counsel("--yes", "--remove")
    assert "is in a cache" not in user.err


def test_remove_also_removes_what_codex_added_to_the_entry(user: User) -> None:
    """Codex stores a tool's approval below the entry: left behind, it would stop every command of Codex."""
    user.install("codex")
    user.file("codex").parent.mkdir(parents=True, exist_ok=True)
    user.file("codex").write_text(OWN["codex"])
    user.counsel("--yes", "--no-check")
    with user.file("codex").open("a") as config:
        config.write('\n[mcp_servers.counsel.tools.askModel]\napproval_mode = "approve"\n\n[tui]\nx = 1\n')
    assert actions(user, "--yes", "--no-check")["codex"] == "unchanged"
    user.counsel("--remove", "--yes")
    assert user.file("codex").read_text() == OWN["codex"] + "\n[tui]\nx = 1\n"


def test_a_home_elsewhere_is_written_into_the_entry(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.install("claude", "codex")
    user.counsel("--yes", "--no-check")
    monkeypatch.setenv("XDG_DATA_HOME", str(user.home / "data"))  # which Codex does not pass on
    assert actions(user, "--yes", "--no-check", "-a", "codex", "-a", "claude") == {
        "codex": "updated",
        "claude": "updated",
    }
    assert entry(user, "codex")["env"] == {"COUNSEL_HOME": str(user.home / "data" / "counsel")}
    monkeypatch.delenv("XDG_DATA_HOME")
    user.counsel("--yes", "--no-check")
    assert "env" not in entry(user, "codex")
    assert entry(user, "claude")["env"] == {}


def test_it_can_be_repeated(user: User) -> None:
    user.install(*WITH_SETUP)
    user.counsel("--yes", "--no-check")
    before = user.files()
    assert set(actions(user, "--no-check").values()) == {"unchanged"}  # nothing to confirm
    assert user.files() == before
    user.counsel("--no-check")
    assert "Codex: already registered" in user.err


@pytest.mark.parametrize("existing", [True, False], ids=["with files", "empty home"])
def test_remove_restores_every_file_byte_for_byte(user: User, existing: bool) -> None:
    user.install(*WITH_SETUP)
    for agent, text in OWN.items() if existing else ():
        user.write(agent, text)
    before = user.files()
    user.counsel("--yes", "--no-check")
    assert user.files() != before
    assert set(actions(user, "--remove", "--yes").values()) == {"removed"}
    assert user.files() == before
    assert set(actions(user, "--remove", "--yes").values()) == {"absent"}


def test_remove_undoes_several_setups(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.install("gemini")
    before = user.files()
    user.counsel("--yes", "--no-check")
    monkeypatch.setattr(sys, "executable", "/opt/newer/bin/python")
    assert actions(user, "--yes", "--no-check")["gemini"] == "updated"
    assert entry(user, "gemini")["command"] == "/opt/newer/bin/python"
    user.counsel("--remove", "--yes")
    assert user.files() == before


def test_remove_keeps_what_came_after(user: User) -> None:
    user.install("claude")
    user.counsel("--yes", "--no-check")
    document = json.loads(user.file("claude").read_text())
    document["numStartups"] = 1
    document["mcpServers"]["later"] = {"type": "stdio", "command": "y", "args": [], "env": {}}
    user.file("claude").write_text(json.dumps(document))
    user.counsel("--remove", "--yes")
    document_after = json.loads(user.file("claude").read_text())
    assert document_after["numStartups"] == 1
    assert list(document_after["mcpServers"]) == ["later"]


def test_an_older_entry_is_renewed_and_the_users_own_fields_stay(user: User) -> None:
    user.install("codex")
    user.write(
        "codex",
        '[mcp_servers.counsel]\ncommand = "counsel"  # mine\nargs = ["stdio"]\nstartup_timeout_sec = 30\n'
        '[mcp_servers.counsel.env]\nLOG_LEVEL = "debug"\n',
    )
    before = user.files()
    assert actions(user, "--yes", "--no-check")["codex"] == "updated"
    content = entry(user, "codex")
    assert content["args"] == [*ARGS, "codex"]
    assert content["startup_timeout_sec"] == 30
    assert content["env"] == {"LOG_LEVEL": "debug"}
    user.counsel("--remove", "--yes")
    assert user.files() == before


def test_another_installations_counsel_is_left_alone(user: User) -> None:
    user.install("claude", "gemini")
    user.write("claude", '{"mcpServers": {"counsel": {"type": "stdio", "command": "legal-advice"}}}')
    before = user.file("claude").read_bytes()
    rows = by_agent(user, "--yes", "--no-check", code=1)
    assert rows["claude"]["error"]["code"] == "CONFLICT"
    assert rows["gemini"]["action"] == "added"
    assert by_agent(user, "--remove", "--yes")["claude"]["action"] == "absent"
    assert user.file("claude").read_bytes() == before


def test_one_broken_file_blocks_no_other(user: User) -> None:
    user.install("claude", "codex")
    user.write("claude", '{"mcpServers": ')
    rows = by_agent(user, "--yes", "--no-check", code=1)
    assert rows["claude"]["action"] == "refused"
    assert rows["claude"]["error"]["code"] == "CONFIG_INVALID"
    assert rows["claude"]["error"]["error"].count(".claude.json") == 1
    assert rows["codex"]["action"] == "added"
    assert user.file("claude").read_bytes() == b'{"mcpServers": '


def test_without_an_entry_no_agent_is_asked(user: User) -> None:
    user.install("claude")
    user.write("claude", '{"mcpServers": ')
    user.counsel("--yes", "-a", "claude", code=1)
    assert "Asking" not in user.err


def test_agents_may_be_named_with_commas(user: User) -> None:
    user.install("claude", "codex", "gemini")
    result = actions(user, "--yes", "--no-check", "-a", "claude,codex", "-a", "codex")
    assert result == {"claude": "added", "codex": "added"}
    user.counsel("-a", "claude,nobody", code=2)
    assert "'nobody' is not one of claude, codex, gemini, cursor" in user.err
    user.counsel("-a", "", code=2)


def test_an_agent_that_is_not_installed_is_named_alone(user: User) -> None:
    user.install("claude")
    user.counsel("--yes", "-a", "codex", code=1)
    assert "Codex: not installed" in user.err
    assert "No agent is installed" not in user.err


def test_counsels_own_entries_are_no_drift(user: User) -> None:
    user.install(*WITH_SETUP)
    user.counsel("--yes", "--no-check")
    rows = Servers.here(user.project).listing().servers
    assert [(row.agent, row.drift) for row in rows] == [(agent, ()) for agent in WITH_SETUP]
    document = json.loads(user.file("claude").read_text())
    document["mcpServers"]["counsel"]["command"] = "/older/bin/python"
    user.file("claude").write_text(json.dumps(document))
    assert {row.drift for row in Servers.here(user.project).listing().servers} == {("command",)}


def test_a_dry_run_shows_the_diff_and_writes_nothing(user: User) -> None:
    user.install("claude")
    diff = user.counsel("--dry-run")
    assert "+++ " in diff
    assert '+        "--as",' in diff
    assert "would be registered" in user.err
    assert user.files() == {}
    assert '"--as"' in by_agent(user, "--dry-run")["claude"]["diff"]


def test_without_a_person_nothing_is_written(user: User) -> None:
    user.install("claude")
    user.counsel(code=2)
    assert "--yes" in user.err
    document = json.loads(user.counsel("--json", code=2))
    assert "--yes" in document["error"]
    assert user.files() == {}


def test_no_agent_at_all(user: User) -> None:
    user.counsel("--yes", code=1)
    assert "npm install -g @anthropic-ai/claude-code" in user.err
    assert "counsel stdio" in user.err


def test_an_agent_that_cannot_be_asked_is_named(user: User) -> None:
    user.install("claude", "codex")
    rows = by_agent(user, "--yes", code=1)
    assert rows["claude"]["connected"] is False
    assert "claude mcp list" in rows["claude"]["said"]
    assert rows["codex"]["connected"] is False
    assert "Could not ask Codex whether it connects" in rows["codex"]["said"]


def test_clients_that_only_have_servers_are_set_up_where_they_were_used(user: User) -> None:
    """VS Code has no program on PATH everywhere; its folder says that it is used."""
    user.file("vscode").parent.mkdir(parents=True)
    user.install("opencode")
    result = actions(user, "--yes", "--no-check")
    assert {name for name, action in result.items() if action == "added"} == {"opencode", "vscode"}
    document = json.loads(user.file("vscode").read_text())["servers"]["counsel"]
    assert (document["command"], document["args"]) == (sys.executable, [*ARGS, "vscode"])
    assert "env" not in document  # it passes everything on
    command = json.loads(user.file("opencode").read_text())["mcp"]["counsel"]["command"]
    assert command == [sys.executable, *ARGS, "opencode"]
    assert set(actions(user, "--remove", "--yes", "-a", "vscode,opencode").values()) == {"removed"}
    assert user.files() == {}
