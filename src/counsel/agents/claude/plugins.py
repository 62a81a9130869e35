"""Claude Code's enabled plugins: where they are, and where they keep their skills.

A plugin counts if `enabledPlugins` says true, its marketplace is known and lists it, and its manifest is valid. If the
marketplace is a folder on this machine, the plugin is read in place; otherwise it is read from where
`installed_plugins.json` says it was installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from counsel.agents.definitions import Workspace
from counsel.agents.skill_format import Root
from counsel.agents.skill_scanner import SKILL_FILE, SkillScanner, real_path

_FOLDER_SOURCES = ("directory", "file")  # not a set: the value may be any JSON


class Plugin(NamedTuple):
    identity: str  # name@marketplace
    folder: Path
    version: str | None
    offer: dict[str, object]  # its entry in the marketplace's list
    marketplace: Path


def plugin_roots(
    workspace: Workspace, scanner: SkillScanner, settings: list[dict[str, object]]
) -> Iterator[Root]:
    for plugin in enabled_plugins(workspace, scanner, settings):
        yield from _skill_folders(plugin, scanner)


def enabled_plugins(
    workspace: Workspace, scanner: SkillScanner, settings: list[dict[str, object]]
) -> Iterator[Plugin]:
    for identity, enabled in _enabled(settings).items():
        if enabled is not True or identity.endswith("@builtin"):
            continue
        name, _, market = identity.rpartition("@")
        marketplace = _marketplace(market, workspace, scanner, settings)
        offer = _offer(marketplace, name, scanner) if marketplace else None
        folder, version = (
            _location(identity, workspace, scanner, marketplace, offer) if offer else (None, None)
        )
        if not marketplace or offer is None or folder is None:
            reason = _why_not(market, marketplace is not None, offer is not None)
            scanner.problems.append(f"Claude plugin {identity}: its skills are not loaded: {reason}.")
            continue
        yield Plugin(identity, folder, version, offer, marketplace[0])


def _why_not(market: str, is_known: bool, is_listed: bool) -> str:
    if not is_known:
        return f"the marketplace {market!r} is unknown"
    return (
        "it is not installed, or its folder is gone"
        if is_listed
        else f"the marketplace {market!r} does not list it"
    )


def _enabled(settings: list[dict[str, object]]) -> dict[str, object]:
    values: dict[str, Any] = {}
    for layer in settings:
        if isinstance(plugins := layer.get("enabledPlugins"), dict):
            values |= plugins
    return values


def _marketplace(
    name: str, workspace: Workspace, scanner: SkillScanner, settings: list[dict[str, object]]
) -> tuple[Path, bool] | None:
    """Its folder, and whether plugins are read in place from there."""
    row = scanner.json(workspace.claude_dir() / "plugins" / "known_marketplaces.json").get(name)
    if not isinstance(row, dict):
        for layer in settings:  # declared, but not fetched yet: a local folder needs no fetching
            marketplaces = layer.get("extraKnownMarketplaces")
            row = marketplaces.get(name) if isinstance(marketplaces, dict) else row
    if not isinstance(row, dict) or not isinstance(source := row.get("source"), dict):
        return None
    local = source.get("source") in _FOLDER_SOURCES
    folder = source.get("path") if local else row.get("installLocation")
    return (Path(folder), local) if isinstance(folder, str) and folder else None


def _offer(marketplace: tuple[Path, bool], plugin: str, scanner: SkillScanner) -> dict[str, object] | None:
    rows = scanner.json(marketplace[0] / ".claude-plugin" / "marketplace.json").get("plugins")
    offers = rows if isinstance(rows, list) else []
    return next((offer for offer in offers if isinstance(offer, dict) and offer.get("name") == plugin), None)


def _location(
    identity: str,
    workspace: Workspace,
    scanner: SkillScanner,
    marketplace: tuple[Path, bool] | None,
    offer: Mapping[str, object],
) -> tuple[Path | None, str | None]:
    assert marketplace
    folder, local = marketplace
    source = offer.get("source")
    if local and isinstance(source, str):
        version = offer.get("version")
        plugin_folder = folder / source
        return (plugin_folder if plugin_folder.is_dir() else None), version if isinstance(
            version, str
        ) else None
    for entry in _installed(identity, workspace, scanner):
        path = Path(str(entry.get("installPath") or "/nowhere"))
        if _applies(entry, workspace) and path.is_dir():
            version = entry.get("version")
            return path, version if isinstance(version, str) else None
    return None, None


def _installed(identity: str, workspace: Workspace, scanner: SkillScanner) -> list[dict[str, object]]:
    """The plugin's installations. Version 2 of the file has a list per plugin, version 1 had one entry."""
    plugins = scanner.json(workspace.claude_dir() / "plugins" / "installed_plugins.json").get("plugins")
    entry = plugins.get(identity) if isinstance(plugins, dict) else None
    entries = entry if isinstance(entry, list) else [entry]
    return [item for item in entries if isinstance(item, dict)]


def _applies(entry: Mapping[str, object], workspace: Workspace) -> bool:
    """Whether the installation counts here: a project's installation counts in that project only."""
    project = entry.get("projectPath")
    if entry.get("scope") not in ("project", "local") or not isinstance(project, str):
        return True
    return Path(os.path.realpath(workspace.project)).is_relative_to(real_path(project))


# ── inside a plugin ──────────────────────────────────────────────────────────────────────────────────


def manifest_of(plugin: Plugin, scanner: SkillScanner) -> dict[str, Any] | None:
    """The manifest; None, and an entry in `problems`, if it keeps Claude from loading the plugin."""
    path = manifest_file(plugin)
    manifest = scanner.json(path) if path.exists() else {"name": plugin.identity.rpartition("@")[0]}
    if _paths(manifest.get("skills")) is None or not _valid(manifest):
        scanner.problems.append(f"{path}: invalid manifest: Claude does not load {plugin.identity}.")
        return None
    return manifest


def manifest_file(plugin: Plugin) -> Path:
    return plugin.folder / ".claude-plugin" / "plugin.json"


def _skill_folders(plugin: Plugin, scanner: SkillScanner) -> Iterator[Root]:
    manifest = manifest_of(plugin, scanner)
    if manifest is None:
        return
    identity, folder, version, offer, _ = plugin
    if isinstance(manifest_version := manifest.get("version"), str):
        version = version or manifest_version
    extra_paths = (_paths(manifest.get("skills")) or []) + (_paths(offer.get("skills")) or [])
    default_folder = folder / "skills"
    if not default_folder.is_dir() and not extra_paths and (folder / SKILL_FILE).is_file():
        default_folder = folder  # the plugin is one skill
    for path in dict.fromkeys(
        [default_folder, *(Path(os.path.normpath(folder / path_inside)) for path_inside in extra_paths)]
    ):
        yield Root(path, "plugin", plugin=identity, version=version, prefix=str(manifest["name"]))


def _paths(value: object) -> list[str] | None:
    """The paths in a `skills` field; None if one does not begin with `./` or points outside the plugin."""
    paths = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(paths, list):
        return None
    is_valid = all(
        isinstance(path, str) and path.startswith("./") and ".." not in Path(path).parts for path in paths
    )
    return list(paths) if is_valid else None


def _valid(manifest: Mapping[str, object]) -> bool:
    name, version, author = manifest.get("name"), manifest.get("version"), manifest.get("author")
    return (
        isinstance(name, str)
        and re.fullmatch(r"\S+", name) is not None
        and isinstance(version, str | None)
        and isinstance(author, dict | None)
    )
