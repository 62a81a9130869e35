"""Each field of an entry, missing or of another type: what each client's module reads, and what it writes back.

tests/golden/entry_fields.txt has the outcomes; `COUNSEL_GOLDEN=write pytest …` rewrites it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel.agents.definitions import WITH_SERVERS, Workspace, workspace_of
from counsel.agents.references import Untranslatable
from counsel.agents.server_format import Server, ServerFormat, Unreadable
from counsel.configfiles.document import Meaning
from counsel.servers.formats import format_of

GOLDEN = Path(__file__).parent.parent / "golden" / "entry_fields.txt"
GONE = object()
VALUES: dict[str, object] = {
    "missing": GONE,
    "null": None,
    "a number": 7,
    "negative": -1,
    "true": True,
    "false": False,
    "empty": "",
    "text": "word",
    "numbers": [1],
    "words": ["one", "two"],
    "an empty list": [],
    "an object": {"A": "b"},
    "an object with a number": {"A": 1, "B": True, "C": False, "D": 0.5},
    "an object with a list": {"A": []},
}
NO_ENTRIES: tuple[Any, ...] = ("text", None, [], 5, {})
SHARED: dict[str, dict[str, Any]] = {
    "stdio": {
        "type": "stdio", "command": "run", "args": ["--fast"], "env": {"MODE": "x"}, "cwd": "/srv",
        "timeout": 1500, "note": "its own",
    },
    "remote": {
        "type": "http", "url": "https://one.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}", "X": "y"},
        "timeout": 2500, "note": "its own",
    },
}  # fmt: skip
ENTRIES: dict[str, dict[str, dict[str, Any]]] = {
    "claude": SHARED,
    "vscode": SHARED,
    "cursor": {name: {**entry, "enabledTools": ["a"]} for name, entry in SHARED.items()},
    "gemini": {
        "stdio": {**SHARED["stdio"], "includeTools": ["a"], "excludeTools": ["b"]},
        "remote": {**SHARED["remote"], "httpUrl": "https://two.example/mcp"},
    },
    "opencode": {
        "stdio": {
            "type": "local", "command": ["run", "--fast"], "environment": {"MODE": "{env:MODE}"}, "cwd": "/srv",
            "timeout": 1500, "enabled": False, "note": "its own",
        },
        "remote": {
            "type": "remote", "url": "https://one.example/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"},
            "timeout": 2500, "enabled": True,
        },
    },
    "codex": {
        "stdio": {
            "command": "run", "args": ["--fast"], "env": {"MODE": "x"}, "env_vars": ["HOME", {"name": "B"}],
            "cwd": "/srv", "enabled": False, "tool_timeout_sec": 3, "startup_timeout_sec": 4, "required": True,
            "enabled_tools": ["a"], "disabled_tools": ["b"], "note": "its own",
        },
        "remote": {
            "url": "https://one.example/mcp", "bearer_token_env_var": "TOKEN", "http_headers": {"X": "y"},
            "env_http_headers": {"Z": "HEADER"}, "tool_timeout_sec": 0,
        },
    },
}  # fmt: skip


def fields_of(server: Server) -> str:
    default = Server("x")
    names = (
        "transport", "command", "args", "env", "cwd", "url", "headers", "token_env", "timeout", "enabled",
        "include_tools", "exclude_tools", "extras",
    )  # fmt: skip
    values = {name: getattr(server, name) for name in names}
    changes = {name: value for name, value in values.items() if value != getattr(default, name)}
    return " ".join(f"{name}={_plain(value)!r}" for name, value in changes.items())


def _plain(value: object) -> object:
    return dict(value) if hasattr(value, "keys") and hasattr(value, "__getitem__") else value


def outcome(client: ServerFormat, entry: Any) -> str:
    try:
        server = client.read("x", entry)
    except Unreadable as error:
        return f"unreadable: {error}"
    try:
        again = repr(client.write(server))
    except Untranslatable as error:
        again = f"untranslatable: {error}"
    return f"{fields_of(server)}\n  as {again}"


def variants(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    extra = ("url", "command", "transport", "serverUrl", "bearer_token")
    for key in (*entry, *(name for name in extra if name not in entry)):
        names = ("missing", "null", "text") if key in {*extra, "note", "type"} else VALUES
        for name, value in ((name, VALUES[name]) for name in names):
            without = {name: content for name, content in entry.items() if name != key}
            yield f"{key}: {name}", without if value is GONE else {**entry, key: value}
    for kind in ("sse", "streamable-http", "streamableHttp", "stdio", "http", "local", "remote"):
        yield f"type: {kind}", {**entry, "type": kind}
        yield f"only type: {kind}", {"type": kind}


def report() -> Iterator[str]:
    for name, entries in ENTRIES.items():
        client = format_of(name)
        yield from (f"# {name}: {value!r}: {outcome(client, value)}" for value in NO_ENTRIES)
        for kind, entry in entries.items():
            base = outcome(client, entry)
            yield from ["", f"# {name}, {kind}", base]
            problems: dict[str, list[str]] = {}
            for description, variant in variants(entry):
                own, sse = client.is_own_entry(variant), client.tries_sse(variant)
                flags = f" own entry: {own}, tries SSE: {sse}" if (own, sse) != _flags(client, entry) else ""
                problems.setdefault(outcome(client, variant) + flags, []).append(description)
            yield from (
                f"## {'; '.join(description)}\n{text}"
                for text, description in problems.items()
                if text != base
            )


def _flags(client: ServerFormat, entry: dict[str, Any]) -> tuple[bool, bool]:
    return client.is_own_entry(entry), client.tries_sse(entry)


def test_every_field_of_an_entry_is_read_or_refused_like_this() -> None:
    text = "\n".join(report()) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_every_client_is_in_the_golden_file() -> None:
    assert set(ENTRIES) == set(WITH_SERVERS)


def moved(home: Path) -> dict[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": str(home / "c"),
        "CODEX_HOME": str(home / "x"),
        "GEMINI_CLI_HOME": str(home / "g"),
        "XDG_CONFIG_HOME": str(home / "xdg"),
    }


def files(workspace: Workspace) -> dict[str, tuple[str, str]]:
    return {
        client: tuple(
            str(table.target.path)
            for table in format_of(client).tables(workspace)[:: 1 if client != "claude" else 2]
        )  # type: ignore[misc]
        for client in WITH_SERVERS
    }


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_where_each_client_keeps_its_servers(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr("sys.platform", platform)
    home, project = Path("/home/u"), Path("/home/u/p")
    code = {"linux": ".config/Code/User/mcp.json", "darwin": "Library/Application Support/Code/User/mcp.json"}
    assert files(Workspace(home, {}, project)) == {
        "claude": ("/home/u/.claude.json", "/home/u/p/.mcp.json"),
        "codex": ("/home/u/.codex/config.toml", "/home/u/p/.codex/config.toml"),
        "gemini": ("/home/u/.gemini/settings.json", "/home/u/p/.gemini/settings.json"),
        "cursor": ("/home/u/.cursor/mcp.json", "/home/u/p/.cursor/mcp.json"),
        "opencode": ("/home/u/.config/opencode/opencode.json", "/home/u/p/opencode.json"),
        "vscode": (f"/home/u/{code[platform]}", "/home/u/p/.vscode/mcp.json"),
    }


def test_variables_move_the_users_own_files() -> None:
    home, project = Path("/home/u"), Path("/home/u/p")
    user = {name: paths[0] for name, paths in files(Workspace(home, moved(Path("/m")), project)).items()}
    assert user["claude"] == "/m/c/.claude.json"
    assert user["codex"] == "/m/x/config.toml"
    assert user["gemini"] == "/m/g/.gemini/settings.json"
    assert user["opencode"] == "/m/xdg/opencode/opencode.json"
    relative = {name: path.removeprefix("/m/") for name, path in moved(Path("/m")).items()}
    user = {name: paths[0] for name, paths in files(Workspace(home, relative, project)).items()}
    assert user["claude"] == "/home/u/p/c/.claude.json"  # it is started in the project
    assert user["codex"] == "/home/u/p/x/config.toml"
    assert user["gemini"] == "/home/u/p/g/.gemini/settings.json"
    assert user["opencode"] == "/home/u/.config/opencode/opencode.json"  # XDG's may not be relative


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_where_an_administrator_puts_files(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr("sys.platform", platform)
    workspace = Workspace(Path("/home/u"), {}, Path("/home/u/p"))
    support = Path("/Library/Application Support")
    mac = platform == "darwin"
    claude = support / "ClaudeCode" if mac else Path("/etc/claude-code")
    gemini = support / "GeminiCli" if mac else Path("/etc/gemini-cli")
    assert workspace.claude_managed() == claude / "managed-mcp.json"
    assert workspace.gemini_managed() == gemini / "settings.json"
    assert workspace.gemini_system() == gemini / "system-defaults.json"
    variables = {
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/a/s.json",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "/b/d.json",
    }
    workspace = Workspace(Path("/home/u"), variables, Path("/home/u/p"))
    assert (workspace.gemini_managed(), workspace.gemini_system()) == (Path("/a/s.json"), Path("/b/d.json"))


def test_only_the_user_may_read_the_users_own_files() -> None:
    """They may contain keys; a project's files are for everyone who has the project."""
    workspace = workspace_of({"HOME": "/home/u"}, Path("/home/u/p"))
    for client in WITH_SERVERS:
        for table in format_of(client).tables(workspace):
            assert table.target.mode == (0o644 if table.scope == "project" else 0o600), client


@pytest.mark.parametrize("client", ["codex", "opencode"])
def test_a_field_enabled_is_written_only_where_it_changes_something(client: str) -> None:
    workspace = workspace_of({"HOME": "/home/u"}, Path("/home/u/p"))
    form = format_of(client)
    table = form.tables(workspace)[0]
    (switch,) = form.switches(workspace, table)

    def edits(entry: dict[str, object], *, enabled: bool) -> list[object]:
        value: dict[str, Any] = {table.keys[0]: {"x": entry}}
        return [edit.value for edit in switch.edits(Meaning(value), "x", enabled)]  # type: ignore[union-attr]

    assert edits({}, enabled=False) == [False]
    assert edits({"enabled": False}, enabled=True) == [True]
    assert edits({"enabled": True}, enabled=True) == []
    assert edits({}, enabled=True) == []
