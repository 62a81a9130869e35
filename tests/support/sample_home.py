"""An invented person with four agents, servers and skills, like those of a real machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = {"claude": "2.1.325", "codex": "0.166.0", "gemini": "0.61.0"}

RELEASE = """\
Make a release of this repository.

## Before

1. The main branch is green: `make check`.
2. `CHANGELOG.md` has a section for the new version.

## Steps

```sh
git switch main && git pull --ff-only
make dist
git tag -s "v$VERSION" -m "Version $VERSION"
git push origin "v$VERSION"
```

| what | where |
|---|---|
| notes | `CHANGELOG.md` |
| archive | `dist/` |

> Never move a tag that was pushed. Make the next patch release instead.
"""
REVIEW = """\
Review a change as a careful colleague would.

- Read the whole diff first, then the code around it.
- Name **bugs** before matters of taste.
- For each finding: the file, the line, what goes wrong, and a test that would show it.
"""
INCIDENT = """\
Write down what happened, without blame.

1. Timeline, with times in UTC
2. Cause, and what made it worse
3. What we change, with owners and dates
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(folder: Path, description: str, text: str, **fields: str) -> Path:
    """A skill in this folder, named like it."""
    header = {"name": folder.name, "description": description, **fields}
    lines = "".join(f"{key}: {value}\n" for key, value in header.items() if value)
    return write(folder / "SKILL.md", f"---\n{lines}---\n\n{text}")


def skills(home: Path, project: Path) -> None:
    """Skills that are shared, copied with a difference, refused by some agents, from a plugin, and from the project."""
    claude, shared_folder = home / ".claude" / "skills", home / ".agents" / "skills"
    release = skill(
        claude / "release",
        "Makes a release with checks, notes, a tag and archives. Use when a version is to be published.",
        RELEASE,
        license="MIT",
    ).parent
    write(release / "scripts" / "check.sh", "#!/bin/sh\nmake check\n")
    write(release / "references" / "versions.md", "# Versions\n\nWe use semantic versions.\n")
    shared_folder.mkdir(parents=True, exist_ok=True)
    (shared_folder / "release").symlink_to(release)
    skill(claude / "code-review", "Reviews a diff for bugs, risks and missing tests.", REVIEW)
    skill(
        shared_folder / "code-review",
        "Reviews a diff for bugs and risks.",
        REVIEW.replace("**bugs**", "bugs"),
    )
    skill(claude / "incident-report", "Incident reports: what happened, why, and what we change", INCIDENT)
    skill(claude / "sql-style", "", "Write keywords in capitals.\n")
    skill(
        home / ".gemini" / "skills" / "diagrams", "Draws diagrams as Mermaid text.", "Draw with `mermaid`.\n"
    )
    skill(
        project / ".agents" / "skills" / "add-endpoint",
        "Adds an HTTP endpoint with its schema, its tests and its page of documentation.",
        "1. The row of the table\n2. The handler\n3. The test\n",
    )
    market = home / "work" / "acme-plugins"
    plugin = market / "reports"
    skill(
        plugin / "skills" / "weekly",
        "Writes the weekly report from merged changes.",
        "Collect, then write.\n",
    )
    write(plugin / ".claude-plugin" / "plugin.json", json.dumps({"name": "reports", "version": "1.4.0"}))
    marketplace = {
        "name": "acme",
        "owner": {"name": "Acme"},
        "plugins": [{"name": "reports", "source": "./reports"}],
    }
    write(market / ".claude-plugin" / "marketplace.json", json.dumps(marketplace))
    marketplaces = {
        "acme": {"source": {"source": "directory", "path": str(market)}, "installLocation": str(market)}
    }
    write(home / ".claude" / "plugins" / "known_marketplaces.json", json.dumps(marketplaces))
    write(
        home / ".claude" / "settings.json", json.dumps({"enabledPlugins": {"reports@acme": True}}, indent=2)
    )


def servers(home: Path, project: Path) -> None:
    """Servers of four agents; `github` and `postgres` differ between them."""
    github = {"type": "http", "url": "https://api.githubcopilot.com/mcp/"}
    postgres = {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "@acme/postgres-mcp", "postgresql://localhost/app"],
        "env": {"PGPASSWORD": "a-password-that-is-made-up"},
    }
    docs = {"command": "uvx", "args": ["docs-mcp", "--index", "docs"]}
    claude = {
        "mcpServers": {"github": github, "postgres": postgres},
        "projects": {str(project): {"mcpServers": {"scratch": {"command": "uvx", "args": ["scratch-mcp"]}}}},
    }
    write(home / ".claude.json", json.dumps(claude, indent=2) + "\n")
    write(project / ".mcp.json", json.dumps({"mcpServers": {"docs": docs}}, indent=2) + "\n")
    write(
        home / ".codex" / "config.toml",
        'model = "gpt-6.1-sol"\n\n[mcp_servers.github]\nurl = "https://api.githubcopilot.com/mcp/readonly"\n'
        'bearer_token_env_var = "GITHUB_TOKEN"\n\n'
        '[mcp_servers.postgres]\ncommand = "npx"\nargs = ["-y", "@acme/postgres-mcp", "postgresql://localhost/app"]\n\n'
        '[mcp_servers.postgres.env]\nPGPASSWORD = "a-password-that-is-made-up"\n',
    )
    gemini = {"mcpServers": {"github": {"httpUrl": github["url"]}, "docs": docs}}
    write(home / ".gemini" / "settings.json", json.dumps(gemini, indent=2) + "\n")
    cursor = {"mcpServers": {"postgres": {**postgres, "args": ["-y", "@acme/postgres-mcp@0.9"]}}}
    write(home / ".cursor" / "mcp.json", json.dumps(cursor, indent=2) + "\n")


def programs(home: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Programs of three agents that print their version, on a PATH without this machine's own; two have a login."""
    folder = home / ".local" / "bin"
    for name, version in PROGRAMS.items():
        write(folder / name, f"#!/bin/sh\necho {version}\n").chmod(0o755)
    write(home / ".codex" / "auth.json", json.dumps({"OPENAI_API_KEY": "made-up", "tokens": None}))
    return {**env, "PATH": os.pathsep.join([str(folder), "/usr/bin", "/bin"])}


def fill(home: Path, project: Path) -> None:
    skills(home, project)
    servers(home, project)
