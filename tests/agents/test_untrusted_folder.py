"""An agent starts the user's own MCP servers in its working folder: if that is untrusted, they stay off."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agents.rigs import LIMITS, RIGS, Rig, distrust
from counsel.agents.definitions import workspace_of
from counsel.agents.registry import resolve
from counsel.agents.server_format import Server
from counsel.servers import Servers
from counsel.types import Event, Json, Notice, Text
from fake import FakeAPI

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("agents")]
AGENTS = ("claude", "codex", "gemini")
SLOW = pytest.param(
    "opencode", marks=pytest.mark.slow
)  # takes seconds to start; it has no plugins with servers
NAMES = {"claude": ("mine", "other_one"), "codex": ("mine", "with.dots"), "gemini": ("mine", "with space")}
NAMES["opencode"] = ("mine", "with space")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def set_up(name: str, fake_api: FakeAPI, tmp_path: Path, canary: Path, *, plugin: bool = False) -> Rig:
    """Set up a user whose servers import a module that exists in the folder."""
    rig = distrust(RIGS[name](fake_api, tmp_path))
    (rig.project / "trap.py").write_text(f"open({str(canary)!r}, 'a').write('sprung ')")
    if plugin:
        add_a_plugin(rig)
        return rig
    for server in NAMES[name]:
        entry = Server(server, command=sys.executable, args=("-m", "trap"))
        Servers(workspace_of(rig.env, rig.project), tmp_path / "backups").add([entry], [name])
    return rig


def add_a_plugin(rig: Rig) -> None:
    """Add a plugin with such a server, which the user has enabled."""
    servers = {"mcpServers": {"brought": {"command": sys.executable, "args": ["-m", "trap"]}}}
    if rig.name == "claude":
        market = rig.home / "market"
        source = {"source": {"source": "directory", "path": str(market)}}
        offer = {"name": "plug", "source": "./plug"}
        marketplace = {**source, "installLocation": str(market), "lastUpdated": "2026-11-15T00:00:00.000Z"}
        put(
            market / ".claude-plugin" / "marketplace.json",
            {"name": "mk", "owner": {"name": "a"}, "plugins": [offer]},
        )
        put(
            market / "plug" / ".claude-plugin" / "plugin.json",
            {"name": "plug", "version": "1.0.0", **servers},
        )
        put(rig.home / ".claude" / "plugins" / "known_marketplaces.json", {"mk": marketplace})
        settings = {"enabledPlugins": {"plug@mk": True}, "extraKnownMarketplaces": {"mk": source}}
        put(rig.home / ".claude" / "settings.json", settings)
    elif rig.name == "codex":
        config = rig.home / ".codex" / "config.toml"
        config.write_text(f'{config.read_text()}\n[plugins."plug@mk"]\nenabled = true\n')
        folder = rig.home / ".codex" / "plugins" / "cache" / "mk" / "plug" / "1.0.0"
        put(folder / ".codex-plugin" / "plugin.json", {"name": "plug", "version": "1.0.0"})
        put(folder / ".mcp.json", servers)
    else:
        folder = rig.home / ".gemini" / "extensions" / "ext"
        put(folder / "gemini-extension.json", {"name": "ext", "version": "1.0.0", **servers})


def put(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def trust(rig: Rig) -> None:
    if rig.name in ("claude", "opencode"):  # OpenCode has no dialog of its own
        path = rig.home / ".claude.json"
        document = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(
            json.dumps({**document, "projects": {str(rig.project): {"hasTrustDialogAccepted": True}}})
        )
    elif rig.name == "codex":
        path = rig.home / ".codex" / "config.toml"
        path.write_text(f'{path.read_text()}\n[projects."{rig.project}"]\ntrust_level = "trusted"\n')
    else:
        path = rig.home / ".gemini" / "trustedFolders.json"
        path.write_text(json.dumps({str(rig.project): "TRUST_FOLDER"}))


async def ask(rig: Rig) -> list[Event]:
    driver = resolve(rig.name)
    assert driver is not None
    return [event async for event in driver.answer(rig.call("hello"), rig.caller(), LIMITS)]


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


@pytest.mark.parametrize("name", [*AGENTS, SLOW])
async def test_servers_stay_off_in_an_untrusted_folder(
    name: str, fake_api: FakeAPI, tmp_path: Path, canary: Path
) -> None:
    rig = set_up(name, fake_api, tmp_path, canary)
    events = await ask(rig)
    assert text_of(events).endswith("hello")
    assert not canary.exists()
    notes = [event.text for event in events if isinstance(event, Notice)]
    assert any("MCP servers" in note and str(rig.project) in note for note in notes), notes


@pytest.mark.parametrize("name", [*AGENTS, SLOW])
async def test_servers_start_in_a_folder_that_the_agent_trusts(
    name: str, fake_api: FakeAPI, tmp_path: Path, canary: Path
) -> None:
    """This proves that the trap works."""
    rig = set_up(name, fake_api, tmp_path, canary)
    trust(rig)
    events = await ask(rig)
    assert text_of(events).endswith("hello")
    assert canary.exists()
    assert not any("MCP servers" in event.text for event in events if isinstance(event, Notice))


@pytest.mark.parametrize("name", [*AGENTS, SLOW])
async def test_counsels_own_server_stays_on(
    name: str, fake_api: FakeAPI, tmp_path: Path, canary: Path
) -> None:
    """counsel's own entry loads nothing from the folder; without it no agent could ask another."""
    rig = set_up(name, fake_api, tmp_path, canary)
    note = f"open({str(tmp_path / 'began')!r}, 'w').close()"
    args = (
        "-E",
        "-P",
        "-c",
        note,
        "-m",
        "counsel",
        "stdio",
        "--as",
        name,
    )  # a stand-in that records that it was started
    own = Server("counsel", command=sys.executable, args=args, env={"API_KEY": "topsecret"})
    Servers(workspace_of(rig.env, rig.project), tmp_path / "backups").add([own], [name])
    events = await ask(rig)
    assert (tmp_path / "began").exists()
    assert not canary.exists()
    (note,) = [event.text for event in events if isinstance(event, Notice) and "MCP servers" in event.text]
    assert "counsel" not in note.partition("would start there")[2]


@pytest.mark.parametrize("trusts", [False, True])
@pytest.mark.parametrize("name", AGENTS)
async def test_servers_of_plugins_stay_off_in_an_untrusted_folder(
    name: str, trusts: bool, fake_api: FakeAPI, tmp_path: Path, canary: Path
) -> None:
    rig = set_up(name, fake_api, tmp_path, canary, plugin=True)
    if trusts:
        trust(rig)
    events = await ask(rig)
    assert text_of(events).endswith("hello")
    assert canary.exists() is trusts
    assert any("brought" in event.text for event in events if isinstance(event, Notice)) is not trusts
