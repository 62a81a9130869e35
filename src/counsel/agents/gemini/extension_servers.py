"""The MCP servers of Gemini CLI's enabled extensions: their `gemini-extension.json` (measured, 0.61)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from counsel.agents.definitions import Workspace
from counsel.agents.server_format import ServerTable, with_values
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.errors import CounselError


def tables(workspace: Workspace, reader: Reader, extensions: Path) -> Iterator[ServerTable]:
    switches = _value(reader, extensions / "extension-enablement.json")
    for link in sorted(path for path in extensions.iterdir() if path.is_dir()):
        folder = _installed(link, reader)
        target = Target(folder / "gemini-extension.json", "json")
        try:
            document = reader.read(target)
        except CounselError:
            yield ServerTable(
                "gemini", "plugin", target, ("mcpServers",), kept_by=f"the extension {link.name}"
            )
            continue
        manifest = document.value if document is not None else {}
        name, servers = manifest.get("name"), manifest.get("mcpServers")
        if isinstance(name, str) and isinstance(servers, Mapping) and _active(switches.get(name), workspace):
            entries = with_values(servers, _placeholders(folder, workspace))
            kept_by = f"the extension {name}"
            yield ServerTable("gemini", "plugin", target, ("mcpServers",), kept_by=kept_by, entries=entries)


def _value(reader: Reader, path: Path) -> Mapping[str, object]:
    document = reader.read_quietly(Target(path, "json"))
    return document.value if document is not None else {}


def _installed(folder: Path, reader: Reader) -> Path:
    """The extension's files: an extension may be a link to the folder where it is developed."""
    installation = _value(reader, folder / ".gemini-extension-install.json")
    source = installation.get("source")
    return Path(source) if installation.get("type") == "link" and isinstance(source, str) else folder


def _placeholders(folder: Path, workspace: Workspace) -> dict[str, str]:
    return {
        "extensionPath": str(folder),
        "workspacePath": str(workspace.project),
        "/": os.sep,
        "pathSeparator": os.sep,
    }


def _active(switch: object, workspace: Workspace) -> bool:
    """The last rule that matches this folder counts: `!` disables, a final `*` includes all folders below."""
    rules = switch.get("overrides") if isinstance(switch, Mapping) else None
    folder = f"{workspace.project}/"
    active = True
    for rule in rules if isinstance(rules, list) else []:
        if isinstance(rule, str) and _matches(rule.removeprefix("!"), folder):
            active = not rule.startswith("!")
    return active


def _matches(rule: str, folder: str) -> bool:
    pattern = re.sub(r"(/?)\\\*", r"(\1.*)?", re.escape(rule))
    return re.fullmatch(pattern, folder) is not None
