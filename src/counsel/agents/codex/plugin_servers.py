"""The MCP servers of Codex's enabled plugins: from the manifest, else from `.mcp.json` (measured, 0.166)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from counsel.agents.codex.plugins import Plugin, enabled_plugins, manifest_file
from counsel.agents.definitions import Workspace
from counsel.agents.server_format import ServerTable
from counsel.agents.skill_scanner import SkillScanner
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.errors import CounselError


def tables(workspace: Workspace, reader: Reader, config: dict[str, object]) -> Iterator[ServerTable]:
    for plugin in enabled_plugins(workspace, SkillScanner(), config):
        servers = plugin.manifest.get("mcpServers")
        kept_by = f"the plugin {plugin.identity}"
        if isinstance(servers, Mapping):
            target = Target(manifest_file(plugin.folder) or plugin.folder, "json")
            yield ServerTable(
                "codex", "plugin", target, (), kept_by=kept_by, entries=_with_folders(servers, plugin)
            )
            continue
        target = Target(plugin.folder / (servers if isinstance(servers, str) else ".mcp.json"), "json")
        try:
            document = reader.read(target)
        except CounselError:
            yield ServerTable(
                "codex", "plugin", target, (), kept_by=kept_by
            )  # the listing reports what is wrong
            continue
        value = {} if document is None else document.value
        inner = value.get("mcpServers", value)
        if isinstance(inner, Mapping):
            yield ServerTable(
                "codex", "plugin", target, (), kept_by=kept_by, entries=_with_folders(inner, plugin)
            )


def _with_folders(entries: Mapping[str, object], plugin: Plugin) -> dict[str, object]:
    """The entries with absolute working folders: relative ones are inside the plugin."""
    return {name: _with_folder(entry, plugin) for name, entry in entries.items()}


def _with_folder(entry: object, plugin: Plugin) -> object:
    if not isinstance(entry, Mapping) or not isinstance(folder := entry.get("cwd"), str):
        return entry
    return {**entry, "cwd": os.path.normpath(plugin.folder / folder)}
