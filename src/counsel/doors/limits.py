"""How long each MCP client waits for one tool call, and when we answer before it gives up.

A client's limit is its own; this table says what was measured or documented for its default. The name is what
the client calls itself in `initialize`. `COUNSEL_CLIENT_LIMIT_SECONDS` overrides the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from counsel.settings import Settings

Transport: TypeAlias = Literal["stdio", "http"]


class Limit(NamedTuple):
    stdio: int
    http: int
    source: str


CLIENTS: dict[str, Limit] = {
    "codex-mcp-client": Limit(60, 60, "tool_timeout_sec, 60 s by default (measured)"),
    "claude-code": Limit(1800, 300, "idle limit 30 min on stdio, 5 min on HTTP (measured)"),
    "claude-ai": Limit(240, 240, "Claude Desktop, 4 min (documented)"),
    "gemini-cli-mcp-client": Limit(600, 600, "timeout, 10 min by default (measured)"),
    "cursor-vscode": Limit(60, 60, "the TypeScript SDK's default (not measured)"),
    "cursor": Limit(60, 60, "the TypeScript SDK's default (not measured)"),
    "Cline": Limit(60, 60, "the TypeScript SDK's default (not measured)"),
    "Roo Code": Limit(60, 60, "the TypeScript SDK's default (not measured)"),
    "mcp-inspector": Limit(300, 300, "request timeout, 5 min (documented)"),
    "inspector-client": Limit(300, 300, "request timeout, 5 min (documented)"),
}
OTHERS = Limit(300, 300, "clients that the table does not know")


def of(client: str) -> Limit:
    """The row of a client, or of the family that its name starts with (`gemini-cli-mcp-client-counsel`)."""
    if client in CLIENTS:
        return CLIENTS[client]
    family = [name for name in CLIENTS if client.lower().startswith(name.lower())]
    return CLIENTS[max(family, key=len)] if family else OTHERS


def patience(client: str, transport: Transport, settings: Settings) -> float:
    """Seconds after which a synchronous call answers "processing": shortly before the client's limit."""
    return _before(float(settings.client_limit_seconds or getattr(of(client), transport)))


def patience_of(client: str, transport: Transport, own: str | None) -> float:
    """The same for the front, which knows the setting only from its environment."""
    table = float(getattr(of(client), transport))
    return _before(float(own) if own and own.isdigit() and int(own) else table)


def _before(limit: float) -> float:
    return limit - min(10.0, limit / 10)
