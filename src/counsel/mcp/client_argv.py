"""The time limit on a client's command line: `codex -c …tool_timeout_sec=5`, `claude --mcp-config …`.

Read from the front's parent processes in /proc, so on Linux only. It can shorten the limit, never raise it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from counsel.agents import self_entry
from counsel.agents.server_format import Unreadable
from counsel.mcp.client_timeouts import applies_limit
from counsel.servers.formats import FORMATS

Argv: TypeAlias = Sequence[str]

MOST_PARENTS = 6  # processes: what starts the front (uv, a shell), the client, and what starts the client
MOST_BYTES = 1 << 20  # of a command line, and of a file that it refers to
_CODEX = re.compile(r"mcp_servers\.(\"?)([^=]+?)\1\.(\w+)\s*=\s*(.*)", re.DOTALL)


def limit(agent: str, front: int) -> float | None:
    """The limit in seconds, if the command line sets one. `front`: the process that the client started."""
    reader = _READERS.get(agent)
    if reader is None:
        return None
    for pid in _parents(front):
        with suppress(OSError, ValueError):
            seconds = reader(_argv(pid), Path(f"/proc/{pid}/cwd"))
            if seconds:
                return seconds
    return None


def _parents(pid: int) -> Iterator[int]:
    for _ in range(MOST_PARENTS):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])  # the name in parentheses may contain anything
        if pid <= 1:
            return
        yield pid


def _argv(pid: int) -> list[str]:
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        return [os.fsdecode(part) for part in file.read(MOST_BYTES).split(b"\0")]


def of_codex(argv: Argv, _cwd: Path) -> float | None:
    entries: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_CODEX.match, _values(argv, ("-c", "--config")))):
        entries.setdefault(match[2], {})[match[3]] = match[4]
    limits = [
        _number(entry.get("tool_timeout_sec"))
        for name, entry in entries.items()
        if name == self_entry.NAME
        or any(self_entry.NAME in entry.get(key, "") for key in ("command", "args"))
    ]
    return min(filter(None, limits), default=None)


def of_claude(argv: Argv, cwd: Path) -> float | None:
    limits = [
        seconds
        for value in _values(argv, ("--mcp-config",), many=True)
        for seconds in _of_entries(_servers(value, cwd))
    ]
    return min(limits, default=None)


def _values(argv: Argv, options: Sequence[str], *, many: bool = False) -> Iterator[str]:
    """The values of `options`: `-c v`, `-cv`, `--config=v`; with `many`, all values up to the next option."""
    taking = False
    for word in argv:
        rest = next((word[len(name) :] for name in options if _is_joined(word, name)), None)
        if rest is not None:
            taking = many
            yield rest.removeprefix("=")
        elif word in options:
            taking = True
        elif taking and not word.startswith("-"):
            taking = many
            yield word
        else:
            taking = False


def _is_joined(word: str, name: str) -> bool:
    if name.startswith("--"):
        return word.startswith(f"{name}=")
    return len(word) > len(name) and word.startswith(name) and not word.startswith("--")


def _servers(value: str, cwd: Path) -> Mapping[str, object]:
    """The servers in a value of `--mcp-config`: JSON, or the path of a JSON file."""
    try:
        if not value.lstrip().startswith("{"):
            path = cwd / value
            if not path.is_file() or path.stat().st_size > MOST_BYTES:
                return {}
            value = path.read_text(encoding="utf-8")
        document = json.loads(value)
    except (OSError, ValueError, RecursionError):
        return {}
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    return servers if isinstance(servers, dict) else {}


def _of_entries(servers: Mapping[str, Any]) -> Iterator[float]:
    for name, entry in servers.items():
        with suppress(Unreadable):
            server = FORMATS["claude"].read(name, entry)
            if self_entry.is_ours(server) and server.timeout and applies_limit("claude", server.timeout):
                yield server.timeout


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


_READERS: dict[str, Callable[[Argv, Path], float | None]] = {"codex": of_codex, "claude": of_claude}
