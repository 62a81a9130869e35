"""Homes and repositories with skills in several places, plugins and settings, for counsel's and the clients' lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skills.sample_skills import plain, write

HIDDEN = "---\nname: x\ndescription: d\nuser-invocable: false\n---\n"


def nested(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A home, a repository, and a folder two below its root; each with skills, some with one name."""
    home, repo = tmp_path / "home", tmp_path / "up" / "repo"
    cwd = repo / "a" / "b"
    places = {
        "home": home,
        "above": tmp_path / "up",
        "root": repo,
        "between": repo / "a",
        "here": cwd,
        "below": cwd / "c",
    }
    for place, path in places.items():
        for folder in (".claude", ".agents", ".codex", ".gemini"):
            write(path / folder / "skills" / f"{place}{folder}" / "SKILL.md", plain(f"{place}{folder}"))
            write(path / folder / "skills" / "same" / "SKILL.md", plain("same", f"{place} {folder}"))
    return home, repo, cwd


def claude_overrides(home: Path, repo: Path, cwd: Path) -> None:
    """Skills with one name, one of which cannot be invoked; settings that disable some."""
    for name, places in {"d1": (home, cwd), "d2": (cwd, home), "d3": (repo, cwd), "d4": (cwd, repo)}.items():
        write(places[0] / ".claude" / "skills" / name / "SKILL.md", HIDDEN)
        write(places[1] / ".claude" / "skills" / name / "SKILL.md", plain(name))
    (home / ".claude" / "settings.json").write_text(
        '{"skillOverrides": {"home.claude": "off", "root.claude": "on"}}'
    )


def codex_layers(home: Path, repo: Path) -> None:
    """A link to the user's skill, a plugin's manifest above skills, and settings that disable some."""
    (repo / ".agents" / "skills" / "to-user").symlink_to(home / ".agents" / "skills" / "home.agents")
    bundle = home / ".agents" / "skills" / "bundle"
    write(bundle / ".codex-plugin" / "plugin.json", '{"name": "plugx"}')
    write(bundle / "skills" / "inside" / "SKILL.md", plain("inside"))
    write(repo / ".claude-plugin" / "plugin.json", '{"name": "of-the-repo"}')
    off = home / ".agents" / "skills" / "home.agents" / "SKILL.md"
    config = f'[[skills.config]]\npath = "{off}"\nenabled = false\n[[skills.config]]\nname = "here.codex"\nenabled = false\n'
    write(home / ".codex" / "config.toml", config)


def gemini_settings(home: Path) -> None:
    """An extension with skills, and settings that disable some."""
    extension = home / ".gemini" / "extensions" / "ext"
    write(extension / "gemini-extension.json", '{"name": "ext", "version": "1.0.0"}')
    write(extension / "skills" / "extended" / "SKILL.md", plain("extended"))
    write(extension / "skills" / "skill-creator" / "SKILL.md", plain("skill-creator"))  # Gemini has its own
    off = '{"skills": {"disabled": ["HOME.gemini", "antigravity-support"]} /* a comment */}'
    write(home / ".gemini" / "settings.json", off)


CODEX_PLUGINS: dict[str, tuple[str, dict[str, str]]] = {
    "ordinary": ("true", {"1.0.0": '{"name": "plug"}'}),
    "disabled": ("false", {"1.0.0": '{"name": "plug"}'}),
    "several versions": ("true", {"1.9.0": '{"name": "plug"}', "1.10.0": '{"name": "plug"}'}),
    "a local one": ("true", {"1.0.0": '{"name": "plug"}', "local": '{"name": "plug"}'}),
    "renamed, with a folder of its own": ("true", {"1.0.0": '{"name": "other", "skills": "./custom"}'}),
    "several folders": ("true", {"1.0.0": '{"name": "plug", "skills": ["./custom", "./skills"]}'}),
    "nameless": ("true", {"1.0.0": "{}"}),
}


def codex_plugin(home: Path, enabled: str, versions: Mapping[str, str]) -> None:
    write(home / ".codex" / "config.toml", f'[plugins."plug@mk"]\nenabled = {enabled}\n')
    for version, manifest in versions.items():
        folder = home / ".codex" / "plugins" / "cache" / "mk" / "plug" / version
        write(folder / ".codex-plugin" / "plugin.json", manifest)
        write(folder / "skills" / "usual" / "SKILL.md", plain(f"usual-{version}"))
        write(folder / "custom" / "special" / "SKILL.md", plain(f"special-{version}"))


def plugin(home: Path, **changes: Any) -> Path:
    """An installed plugin from a marketplace on GitHub, as in Claude Code's files."""
    folder = home / ".claude" / "plugins" / "cache" / "mk" / "plug" / "1.0.0"
    for name in ("pskill", "v1.0", "ünï 🎉", "UP_per"):
        write(folder / "skills" / name / "SKILL.md", plain("other-name"))
    write(folder / "skills" / "undescribed" / "SKILL.md", "---\nname: x\n---\n")
    write(folder / "skills" / "veiled" / "SKILL.md", HIDDEN)
    write(folder / "custom" / "cskill" / "SKILL.md", plain("cskill"))
    write(folder / "one" / "SKILL.md", plain("single.one"))
    write(folder / "SKILL.md", plain("at-the-root"))
    write(folder / ".claude-plugin" / "plugin.json", json.dumps(changes.get("manifest", {"name": "plug"})))
    market = home / ".claude" / "plugins" / "marketplaces" / "mk"
    source = {"source": "github", "repo": "o/mk"}
    offers = changes.get("offers", [{"name": "plug", "source": source}])
    offer_list = {"name": "mk", "owner": {"name": "o"}, "plugins": offers}
    write(market / ".claude-plugin" / "marketplace.json", json.dumps(offer_list))
    when = "2026-11-15T06:53:55.413Z"
    marketplaces = {"mk": {"source": source, "installLocation": str(market), "lastUpdated": when}}
    write(
        home / ".claude" / "plugins" / "known_marketplaces.json",
        json.dumps(changes.get("known", marketplaces)),
    )
    entry = {
        "scope": "user",
        "installPath": str(folder),
        "version": "1.0.0",
        "installedAt": when,
        "lastUpdated": when,
    }
    entries = [{**entry, **more} for more in changes.get("installed", [{}])]
    records = {"version": 2, "plugins": {"plug@mk": entries}}
    write(home / ".claude" / "plugins" / "installed_plugins.json", json.dumps(records))
    switches = {"enabledPlugins": {"plug@mk": changes.get("enabled", True)}}
    write(home / ".claude" / "settings.json", json.dumps(switches))
    return folder


PLUGINS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "disabled": {"enabled": False},
    "enabled by a text": {"enabled": "1.0.0"},
    "not listed": {"offers": []},
    "marketplace unknown": {"known": {}},
    "renamed": {"manifest": {"name": "renamed", "version": "2"}},
    "nameless": {"manifest": {}},
    "bad manifest": {"manifest": {"name": "plug", "author": "x"}},
    "more folders": {"manifest": {"name": "plug", "skills": ["./custom/", "./one"]}},
    "a folder outside": {"manifest": {"name": "plug", "skills": ["../x"]}},
    "the plugin itself": {"manifest": {"name": "plug", "skills": ["./"]}},
    "of another project": {"installed": [{"scope": "project", "projectPath": "/nowhere"}]},
    "folder gone": {"installed": [{"installPath": "/nowhere"}]},
    "not installed": {"installed": []},
}
