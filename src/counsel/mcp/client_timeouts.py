"""How long each MCP client waits for one tool call, and when we answer before it gives up.

Limits come from a table of clients, from the client's environment, and from the entry that starts counsel in the
client's own config files (`client_config.py`) or on its command line (`client_argv.py`). `COUNSEL_CLIENT_LIMIT_SECONDS`
overrides them all. The front imports this module when it cannot reach a daemon: standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from counsel.settings import Settings

Transport: TypeAlias = Literal["stdio", "http"]
Reads: TypeAlias = Literal["structured", "text", "unknown"]


class Client(NamedTuple):
    """What we know about a client. The table's key is the name that it sends in `initialize`."""

    stdio: float  # seconds, unless the user has configured another limit
    http: float
    source: str
    most: float = math.inf  # no setting raises the limit above this
    reads: Reads = "unknown"  # the part of a result that it passes to its model
    reads_failed: Reads = "unknown"  # the same for a failed call
    variable: str = ""  # the client's environment variable for the limit, in milliseconds
    least: float = 0.0  # seconds; the client raises smaller values of the variable to this


_SDK = "the TypeScript SDK's default (not measured)"
CLIENTS: dict[str, Client] = {
    "codex-mcp-client": Client(
        60,
        60,
        "`tool_timeout_sec`, 60 s by default (measured)",
        reads="structured",
        reads_failed="structured",
    ),
    "claude-code": Client(
        120,
        120,
        "`MCP_TOOL_TIMEOUT`, the entry's `timeout`; past 120 s it moves a call to the background (claude-code issue 78566)",
        most=120,
        reads="structured",
        reads_failed="text",
        variable="MCP_TOOL_TIMEOUT",
        least=1,
    ),
    "claude-ai": Client(240, 240, "Claude Desktop, 4 min (documented)"),
    "gemini-cli-mcp-client": Client(
        600, 600, "`timeout`, 10 min by default (measured)", reads="text", reads_failed="text"
    ),
    "cursor-vscode": Client(60, 60, _SDK),
    "cursor": Client(60, 60, _SDK),
    "Cline": Client(60, 60, _SDK),
    "Roo Code": Client(60, 60, _SDK),
    "opencode": Client(
        60, 60, "the entry's `timeout`, else `experimental.mcp_timeout`, 60 s by default (measured)"
    ),
    "mcp-inspector": Client(300, 300, "request timeout, 5 min (documented)"),
    "inspector-client": Client(300, 300, "request timeout, 5 min (documented)"),
}
_IGNORED_BELOW = {"claude": 1.0}  # seconds in an entry (the text of its settings, 2.1.325)
OTHERS = Client(60, 60, "clients that are not in the table: the TypeScript SDK's default")

# What clients send in `notifications/cancelled` when their own time limit has passed (measured):
#   TypeScript SDK, Gemini CLI 0.61  McpError: MCP error -32001: Request timed out
#   Claude Code 2.1.325              SdkError: Request timed out
#   Python SDK 2.3                   timed out after 5s
# and from the sources: rmcp "request timeout", AbortSignal.timeout() "TimeoutError: … aborted due to timeout".
# Codex 0.166 sends "MCP response future dropped" also when a person interrupts: only its limit helps.
_TIMED_OUT = re.compile(r"\btime[ -]?(?:d[ -])?out|timeout|\bdeadline\b", re.IGNORECASE)


def is_timeout(reason: object) -> bool:
    """Whether the reason of a cancellation is the client's own time limit."""
    return isinstance(reason, str) and bool(_TIMED_OUT.search(reason[:1_000]))


@lru_cache(maxsize=256)
def of(client: str) -> Client:
    """The row with this name, or with the longest prefix of it (for `gemini-cli-mcp-client-counsel`)."""
    if client in CLIENTS:
        return CLIENTS[client]
    prefixes = [name for name in CLIENTS if client.lower().startswith(name.lower())]
    return CLIENTS[max(prefixes, key=len)] if prefixes else OTHERS


def applies_limit(agent: str, seconds: float | None) -> bool:
    """Whether the client applies this limit when an entry in its files sets it."""
    return seconds is not None and seconds >= _IGNORED_BELOW.get(agent, 0)


class Configured(NamedTuple):
    """The limits in seconds that the client's files set for the entry that starts counsel."""

    trusted: float | None = None  # the user's or the machine's own files
    project: float | None = None  # a project's files, which may shorten the limit and never raise it


def time_limit(
    client: str,
    transport: Transport,
    settings: Settings,
    env: Mapping[str, str],
    file_limits: Configured = Configured(),  # noqa: B008 - a tuple
) -> float:
    """Seconds after which a synchronous call answers "processing": shortly before the client's limit."""
    own = settings.client_limit_seconds
    return before(float(own) if own else limit(of(client), transport, env, file_limits))


def time_limit_of(client: str, transport: Transport, env: Mapping[str, str]) -> float:
    """The same time limit, computed by the front, which reads no files."""
    own = env.get("COUNSEL_CLIENT_LIMIT_SECONDS", "")
    if own.isdigit() and int(own):
        return before(float(own))
    return before(limit(of(client), transport, env, Configured()))


def limit(row: Client, transport: Transport, env: Mapping[str, str], file_limits: Configured) -> float:
    default = row.stdio if transport == "stdio" else row.http
    variable = _milliseconds(env.get(row.variable, ""))
    candidates = [variable and max(variable, row.least), file_limits.trusted]
    base = min((seconds for seconds in candidates if seconds), default=default)
    return min(base, row.most, file_limits.project or math.inf)


def _milliseconds(text: str) -> float | None:
    try:
        seconds = float(text) / 1000
    except ValueError:
        return None
    return seconds if 0 < seconds < math.inf else None


def before(seconds: float) -> float:
    """When to answer: a tenth (at most 10 s) before the limit; up to 1 s before a short one, for a loaded machine."""
    return seconds - min(10.0, max(seconds / 10, min(1.0, seconds / 4)))
