"""The MCP servers of Claude Code's enabled plugins, with the client's names and values (measured, 2.1.325).

They come from `.mcp.json` in the plugin's folder, then from its manifest: an object, a path, or a list of these. For a
plugin without a manifest, the marketplace's entry counts. Of two servers with one name, the later is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from counsel.agents.claude.plugins import Plugin, enabled_plugins, manifest_file, manifest_of
from counsel.agents.definitions import Workspace
from counsel.agents.server_format import ServerTable, with_values
from counsel.agents.skill_scanner import SkillScanner
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.errors import CounselError
from counsel.paths import exists

_FOLDER_VARIABLES = ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")


class _Source(NamedTuple):
    file: Path
    entries: Mapping[str, object] | None  # None: the file has to be read


def tables(
    workspace: Workspace, reader: Reader, settings: list[dict[str, object]], project: Path
) -> Iterator[ServerTable]:
    """The plugins' tables.

    A repository's settings can enable plugins, too, even from a marketplace in the repository.
    """
    scanner = SkillScanner()
    user_plugins = {
        (plugin.identity, plugin.folder)
        for plugin in enabled_plugins(workspace, SkillScanner(), settings[:1])
    }
    for plugin in enabled_plugins(workspace, scanner, settings):
        manifest = manifest_of(plugin, scanner)
        if manifest is not None:
            values = {**_folders(plugin, workspace), "CLAUDE_PROJECT_DIR": str(project)}
            from_project = (plugin.identity, plugin.folder) not in user_plugins
            for table in _tables_of(plugin, manifest, values, reader):
                yield table.replaced(by_project=True) if from_project else table


def _sources(plugin: Plugin, manifest: dict[str, object]) -> Iterator[_Source]:
    default_file = plugin.folder / ".mcp.json"
    if exists(default_file):
        yield _Source(default_file, None)
    file, servers = manifest_file(plugin), manifest.get("mcpServers")
    if not exists(file):
        file, servers = (
            plugin.marketplace / ".claude-plugin" / "marketplace.json",
            plugin.offer.get("mcpServers"),
        )
    for item in servers if isinstance(servers, list) else [servers]:
        if isinstance(item, Mapping):
            yield _Source(file, item)
        elif isinstance(item, str) and item.endswith(".json"):
            yield _Source(Path(os.path.normpath(plugin.folder / item)), None)


def _tables_of(
    plugin: Plugin, manifest: dict[str, object], values: Mapping[str, str], reader: Reader
) -> Iterator[ServerTable]:
    names: set[str] = set()
    for source in reversed(list(_sources(plugin, manifest))):
        table = ServerTable(
            "claude",
            "plugin",
            Target(source.file, "json"),
            ("mcpServers",),
            kept_by=f"the plugin {plugin.identity}",
        )
        try:
            entries = source.entries if source.entries is not None else _read(table.target, reader)
        except CounselError:
            yield table  # the listing reports what is wrong with it
            continue
        entries_by_name = {
            f"plugin:{manifest['name']}:{name}": _with_env(with_values(entry, values), values)
            for name, entry in entries.items()
            if name not in names
        }
        names |= entries.keys()
        yield table.replaced(entries=entries_by_name)


def _read(target: Target, reader: Reader) -> Mapping[str, object]:
    """`{"mcpServers": {…}}`, or the servers alone."""
    document = reader.read(target)
    value = {} if document is None else document.value
    inner = value.get("mcpServers", value)
    return inner if isinstance(inner, Mapping) else {}


def _folders(plugin: Plugin, workspace: Workspace) -> dict[str, str]:
    data = workspace.claude_dir() / "plugins" / "data" / re.sub(r"[^A-Za-z0-9_-]", "-", plugin.identity)
    return dict(zip(_FOLDER_VARIABLES, (str(plugin.folder), str(data)), strict=True))


def _with_env(entry: object, values: Mapping[str, str]) -> object:
    """The entry with the plugin's folders as variables: the client passes them to a server that it starts."""
    if not isinstance(entry, Mapping) or "command" not in entry:
        return entry
    folders = {name: values[name] for name in _FOLDER_VARIABLES}
    env = entry.get("env")
    return {**entry, "env": {**folders, **env} if isinstance(env, Mapping) else folders}
