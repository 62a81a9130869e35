"""Where Codex's enabled plugins keep their skills: `[plugins."name@market"]` in config.toml, files in its cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counsel.agents.base import Place
from counsel.skills.record import Root
from counsel.skills.shelf import Shelf

MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")


def plugin_roots(place: Place, shelf: Shelf, config: dict[str, Any]) -> Iterator[Root]:
    plugins = config.get("plugins")
    for identity, settings in plugins.items() if isinstance(plugins, dict) else ():
        name, _, market = identity.rpartition("@")
        if not isinstance(settings, dict) or settings.get("enabled") is not True or not name:
            continue
        cache = place.codex_dir() / "plugins" / "cache" / market / name
        versions = [entry.name for entry in shelf.entries(str(cache)) if entry.folder]
        manifest = _manifest(cache / (version := _newest(versions)), shelf) if versions else None
        if manifest is None:
            shelf.problems.append(
                f"Codex plugin {identity}: it is not installed in {cache}: its skills are not loaded."
            )
            continue
        for path in _paths(manifest.get("skills")):
            yield Root(cache / version / path, "plugin", plugin=identity, version=version)


def _newest(versions: list[str]) -> str:
    """`local` before all others, then the highest number."""
    return max(
        versions, key=lambda name: (name == "local", [int(part) for part in re.findall(r"\d+", name)], name)
    )


def _manifest(folder: Path, shelf: Shelf) -> dict[str, Any] | None:
    found = next((folder / path for path in MANIFESTS if (folder / path).is_file()), None)
    return shelf.json(found) if found else None


def _paths(value: Any) -> list[str]:
    """What the manifest names instead of `skills`."""
    paths = [value] if isinstance(value, str) else value if isinstance(value, list) else ["skills"]
    return [
        path
        for path in paths
        if isinstance(path, str) and ".." not in Path(path).parts and not Path(path).is_absolute()
    ]
