"""The generated parts of docs/use/agents.md."""

from __future__ import annotations

from pathlib import Path

from counsel.agents import sandbox
from counsel.agents.claude import run as claude
from counsel.agents.cursor import run as cursor
from counsel.agents.definitions import ASKABLE
from counsel.agents.gemini import run as gemini
from counsel.agents.opencode import run as opencode
from counsel.agents.registry import driver_of
from tools.generate import within


def agents() -> str:
    return within("docs/use/agents.md", agents=_agents(), levels=_levels(), modes=_modes())


def _agents() -> str:
    rows = ["| name | agent | install | log in | takes |", "|---|---|---|---|---|"]
    for name, agent in ASKABLE.items():
        takes = ", ".join(sorted(driver_of(name).supported_settings)) or "-"
        install = agent.install.replace("|", "\\|")
        rows.append(f"| `{name}` | {agent.label} | `{install}` | `{agent.login}` | {takes} |")
    return "\n".join(rows)


def _levels() -> str:
    rows = ["| level | Claude Code | Codex | Gemini CLI | Cursor | OpenCode |", "|---|---|---|---|---|---|"]
    for level in claude.LEVELS:
        cells = [_flags(claude.LEVELS[level]), f"`sandbox: {level}`"]
        cells += [_flags(gemini.LEVELS[level]), _flags(cursor.LEVELS[level])]
        cells.append(f"`permission: {', '.join(opencode.LEVELS[level])}`")
        rows.append(f"| `{level}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _flags(words: tuple[str, ...]) -> str:
    return f"`{' '.join(Path(word).name if word.startswith('/') else word for word in words)}`"


def _modes() -> str:
    rows = ["| PERMISSION_MODE | level |", "|---|---|"]
    rows += [f"| `{mode}` | `{level}` |" for mode, level in sandbox.PERMISSION_MODES.items()]
    return "\n".join(rows)
