"""Codex's enabled plugins (`[plugins."name@market"]` in config.toml) and the folders of their skills, in its cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from counsel.agents.definitions import Workspace
from counsel.agents.skill_format import Root
from counsel.agents.skill_scanner import SkillScanner

MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")


class Plugin(NamedTuple):
    identity: str  # name@marketplace
    folder: Path
    version: str
    manifest: dict[str, object]


def plugin_roots(workspace: Workspace, scanner: SkillScanner, config: dict[str, object]) -> Iterator[Root]:
    for identity, folder, version, manifest in enabled_plugins(workspace, scanner, config):
        for path in _paths(manifest.get("skills")):
            yield Root(folder / path, "plugin", plugin=identity, version=version)


def enabled_plugins(
    workspace: Workspace, scanner: SkillScanner, config: dict[str, object]
) -> Iterator[Plugin]:
    plugins = config.get("plugins")
    for identity, settings in plugins.items() if isinstance(plugins, dict) else ():
        name, _, market = identity.rpartition("@")
        if not isinstance(settings, dict) or settings.get("enabled") is not True or not name:
            continue
        cache = workspace.codex_dir() / "plugins" / "cache" / market / name
        versions = [entry.name for entry in scanner.entries(str(cache)) if entry.folder]
        manifest = _manifest(cache / (version := _newest(versions)), scanner) if versions else None
        if manifest is None:
            scanner.problems.append(
                f"Codex plugin {identity}: its skills are not loaded: it is not installed in {cache}."
            )
            continue
        yield Plugin(identity, cache / version, version, manifest)


def _newest(versions: list[str]) -> str:
    """`local` if there is one, else the highest version."""
    return max(
        versions, key=lambda name: (name == "local", [int(part) for part in re.findall(r"\d+", name)], name)
    )


def manifest_file(folder: Path) -> Path | None:
    return next((folder / path for path in MANIFESTS if (folder / path).is_file()), None)


def _manifest(folder: Path, scanner: SkillScanner) -> dict[str, object] | None:
    path = manifest_file(folder)
    return scanner.json(path) if path else None


def _paths(value: object) -> list[str]:
    """The folders in the manifest's `skills`, by default `skills`; none outside the plugin."""
    paths = [value] if isinstance(value, str) else value if isinstance(value, list) else ["skills"]
    return [
        path
        for path in paths
        if isinstance(path, str) and ".." not in Path(path).parts and not Path(path).is_absolute()
    ]
