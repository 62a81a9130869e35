"""`counsel setup`: what is written, that it is written once, and that it can be taken back."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import Any

import pytest

from counsel.servers import Servers

from .conftest import COMMANDS, World

OWN = {
    "claude": '{\n\t"numStartups": 3,\n\t"mcpServers": {"other": {"type": "stdio", "command": "x"}}\n}\n',
    "codex": '# mine\nmodel = "gpt-5.1"   # keep\n\n[mcp_servers.other]\ncommand = "x"\n',
    "gemini": '{\n  // mine\n  "security": {"auth": {"selectedType": "gemini-api-key"}},\n}\n',
    "cursor": '{"mcpServers": {"other": {"command": "x"}}}',
    "opencode": '{"theme": "x", /* mine */ "mcp": {}}\n',
    "vscode": '{"inputs": [], "servers": {"other": {"command": "x"}}}\n',
}
ARGS = ["-E", "-P", "-m", "counsel", "stdio", "--as"]


def entry(world: World, agent: str) -> Any:
    text = world.file(agent).read_text()
    if agent == "codex":
        return tomllib.loads(text)["mcp_servers"]["counsel"]
    return json.loads(
        "\n".join(line for line in text.splitlines() if "//" not in line).replace("},\n}", "}\n}")
    )["mcpServers"]["counsel"]


def test_every_installed_agent_gets_one_entry(world: World) -> None:
    world.install("claude", "codex", "cursor")
    rows = world.json("--yes", "--no-check")
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
        held = entry(world, agent)
        assert (held["command"], held["args"]) == (sys.executable, [*ARGS, agent])
    assert not world.file("gemini").exists()


def test_what_an_agent_would_not_hand_on_is_named_and_never_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.install(*COMMANDS)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-secret-itself")
    world.setup("--yes", "--no-check")
    assert entry(world, "claude")["env"] == {}
    assert {"COUNSEL_CHAIN", "OPENAI_API_KEY", "XAI_BASE_URL"} <= set(entry(world, "codex")["env_vars"])
    assert "env" not in entry(world, "codex")
    assert entry(world, "gemini")["env"]["OPENAI_API_KEY"] == "${OPENAI_API_KEY:-}"
    assert "COUNSEL_CHAIN" not in entry(world, "gemini")["env"]  # it hands that on by itself
    assert entry(world, "cursor")["env"]["COUNSEL_CHAIN"] == "${env:COUNSEL_CHAIN}"
    assert all(b"the-secret" not in data for data in world.files().values())


WAYS = {
    "HTTPS_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "MAX_MCP_OUTPUT_TOKENS",
    "REQUEST_TIMEOUT_MS",
    "LOG_LEVEL",
}


def test_proxies_and_settings_that_are_set_are_named_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.install(*COMMANDS)
    for name in (*WAYS, "COUNSEL_AUTO_ORDER", "CLIENT_CWD"):
        monkeypatch.setenv(name, "1")
    world.setup("--yes", "--no-check")
    names = {"codex": entry(world, "codex")["env_vars"], "cursor": entry(world, "cursor")["env"]}
    for agent, named in names.items():
        assert {*WAYS, "COUNSEL_AUTO_ORDER"} <= set(named), agent
        assert not {"CLIENT_CWD", "COUNSEL_HOME", "COUNSEL_MAX_FILES"} & set(named), agent
    assert not WAYS & set(entry(world, "claude")["env"])
    assert {"SSL_CERT_FILE", "MAX_MCP_OUTPUT_TOKENS"} == WAYS & set(entry(world, "gemini")["env"])
    assert world.actions("--yes", "--no-check")["codex"] == "unchanged"


def test_what_is_not_set_is_named_only_where_that_means_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codex leaves out what is not set; elsewhere it would arrive empty, and an empty SSL_CERT_FILE means no certificates."""
    for name in WAYS:
        monkeypatch.delenv(name, raising=False)
    world.install(*COMMANDS)
    world.setup("--yes", "--no-check")
    assert set(entry(world, "codex")["env_vars"]) >= WAYS
    assert not WAYS & {*entry(world, "cursor")["env"], *entry(world, "gemini")["env"]}


def test_the_key_of_a_provider_of_the_users_own_is_handed_on(world: World) -> None:
    world.install("codex")
    config = world.home / ".local/share/counsel/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "WORK_LLM_KEY"\nmodels = ["m"]\n'
    )
    world.setup("--yes", "--no-check")
    assert "WORK_LLM_KEY" in entry(world, "codex")["env_vars"]


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
    python: str, warned: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.install("claude")
    monkeypatch.setattr(sys, "executable", python)
    world.setup("--yes", "--no-check")
    assert ("lies in a cache" in world.err) is warned
    world.setup("--yes", "--remove")
    assert "lies in a cache" not in world.err


def test_remove_takes_what_codex_added_to_the_entry_too(world: World) -> None:
    """A person approved a tool for good: what would be left of the entry stops every command of Codex."""
    world.install("codex")
    world.file("codex").parent.mkdir(parents=True, exist_ok=True)
    world.file("codex").write_text(OWN["codex"])
    world.setup("--yes", "--no-check")
    with world.file("codex").open("a") as config:
        config.write('\n[mcp_servers.counsel.tools.askModel]\napproval_mode = "approve"\n\n[tui]\nx = 1\n')
    assert world.actions("--yes", "--no-check")["codex"] == "unchanged"
    world.setup("--remove", "--yes")
    assert world.file("codex").read_text() == OWN["codex"] + "\n[tui]\nx = 1\n"


def test_a_home_elsewhere_is_written_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.install("claude", "codex")
    world.setup("--yes", "--no-check")
    monkeypatch.setenv("XDG_DATA_HOME", str(world.home / "data"))  # which Codex does not hand on
    assert world.actions("--yes", "--no-check", "-a", "codex", "-a", "claude") == {
        "codex": "updated",
        "claude": "updated",
    }
    assert entry(world, "codex")["env"] == {"COUNSEL_HOME": str(world.home / "data" / "counsel")}
    monkeypatch.delenv("XDG_DATA_HOME")
    world.setup("--yes", "--no-check")
    assert "env" not in entry(world, "codex")
    assert entry(world, "claude")["env"] == {}


def test_it_can_be_repeated(world: World) -> None:
    world.install(*COMMANDS)
    world.setup("--yes", "--no-check")
    before = world.files()
    assert set(world.actions("--no-check").values()) == {"unchanged"}  # nothing to say yes to
    assert world.files() == before
    world.setup("--no-check")
    assert "Codex: already there" in world.err


@pytest.mark.parametrize("existing", [True, False], ids=["with files", "empty home"])
def test_remove_restores_every_file_byte_for_byte(world: World, existing: bool) -> None:
    world.install(*COMMANDS)
    for agent, text in OWN.items() if existing else ():
        world.write(agent, text)
    before = world.files()
    world.setup("--yes", "--no-check")
    assert world.files() != before
    assert set(world.actions("--remove", "--yes").values()) == {"removed"}
    assert world.files() == before
    assert set(world.actions("--remove", "--yes").values()) == {"absent"}


def test_remove_takes_back_several_setups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.install("gemini")
    before = world.files()
    world.setup("--yes", "--no-check")
    monkeypatch.setattr(sys, "executable", "/opt/newer/bin/python")
    assert world.actions("--yes", "--no-check")["gemini"] == "updated"
    assert entry(world, "gemini")["command"] == "/opt/newer/bin/python"
    world.setup("--remove", "--yes")
    assert world.files() == before


def test_remove_keeps_what_came_after(world: World) -> None:
    world.install("claude")
    world.setup("--yes", "--no-check")
    held = json.loads(world.file("claude").read_text())
    held["numStartups"] = 1
    held["mcpServers"]["later"] = {"type": "stdio", "command": "y", "args": [], "env": {}}
    world.file("claude").write_text(json.dumps(held))
    world.setup("--remove", "--yes")
    left = json.loads(world.file("claude").read_text())
    assert left["numStartups"] == 1
    assert list(left["mcpServers"]) == ["later"]


def test_an_older_entry_is_renewed_and_the_users_own_fields_stay(world: World) -> None:
    world.install("codex")
    world.write(
        "codex",
        '[mcp_servers.counsel]\ncommand = "counsel"  # mine\nargs = ["stdio"]\nstartup_timeout_sec = 30\n'
        '[mcp_servers.counsel.env]\nLOG_LEVEL = "debug"\n',
    )
    before = world.files()
    assert world.actions("--yes", "--no-check")["codex"] == "updated"
    held = entry(world, "codex")
    assert held["args"] == [*ARGS, "codex"]
    assert held["startup_timeout_sec"] == 30
    assert held["env"] == {"LOG_LEVEL": "debug"}
    world.setup("--remove", "--yes")
    assert world.files() == before


def test_somebody_elses_counsel_is_left_alone(world: World) -> None:
    world.install("claude", "gemini")
    world.write("claude", '{"mcpServers": {"counsel": {"type": "stdio", "command": "legal-advice"}}}')
    before = world.file("claude").read_bytes()
    rows = world.json("--yes", "--no-check", code=1)
    assert rows["claude"]["error"]["code"] == "CONFLICT"
    assert rows["gemini"]["action"] == "added"
    assert world.json("--remove", "--yes")["claude"]["action"] == "absent"
    assert world.file("claude").read_bytes() == before


def test_one_broken_file_holds_up_nobody_else(world: World) -> None:
    world.install("claude", "codex")
    world.write("claude", '{"mcpServers": ')
    rows = world.json("--yes", "--no-check", code=1)
    assert rows["claude"]["action"] == "refused"
    assert rows["claude"]["error"]["code"] == "CONFIG_INVALID"
    assert rows["claude"]["error"]["error"].count(".claude.json") == 1
    assert rows["codex"]["action"] == "added"
    assert world.file("claude").read_bytes() == b'{"mcpServers": '


def test_where_no_agent_has_an_entry_none_is_said_to_be_asked(world: World) -> None:
    world.install("claude")
    world.write("claude", '{"mcpServers": ')
    world.setup("--yes", "-a", "claude", code=1)
    assert "Asking" not in world.err


def test_agents_may_be_named_with_commas(world: World) -> None:
    world.install("claude", "codex", "gemini")
    done = world.actions("--yes", "--no-check", "-a", "claude,codex", "-a", "codex")
    assert done == {"claude": "added", "codex": "added"}
    world.setup("-a", "claude,nobody", code=2)
    assert "'nobody' is not one of claude, codex, gemini, cursor" in world.err
    world.setup("-a", "", code=2)


def test_an_agent_that_is_not_installed_is_named_alone(world: World) -> None:
    world.install("claude")
    world.setup("--yes", "-a", "codex", code=1)
    assert "Codex: not installed" in world.err
    assert "No agent is installed" not in world.err


def test_counsels_own_entries_are_no_drift(world: World) -> None:
    world.install(*COMMANDS)
    world.setup("--yes", "--no-check")
    rows = Servers.here(world.project).listing().servers
    assert [(row.agent, row.drift) for row in rows] == [(agent, ()) for agent in COMMANDS]
    held = json.loads(world.file("claude").read_text())
    held["mcpServers"]["counsel"]["command"] = "/older/bin/python"
    world.file("claude").write_text(json.dumps(held))
    assert {row.drift for row in Servers.here(world.project).listing().servers} == {("command",)}


def test_a_dry_run_shows_the_diff_and_writes_nothing(world: World) -> None:
    world.install("claude")
    shown = world.setup("--dry-run")
    assert "+++ " in shown
    assert '+        "--as",' in shown
    assert "would be registered" in world.err
    assert world.files() == {}
    assert '"--as"' in world.json("--dry-run")["claude"]["diff"]


def test_without_a_person_nothing_is_written(world: World) -> None:
    world.install("claude")
    world.setup(code=2)
    assert "--yes" in world.err
    said = json.loads(world.setup("--json", code=2))
    assert "--yes" in said["error"]
    assert world.files() == {}


def test_no_agent_at_all(world: World) -> None:
    world.setup("--yes", code=1)
    assert "npm install -g @anthropic-ai/claude-code" in world.err
    assert "counsel stdio" in world.err


def test_an_agent_that_cannot_be_asked_is_named(world: World) -> None:
    world.install("claude", "codex")
    rows = world.json("--yes", code=1)
    assert rows["claude"]["connected"] is False
    assert "claude mcp list" in rows["claude"]["said"]
    assert rows["codex"]["connected"] is False
    assert "could not be asked" in rows["codex"]["said"]


def test_clients_that_only_have_servers_are_set_up_where_they_were_used(world: World) -> None:
    """VS Code has no program on PATH everywhere; its folder says that it is used."""
    world.file("vscode").parent.mkdir(parents=True)
    world.install("opencode")
    done = world.actions("--yes", "--no-check")
    assert {name for name, action in done.items() if action == "added"} == {"opencode", "vscode"}
    held = json.loads(world.file("vscode").read_text())["servers"]["counsel"]
    assert (held["command"], held["args"]) == (sys.executable, [*ARGS, "vscode"])
    assert "env" not in held  # it hands everything on
    command = json.loads(world.file("opencode").read_text())["mcp"]["counsel"]["command"]
    assert command == [sys.executable, *ARGS, "opencode"]
    assert set(world.actions("--remove", "--yes", "-a", "vscode,opencode").values()) == {"removed"}
    assert world.files() == {}
