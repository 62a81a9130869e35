"""Which MCP servers of the user's agents a consulted model may use, and which agent's definition applies.

Only the user's own files count: a project's file comes with a repository, and agents ask the user before they start the
servers in it.
"""

from __future__ import annotations

import difflib

from counsel.agents import environment, self_entry, trust
from counsel.agents.definitions import AGENTS, Workspace, workspace_of
from counsel.caller import Caller
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import InvalidArgument, NotFound, Refused, SelfConsultation
from counsel.lazy_dataclass import dataclass
from counsel.servers import starting
from counsel.servers.listing import ListedServer, listing
from counsel.settings import Settings

MOST_SERVERS = 16  # in one call
_SCOPES = ("local", "user")  # the strongest first


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A server that a model may use, as one agent defines it."""

    row: ListedServer
    differing: tuple[str, ...] = ()  # agents that define a different server with this name

    @property
    def name(self) -> str:
        return self.row.server.name


def workspace_for(caller: Caller, model: str) -> Workspace:
    """The caller's workspace, with the chain of agents in its environment for a counsel that a server may start."""
    workspace = workspace_of(caller.env, caller.cwd)
    return workspace.replaced(env=environment.for_agent(caller, model))


def choose(names: tuple[str, ...], caller: Caller) -> list[SharedServer]:
    """The servers with these names. Raises `Refused` for one that is not allowed or missing, and for counsel itself."""
    unique_names = tuple(dict.fromkeys(names))
    if len(unique_names) > MOST_SERVERS:
        raise InvalidArgument(f"`tools` takes at most {MOST_SERVERS} servers, not {len(unique_names)}.")
    for name in unique_names:
        _check_allowed(name, caller.settings)
    workspace = workspace_of(caller.env, caller.cwd)
    rows = tuple(
        row for row in listing(workspace, Reader()).servers if not trust.moved_inside(row.agent, workspace)
    )  # a file that a relative variable points to is not the user's own
    servers = [_definition(name, rows, caller) for name in unique_names]
    for server in servers:
        starting.start(server.row, workspace)  # if it is refused, raises before a model is asked
    return servers


def _check_allowed(name: str, settings: Settings) -> None:
    shared_tools = settings.shared_tools
    if "*" in shared_tools or name in shared_tools:
        return
    allowed_names = f"allowed are: {', '.join(shared_tools)}" if shared_tools else "none are allowed"
    raise InvalidArgument(
        f"The MCP server {name[:80]!r} is not shared with consulted models ({allowed_names}).",
        hint=f"The user can allow it: COUNSEL_SHARED_TOOLS={','.join((*shared_tools, name[:80]))}, or shared_tools in config.toml.",
        server=name[:80],
    )


def _definition(name: str, rows: tuple[ListedServer, ...], caller: Caller) -> SharedServer:
    """The definition in the caller's own agent, or in the first agent that has one."""
    usable = [row for row in rows if row.server.name == name and row.scope in _SCOPES and row.server.enabled]
    if not usable:
        raise _missing(name, rows)
    order = [caller.agent, *AGENTS]
    usable.sort(key=lambda row: (order.index(row.agent), _SCOPES.index(row.scope)))
    best = usable[0]
    if self_entry.is_ours(best.server):
        raise SelfConsultation(
            f"{name} is counsel itself, which a consulted model cannot use.",
            hint="Leave it out of `tools`.",
            server=name,
        )
    return SharedServer(best, _differing_agents(best, usable))


def _differing_agents(best: ListedServer, usable: list[ListedServer]) -> tuple[str, ...]:
    strongest: dict[str, ListedServer] = {}
    for row in usable:
        strongest.setdefault(row.agent, row)
    fields = best.server.compared_fields()
    return tuple(agent for agent, row in strongest.items() if row.server.compared_fields() != fields)


def _missing(name: str, rows: tuple[ListedServer, ...]) -> Refused:
    rows_of_name = [row for row in rows if row.server.name == name]
    if any(row.scope == "project" for row in rows_of_name) and not any(
        row.scope in _SCOPES for row in rows_of_name
    ):
        return InvalidArgument(
            f"{name} is defined only in the project's file, which the repository can change, so it is not shared.",
            hint=f"Copy it to your own configuration: `counsel servers copy {name} --help` shows how.",
            server=name,
        )
    if rows_of_name:
        agents = ", ".join(dict.fromkeys(row.agent for row in rows_of_name))
        return InvalidArgument(
            f"The MCP server {name} is disabled ({agents}).",
            hint=f"Enable it with `counsel servers enable {name}`.",
            server=name,
        )
    server_names = sorted({row.server.name for row in rows if row.scope in _SCOPES})
    return NotFound(
        f"No agent has an MCP server {name[:80]!r}.",
        hint="`counsel servers list` shows all servers.",
        server=name[:80],
        nearest=difflib.get_close_matches(name, server_names, 3) or None,
    )
