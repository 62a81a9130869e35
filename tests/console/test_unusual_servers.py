"""The servers screen with names that no path can have, files that refuse to be written, and servers that somebody
else keeps."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import expect

from console.test_servers import confirm, scope_of, write
from support.browser import Console

NAMES = (".", "..", "", "a/b", "50%", "%2e%2e", "x?y#z", "<b>x</b>", "-x", "a\nb")
PASTED = {
    "vscode": '{"servers": {"one": {"type": "stdio", "command": "uvx", "args": ["one-mcp"]}}, "inputs": []}',
    "opencode": '{"mcp": {"two": {"type": "local", "command": ["uvx", "two-mcp"], "environment": {"A": "1"}}}}',
    "codex": '[mcp_servers.three]\ncommand = "uvx"\nargs = ["three-mcp"]\n',
    "gemini": '{"mcpServers": {"four": {"httpUrl": "https://four.example/mcp"}}}',
}


def names_of(console: Console) -> set[str]:
    return set(json.loads((console.home / ".claude.json").read_text())["mcpServers"])


def test_a_server_of_any_name_is_opened_switched_and_removed(console: Console) -> None:
    write(console, "claude", {"mcpServers": {name: {"command": "c"} for name in NAMES}})
    write(console, "codex", "")
    page = console.open("#/servers?view=matrix")
    page.get_by_role("button", name="Copy .. to Codex", exact=True).click()
    page.get_by_role("button", name="Review").click()
    confirm(page, "Review: Copy ..")
    expect(page.get_by_role("link", name=".. in Codex: on (User)", exact=True)).to_be_attached()
    page.get_by_role("tab", name="Cards").click()
    page.get_by_role("switch", name=".. in Codex (User)", exact=True).click()
    confirm(page, "Review: Disable ..")
    assert "enabled = false" in (console.home / ".codex" / "config.toml").read_text()
    remaining = set(NAMES)
    for name in NAMES:
        title = name.replace("\n", " ") or "(no name)"
        scope_of(page, "Claude Code", "User").get_by_role("link", name=title, exact=True).click()
        page.reload()  # its address leads to it
        page.get_by_role("dialog", name=title, exact=True).get_by_role("button", name="Remove").click()
        confirm(page, f"Review: Remove {title}")
        remaining.remove(name)
        assert names_of(console) == remaining


def test_a_read_only_file_says_so_and_is_written_when_it_no_longer_is(console: Console) -> None:
    file = write(console, "claude", {"mcpServers": {"docs": {"command": "c"}}})
    before = file.read_bytes()
    file.chmod(0o400)
    page = console.open("#/servers/docs?at=claude:user")
    page.get_by_role("dialog", name="docs").get_by_role("button", name="Remove").click()
    review = page.get_by_role("dialog", name="Review: Remove docs")
    review.get_by_role("button", name="Write 1 file").click()
    expect(review.get_by_role("alert")).to_contain_text("is read-only; nothing was written")
    expect(review.get_by_role("alert")).to_contain_text("chmod u+w")
    assert file.read_bytes() == before
    console.errors.clear()  # the browser logs the refusal
    file.chmod(0o600)
    review.get_by_role("button", name="Try again").click()
    confirm(page, "Review: Remove docs")
    assert names_of(console) == set()


def test_servers_of_plugins_are_shown_and_copied_but_not_changed(console: Console) -> None:
    market = console.home / "market"
    plugin = market / "reports"
    documents: dict[Any, Any] = {
        plugin / ".claude-plugin" / "plugin.json": {"name": "reports", "version": "1.0.0"},
        plugin / ".mcp.json": {"mcpServers": {"reporter": {"command": "uvx", "args": ["reporter"]}}},
        market / ".claude-plugin" / "marketplace.json": {
            "name": "acme",
            "owner": {"name": "Acme"},
            "plugins": [{"name": "reports", "source": "./reports"}],
        },
        console.home / ".claude" / "plugins" / "known_marketplaces.json": {
            "acme": {"source": {"source": "directory", "path": str(market)}, "installLocation": str(market)}
        },
        console.home / ".claude" / "settings.json": {"enabledPlugins": {"reports@acme": True}},
    }
    for path, document in documents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    opencode = write(console, "opencode", {"mcp": {}})
    write(console, "vscode", '{\n  // mine\n  "servers": {}\n}\n')
    page = console.open("#/servers")
    scope_of(page, "Claude Code", "Plugin").get_by_role("link", name="plugin:reports:reporter").click()
    details = page.get_by_role("dialog", name="plugin:reports:reporter")
    expect(details.get_by_text("read-only")).to_be_visible()
    for absent in ("Remove", "Rename", "Edit", "Promote to User"):
        expect(details.get_by_role("button", name=absent)).to_have_count(0)
    details.get_by_role("button", name="Copy to").click()
    page.get_by_role("checkbox", name="OpenCode, User").check()
    page.get_by_role("button", name="Review").click()
    confirm(page, "Review: Copy plugin:reports:reporter")
    assert "uvx" in opencode.read_text()
    assert "// mine" in (console.home / ".config" / "Code" / "User" / "mcp.json").read_text()


def test_the_json_and_toml_of_every_agent_can_be_pasted(console: Console) -> None:
    files = {
        "claude": write(console, "claude", {"mcpServers": {}}),
        "vscode": write(console, "vscode", '{\n  // mine\n  "servers": {}\n}\n'),
    }
    page = console.open("#/servers")
    for agent, text in PASTED.items():
        page.get_by_role("button", name="Add server").click()
        adding = page.get_by_role("dialog", name="Add a server")
        adding.get_by_text("Paste JSON or TOML").click()
        adding.get_by_role("textbox", name="JSON or TOML").fill(text)
        # the message of the write before must not cover it
        adding.get_by_role("button", name="Review").click(timeout=15_000)
        diff = confirm(page, "Review: Add the pasted servers")
        assert "+" in diff, agent
    servers = json.loads(files["claude"].read_text())["mcpServers"]
    assert servers["one"]["args"] == ["one-mcp"]
    assert servers["two"]["env"] == {"A": "1"}
    assert servers["three"]["args"] == ["three-mcp"]
    assert servers["four"]["url"] == "https://four.example/mcp"
    assert "// mine" in files["vscode"].read_text()
    assert '"four"' in files["vscode"].read_text()

    page.get_by_role(
        "button", name="Add server"
    ).click()  # what is wrong with the text is said before anything is written
    adding.get_by_text("Paste JSON or TOML").click()
    adding.get_by_role("textbox", name="JSON or TOML").fill('{"mcpServers": {"x": {"command": "c",}}')
    adding.get_by_role("button", name="Review").click()
    review = page.get_by_role("dialog", name="Review: Add the pasted servers")
    expect(review.get_by_role("alert")).to_contain_text("line 1")
    expect(review.get_by_role("button", name="Write", exact=True)).to_be_disabled()
    console.errors.clear()  # the browser logs the refusal
