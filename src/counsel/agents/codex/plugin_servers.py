"""The MCP servers that Codex's enabled plugins bring: what the manifest says, else `.mcp.json` (measured, 0.166)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from counsel.agents.codex.plugins import Plugin, enabled_plugins, manifest_file
from counsel.agents.definitions import Workspace
from counsel.agents.server_format import ServerTable
from counsel.agents.skill_scanner import SkillScanner
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.errors import CounselError


def tables(workspace: Workspace, reader: Reader, config: dict[str, Any]) -> Iterator[ServerTable]:
    for plugin in enabled_plugins(workspace, SkillScanner(), config):
        said = plugin.manifest.get("mcpServers")
        kept_by = f"the plugin {plugin.identity}"
        if isinstance(said, Mapping):
            target = Target(manifest_file(plugin.folder) or plugin.folder, "json")
            yield ServerTable("codex", "plugin", target, (), kept_by=kept_by, entries=_placed(said, plugin))
            continue
        target = Target(plugin.folder / (said if isinstance(said, str) else ".mcp.json"), "json")
        try:
            document = reader.read(target)
        except CounselError:
            yield ServerTable("codex", "plugin", target, (), kept_by=kept_by)  # the list says what is wrong
            continue
        value = {} if document is None else document.value
        inner = value.get("mcpServers", value)
        if isinstance(inner, Mapping):
            yield ServerTable("codex", "plugin", target, (), kept_by=kept_by, entries=_placed(inner, plugin))


def _placed(entries: Mapping[str, Any], plugin: Plugin) -> dict[str, Any]:
    """A relative working folder is one inside the plugin."""
    return {name: _at(entry, plugin) for name, entry in entries.items()}


def _at(entry: Any, plugin: Plugin) -> Any:
    if not isinstance(entry, Mapping) or not isinstance(folder := entry.get("cwd"), str):
        return entry
    return {**entry, "cwd": os.path.normpath(plugin.folder / folder)}
