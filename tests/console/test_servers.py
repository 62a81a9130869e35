"""The servers screen: every agent's MCP servers in scratch homes, changed through a diff, undone, checked."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from servers import real_clients
from servers.conftest import QUICK, golden
from support.accessibility import violations
from support.browser import Console
from support.user import FILES, PROJECT_FILES

SECRET = "sk-live-abcdefghijklmnop1234"
QUICK_ENTRY = {"command": sys.executable, "args": [str(QUICK)]}
FILES_ENTRY = {
    "command": "npx",
    "args": ["-y", "files-mcp", "/notes"],
    "env": {"API_KEY": SECRET, "LOG": "info"},
}
MALFORMED = '{\n  "mcpServers": {\n    "docs": {"command": "npx"}\n    "more"\n  }\n}\n'


def write(console: Console, agent: str, content: str | dict[str, Any], scope: str = "user") -> Path:
    path = console.home / FILES[agent] if scope == "user" else console.project / PROJECT_FILES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def fill(console: Console) -> None:
    """Claude Code in all three scopes, Codex with another definition, Gemini CLI malformed, Cursor with a bad entry."""
    local = {str(console.project): {"mcpServers": {"scratch": QUICK_ENTRY}}}
    write(console, "claude", {"mcpServers": {"files": FILES_ENTRY, "a/b ü.": QUICK_ENTRY}, "projects": local})
    write(console, "claude", {"mcpServers": {"team": {"command": "./team.sh"}}}, "project")
    write(
        console,
        "codex",
        '# mine\n[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "files-mcp", "/tmp"]\n'
        f'\n[mcp_servers.files.env]\nAPI_KEY = "{SECRET}"\nLOG = "info"\n'
        '\n[mcp_servers.tickets]\nurl = "https://tickets.example.com/mcp"\nenabled = false\n',
    )
    write(console, "gemini", MALFORMED)
    write(console, "cursor", {"mcpServers": {"files": FILES_ENTRY, "bad": {"command": 5}}})


def scope_of(page: Page, agent: str, scope: str) -> Locator:
    section = page.get_by_role("region", name=agent, exact=True)
    return section.locator(".scope").filter(has=page.get_by_role("heading", name=scope, exact=True))


def confirm(page: Page, title: str | re.Pattern[str]) -> str:
    """Read the diff of a review, then write it."""
    review = page.get_by_role("dialog", name=title)
    expect(review.get_by_role("button", name=re.compile(r"Write \d"))).to_be_enabled()
    diff = "\n".join(review.locator(".diff").all_inner_texts())
    review.get_by_role("button", name=re.compile(r"Write \d")).click()
    expect(review).to_be_hidden()
    return diff


def test_cards_and_the_matrix_show_what_each_agent_has(console: Console) -> None:
    fill(console)
    page = console.open("#/servers")
    for scope, name in (("User", "files"), ("Local", "scratch"), ("Project", "team")):
        expect(
            scope_of(page, "Claude Code", scope).get_by_role("link", name=name, exact=True)
        ).to_be_visible()
    expect(scope_of(page, "Codex", "User").get_by_role("link")).to_have_text(["files", "tickets"])

    gemini = scope_of(page, "Gemini CLI", "User")
    expect(gemini).to_contain_text(str(console.home / FILES["gemini"]))
    expect(gemini).to_contain_text("line 4, column 5")
    expect(gemini.get_by_role("button")).to_have_count(0)  # no way to write to it
    expect(scope_of(page, "Cursor", "User")).to_contain_text("command must be a string")

    page.get_by_role("searchbox", name="Filter").fill("scratch python")
    expect(page.locator("li.server")).to_have_count(1)
    page.get_by_role("searchbox", name="Filter").fill("")
    page.get_by_role("combobox", name="Agent").select_option("codex")
    expect(page.locator("li.server")).to_have_count(2)
    page.get_by_role("combobox", name="Agent").select_option("")

    page.get_by_role("tab", name="Matrix").click()
    for label in (
        "files in Claude Code: on (User)",
        "files in Codex: on (User), differs in args",
        "scratch in Claude Code: on (Local)",
        "tickets in Codex: off (User)",
    ):
        expect(page.get_by_role("link", name=label, exact=True)).to_be_visible()
    expect(page.get_by_text("bad in Cursor: malformed")).to_be_attached()
    expect(page.get_by_text("files in Gemini CLI: file cannot be read")).to_be_attached()
    page.reload()  # the view is in the address
    page.get_by_role("button", name="differs: args").click()
    drift = page.get_by_role("dialog", name="files").get_by_role("table")
    expect(drift.get_by_role("cell").nth(1)).to_have_text("-y\nfiles-mcp\n/tmp")
    page.keyboard.press("Escape")

    (second_project := console.project.parent / "other").mkdir()
    page.get_by_role("button", name="Project: project").click()
    page.get_by_label("Folder on the machine").fill(str(second_project / "nowhere"))
    page.get_by_role("button", name="Show this project").click()
    expect(page.get_by_role("alert")).to_contain_text("must be a folder")
    console.errors.clear()  # the browser logs the refusal
    page.get_by_label("Folder on the machine").fill(str(second_project))
    page.get_by_role("button", name="Show this project").click()
    expect(page.get_by_role("row", name=re.compile("files"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("scratch|team"))).to_have_count(0)


@pytest.mark.client
def test_a_pasted_server_is_added_everywhere_and_the_real_clients_list_it(
    console: Console, real_client: Callable[[str], str]
) -> None:
    real_client("claude")
    real_client("codex")
    files = [
        write(console, "claude", golden("claude", "stdio-user", "home", ".claude.json")),
        write(console, "codex", golden("codex", "stdio", "home", ".codex", "config.toml")),
        write(console, "gemini", golden("gemini", "stdio-all", "home", ".gemini", "settings.json")),
    ]
    before = [path.read_bytes() for path in files]
    page = console.open("#/servers")
    page.get_by_role("button", name="Add server").click()
    adding = page.get_by_role("dialog", name="Add a server")
    adding.get_by_text("Paste JSON or TOML").click()
    entry = {"type": "stdio", **QUICK_ENTRY, "env": {"API_KEY": SECRET}}
    adding.get_by_role("textbox", name="JSON or TOML").fill(json.dumps({"mcpServers": {"pasted": entry}}))
    expect(adding.get_by_text("counsel servers add --everywhere --from -")).to_be_visible()
    adding.get_by_role("button", name="Review").click()

    review = page.get_by_role("dialog", name="Review: Add the pasted servers")
    expect(review.get_by_role("button", name="Write 3 files")).to_be_enabled()
    assert [path.read_bytes() for path in files] == before  # nothing is written before it is confirmed
    diff = confirm(page, "Review: Add the pasted servers")
    assert SECRET not in diff
    assert '+[mcp_servers.pasted]\n+command = "' in diff
    after = [path.read_bytes() for path in files]
    new_lines = "\n".join(line[1:] for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line))
    for line in new_lines.splitlines():
        text = line.strip().partition("sk…34")[0]
        assert any(text.encode() in data for data in after), line

    output = real_clients.ask(console.home, console.project, "claude", "mcp", "list")
    assert re.search(r"^pasted: .*Connected", output, re.MULTILINE), output
    rows = json.loads(real_clients.ask(console.home, console.project, "codex", "mcp", "list", "--json"))
    codex = next(row for row in rows if row["name"] == "pasted")
    assert codex["transport"]["env"] == {"API_KEY": SECRET}

    page.get_by_role("button", name="Changes").click()
    page.get_by_role("button", name="Undo add pasted").click()
    confirm(page, "Review: Undo: add pasted")
    assert files[1].read_bytes() == before[1]
    assert files[2].read_bytes() == before[2]
    assert "pasted" not in files[0].read_text()  # Claude Code itself has written to this one meanwhile


def test_a_server_is_changed_only_as_the_diff_says_and_undone(console: Console) -> None:
    claude = write(
        console,
        "claude",
        {"mcpServers": {}, "projects": {str(console.project): {"mcpServers": {"x.y/z": FILES_ENTRY}}}},
    )
    codex = write(console, "codex", "# mine\nmodel = 'o3'\n")
    page = console.open("#/servers")

    def entry(path: Path, name: str) -> Any:
        return json.loads(path.read_text())["mcpServers"].get(name)

    # promote: to User, and away from Local
    page.get_by_role("link", name="x.y/z").click()
    details = page.get_by_role("dialog", name="x.y/z", exact=True)
    details.get_by_role("button", name="Promote to User").click()
    confirm(page, "Review: Promote x.y/z to User")
    expect(scope_of(page, "Claude Code", "User").locator("li.server")).to_have_count(1)
    assert entry(claude, "x.y/z")["env"] == FILES_ENTRY["env"]
    assert json.loads(claude.read_text())["projects"][str(console.project)]["mcpServers"] == {}
    # rename
    page.get_by_role("link", name="x.y/z").click()
    details.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("docs")
    page.get_by_role("button", name="Review").click()
    confirm(page, "Review: Rename x.y/z")
    page.get_by_role("link", name="docs").click()
    details = page.get_by_role("dialog", name="docs", exact=True)
    # edit: only the field that was changed
    details.get_by_role("button", name="Edit").click()
    editing = page.get_by_role("dialog", name="Edit docs")
    editing.get_by_label("Arguments").fill("-y\nother-mcp")
    expect(
        editing.get_by_text("counsel servers update docs --agent claude --scope user -- npx -y other-mcp")
    ).to_be_visible()
    editing.get_by_role("button", name="Review").click()
    diff = confirm(page, "Review: Change docs")
    assert '+        "other-mcp"' in diff
    assert entry(claude, "docs") == {"type": "stdio", **FILES_ENTRY, "args": ["-y", "other-mcp"]}
    # copy
    page.get_by_role("link", name="docs").click()
    details.get_by_role("button", name="Copy to").click()
    page.get_by_role("checkbox", name="Codex, User").check()
    page.get_by_role("button", name="Review").click()
    confirm(page, "Review: Copy docs")
    assert tomllib.loads(codex.read_text())["mcp_servers"]["docs"]["env"]["API_KEY"] == SECRET
    # switch, by the card
    before = codex.read_bytes()
    switch = page.get_by_role("switch", name="docs in Codex (User)")
    switch.click()
    expect(
        page.get_by_role("dialog", name="Review: Disable docs").get_by_text(
            "counsel servers disable docs --agent codex --scope user"
        )
    ).to_be_visible()
    assert codex.read_bytes() == before
    confirm(page, "Review: Disable docs")
    assert tomllib.loads(codex.read_text())["mcp_servers"]["docs"]["enabled"] is False
    # undo, by the message
    page.get_by_role("button", name="Undo", exact=True).last.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert codex.read_bytes() == before
    # drift, and the same everywhere
    write(console, "codex", codex.read_text().replace("other-mcp", "drifted"))
    page.get_by_role("tab", name="Matrix").click()
    page.reload()
    page.get_by_role("button", name="differs: args").click()
    page.get_by_role("button", name="Use this everywhere: Claude Code").click()
    confirm(page, "Review: docs everywhere as in Claude Code")
    expect(page.get_by_role("link", name="docs in Codex: on (User)")).to_be_attached()
    # remove
    page.get_by_role("link", name="docs in Claude Code: on (User)").click()
    page.get_by_role("dialog", name="docs").get_by_role("button", name="Remove").click()
    confirm(page, "Review: Remove docs")
    assert entry(claude, "docs") is None
    # a change by someone else between the diff and the confirmation
    page.get_by_role("button", name="Copy docs to").click()
    page.get_by_role("button", name="Review").click()
    review = page.get_by_role("dialog", name="Review: Copy docs")
    expect(review.get_by_role("button", name="Write 1 file")).to_be_enabled()
    new_content = claude.read_text().replace("{", '{"later": 1,', 1)
    claude.write_text(new_content)
    review.get_by_role("button", name="Write 1 file").click()
    expect(review.get_by_role("alert")).to_contain_text("A file was changed meanwhile")
    assert claude.read_text() == new_content
    review.get_by_role("button", name="Write 1 file").click()
    expect(review).to_be_hidden()
    assert entry(claude, "docs")["env"] == FILES_ENTRY["env"]
    assert json.loads(claude.read_text())["later"] == 1


def test_a_check_lists_the_tools_or_says_what_failed(console: Console) -> None:
    write(console, "codex", "")
    write(
        console, "claude", {"mcpServers": {"quick": QUICK_ENTRY, "broken": {"command": "/nowhere/program"}}}
    )
    write(console, "claude", {"mcpServers": {"team": QUICK_ENTRY}}, "project")
    page = console.open("#/servers/quick?at=claude:user")
    details = page.get_by_role("dialog", name="quick")
    details.get_by_role("button", name="Check", exact=True).click()
    expect(details.get_by_role("status")).to_contain_text("Answered")
    expect(details.get_by_role("listitem")).to_have_text(
        re.compile("whereami.*Where the server runs", re.DOTALL)
    )
    console.open("#/servers/broken?at=claude:user")
    details = page.get_by_role("dialog", name="broken")
    details.get_by_role("button", name="Check", exact=True).click()
    expect(details.get_by_role("status")).to_contain_text("Failed")
    expect(details.get_by_role("status")).to_contain_text("/nowhere/program")
    # The project's own server starts only after the folder is trusted.
    console.open("#/servers/team?at=claude:project")
    details = page.get_by_role("dialog", name="team")
    details.get_by_role("button", name="Check", exact=True).click()
    expect(details.get_by_role("alert")).to_contain_text(str(QUICK))
    console.errors.clear()  # the browser logs the refusal
    details.get_by_role("button", name="Trust this folder for this check").click()
    expect(details.get_by_role("status")).to_contain_text("1 tool")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Check all").click()
    expect(page.get_by_text("1 of 2 servers answered; 1 failed.")).to_be_visible()


def test_a_secret_is_masked_until_it_is_revealed(console: Console) -> None:
    fill(console)
    args = ["--api-key", "hunter2hunter2", "--verbose"]
    write(console, "claude", {"mcpServers": {"files": {**FILES_ENTRY, "args": args}}})
    answers: list[Response] = []
    page = console.page
    page.on("response", lambda response: answers.append(response))  # noqa: PLW0108 - Playwright wants a function
    console.open("#/servers")
    expect(page.get_by_role("heading", name="Claude Code")).to_be_visible()
    console.open("#/servers/files?at=claude:user")
    details = page.get_by_role("dialog", name="files")
    expect(details.get_by_text("sk…34").first).to_be_visible()
    details.get_by_role("button", name="Edit").click()
    editing = page.get_by_role("dialog", name="Edit files")
    editing.get_by_label("Variable 2, value").fill("debug")
    editing.get_by_role("button", name="Review").click()
    confirm(page, "Review: Change files")
    console.open("#/servers/files?at=claude:user")
    expect(details).to_contain_text("debug")
    assert json.loads((console.home / FILES["claude"]).read_text())["mcpServers"]["files"]["env"] == {
        "API_KEY": SECRET,
        "LOG": "debug",
    }
    texts = [answer.text() for answer in answers if "/api/servers" in answer.url]
    assert len(texts) >= 4  # the list, two dry runs, the change, the list again
    for text in (*texts, page.content()):
        assert SECRET not in text
        assert "hunter2hunter2" not in text

    details.get_by_role("button", name="Reveal API_KEY").click()
    expect(details.get_by_text(SECRET)).to_be_visible()
    assert "hunter2hunter2" not in page.content()  # one at a time
    details.get_by_role("button", name="Reveal arguments 2").click()
    expect(details.get_by_text("hunter2hunter2")).to_be_visible()


def test_500_servers_are_drawn_as_far_as_they_are_scrolled_to(console: Console) -> None:
    many = {
        f"server-{number:03}": {"command": "npx", "args": ["-y", f"pkg-{number}"]} for number in range(500)
    }
    write(console, "claude", {"mcpServers": many})
    write(
        console,
        "codex",
        "".join(f'[mcp_servers.{name}]\ncommand = "npx"\nargs = ["-y", "{name}"]\n' for name in many),
    )
    page = console.open("#/servers")
    expect(page.get_by_text("500 servers in 2 agents")).to_be_visible()
    expect(page.locator("li.server").first).to_be_visible()
    assert page.locator("li.server").count() <= 240
    page.get_by_role("searchbox", name="Filter").fill("server-499")
    expect(page.locator("li.server")).to_have_count(2)
    page.get_by_role("searchbox", name="Filter").fill("")
    page.get_by_role("tab", name="Matrix").click()
    expect(page.get_by_role("row").nth(49)).to_be_attached()
    assert page.get_by_role("row").count() < 200
    table = page.get_by_role("region", name="Servers and agents")
    last = table.get_by_text("server-499", exact=True)
    while last.count() == 0:
        rows = table.get_by_role("row").count()
        table.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        expect(table.get_by_role("row").nth(rows)).to_be_attached()
    expect(last).to_be_visible()


def test_the_keyboard_alone_adds_a_server_and_removes_it(console: Console) -> None:
    claude = write(console, "claude", {"mcpServers": {}})
    page = console.open("#/servers")
    expect(page.get_by_role("heading", name="No agent has an MCP server here yet")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").press_sequentially("add a server")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_be_focused()
    page.keyboard.type("typed")
    reach(page, "textbox", "Command")
    page.keyboard.type("npx -y typed-mcp")
    reach(page, "button", "Split into command and arguments")
    page.keyboard.press("Space")
    reach(page, "button", "None")
    page.keyboard.press("Enter")
    reach(page, "checkbox", "Claude Code, User")
    page.keyboard.press("Space")
    reach(page, "button", "Review the changes")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("dialog", name="Review: Add typed").get_by_role("button", name="Write 1 file")
    ).to_be_enabled()
    reach(page, "button", "Write 1 file")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="typed")).to_be_visible()
    assert json.loads(claude.read_text())["mcpServers"]["typed"]["args"] == ["-y", "typed-mcp"]

    page.get_by_role("tab", name="Cards").focus()
    page.keyboard.press("ArrowRight")
    reach(page, "link", "typed in Claude Code: on (User)")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="typed")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").press_sequentially("remove typed")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("dialog", name="Review: Remove typed").get_by_role("button", name="Write 1 file")
    ).to_be_enabled()
    reach(page, "button", "Write 1 file")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Review: Remove typed")).to_be_hidden()
    assert json.loads(claude.read_text())["mcpServers"] == {}


def reach(page: Page, role: Any, name: str) -> None:
    """Press Tab until this element has the focus."""
    element = page.get_by_role(role, name=name, exact=True).last
    expect(element).to_be_attached()
    for _ in range(80):
        if element.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {name}.")


@pytest.mark.slow  # 18 runs of axe
def test_axe_finds_nothing_in_both_themes_and_widths(console: Console) -> None:
    fill(console)
    for width, theme in ((1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")):
        look_everywhere(
            console, console.new_page(width=width, theme=theme), dialogs=(width < 500) == (theme == "dark")
        )


def look_everywhere(console: Console, page: Page, *, dialogs: bool) -> None:
    def look(fragment: str, ready: Locator) -> None:
        page.goto(f"{console.url}/{fragment}")
        expect(ready).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    look("#/servers", page.get_by_role("heading", name="Claude Code"))
    look("#/servers?view=matrix", page.get_by_role("region", name="Servers and agents"))
    look("#/servers/files?at=codex:user", page.get_by_role("dialog", name="files"))
    if not dialogs:
        return
    page.get_by_role("dialog").get_by_role("button", name="Edit").click()
    expect(page.get_by_role("dialog", name="Edit files")).to_be_visible()
    assert violations(page) == []
    page.goto(f"{console.url}/#/servers")
    page.reload()
    page.get_by_role("button", name="Add server").click()
    adding = page.get_by_role("dialog", name="Add a server")
    adding.get_by_label("Name", exact=True).fill("x")
    adding.get_by_role("textbox", name="Command").fill("npx")
    assert violations(page) == []
    adding.get_by_role("button", name="Review").click()
    review = page.get_by_role("dialog", name="Review: Add x")
    expect(review.get_by_role("button", name="Write 3 files")).to_be_enabled()
    assert violations(page) == []
