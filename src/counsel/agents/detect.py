"""Whether an agent is installed, its version and its login. Reads files only; starts nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from counsel.agents.definitions import Agent, locate
from counsel.records import Record

if TYPE_CHECKING:  # listing skills does not need it
    from counsel.caller import Caller

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:[-+.][\w.]+)?)").fullmatch
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*[\s\S]*?\*/')  # or a string, which may hold `//`
Login: TypeAlias = tuple[bool | None, str]  # logged in (None: unknown), and how or why not
_ABOVE = 4  # levels above the program where its package.json may be


class Installed(Record):
    """`logged_in` None: unknown without asking the agent (a system keychain)."""

    path: Path | None = None
    version: str | None = None
    logged_in: bool | None = False
    reason: str = ""  # why it is unusable, or how it is logged in

    @property
    def usable(self) -> bool:
        """Certain enough for `auto`: an agent that may hang at a login is not tried."""
        return self.path is not None and self.logged_in is True


def version(program: Path) -> str | None:
    """The version in the program's package.json or path (`…/versions/2.1.325`)."""
    real = program.resolve()
    for folder in list(real.parents)[:_ABOVE]:
        if value := read_json(folder / "package.json").get("version"):
            return str(value)
    return next((value[1] for part in reversed(real.parts) if (value := _VERSION(part))), None)


def describe(agent: Agent, caller: Caller, login: Callable[[Caller], Login]) -> Installed:
    program = locate(agent, caller.env)
    if program is None:
        return Installed(reason=f"not installed: {agent.install}")
    logged_in, detail = login(caller)
    reason = detail if logged_in is not False else f"not logged in: {agent.login}"
    return Installed(program, version(program), logged_in, reason)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, with or without comments; {} when it is missing, unreadable or not an object."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        value = json.loads(without_comments(text) if "//" in text or "/*" in text else text)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def without_comments(text: str) -> str:
    return _COMMENT.sub(lambda token: token[0] if token[0].startswith('"') else " ", text)


def inside(value: object, *keys: str) -> object:
    """The value below these keys; None if a key is missing or a value on the path is not an object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def first_set(env: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if env.get(name)), None)
