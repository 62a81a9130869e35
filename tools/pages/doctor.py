"""The generated part of docs/use/troubleshooting.md: the messages of `counsel doctor`, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from counsel.doctor.messages import MESSAGES
from tools.generate import within

_MARKS = {"problem": "✗", "warn": "!"}
_TITLES = {
    "versions": "Versions",
    "settings": "Settings",
    "budgets": "Budgets",
    "home": "counsel's folder",
    "database": "The database",
    "daemon": "The daemon",
    "team": "The team server",
    "models": "Models, aliases and `auto`",
    "providers": "Providers and keys",
    "agents": "Agents",
    "setup": "Registration with agents",
    "online": "`counsel doctor --online`",
}


def troubleshooting() -> str:
    return within("docs/use/troubleshooting.md", messages="\n".join(_sections()))


def _sections() -> Iterator[str]:
    for area, title in _TITLES.items():
        rows = [
            (_MARKS[row.level], f"{row.example} (for example)" if row.example else row.what, row.todo)
            for key, row in MESSAGES.items()
            if key.startswith(f"{area}.") and row.level in _MARKS
        ]
        if rows:
            yield f"### {title}\n\n| | what it says | what to do |\n|---|---|---|"
            yield from (f"| {mark} | {_display(text)} | {_display(todo)} |" for mark, text, todo in rows)
            yield ""


def _display(template: str) -> str:
    """The template with its fields in capitals: {path} → *PATH*. A field alone depends on the provider or agent."""
    if re.fullmatch(r"\{\w+\}", template):
        return "*see the next line*"
    return re.sub(r"\{(\w+)(?::[^}]*)?\}", lambda match: f"*{match[1].upper()}*", template)
