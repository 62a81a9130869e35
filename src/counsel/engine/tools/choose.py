"""Which MCP servers of the user's agents a consulted model may use, and which agent's definition is used.

Only the user's own files are used: a project's file comes with a repository, and agents ask the user before they
start what it names.
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
class Shared:
    """A server that a model may use, as one agent defines it."""

    listed: ListedServer
    others: tuple[str, ...] = ()  # agents whose server of this name is a different one

    @property
    def name(self) -> str:
        return self.listed.server.name


def workspace_for(caller: Caller, model: str) -> Workspace:
    """The caller's workspace. A counsel that a server starts learns the chain of agents from its environment."""
    workspace = workspace_of(caller.env, caller.cwd)
    return workspace.replaced(env=environment.for_agent(caller, model))


def choose(names: tuple[str, ...], caller: Caller) -> list[Shared]:
    """The servers of these names. Raises `Refused` for one that is not allowed, does not exist, or is counsel itself."""
    wanted = tuple(dict.fromkeys(names))
    if len(wanted) > MOST_SERVERS:
        raise InvalidArgument(f"`tools` takes at most {MOST_SERVERS} servers, not {len(wanted)}.")
    for name in wanted:
        _check_allowed(name, caller.settings)
    here = workspace_of(caller.env, caller.cwd)
    rows = tuple(
        row for row in listing(here, Reader()).servers if not trust.moved_inside(row.agent, here)
    )  # a file that a relative variable points to is not the user's own
    chosen = [_chosen(name, rows, caller) for name in wanted]
    for shared in chosen:
        starting.start(shared.listed, here)  # raises before anything is asked if it is refused
    return chosen


def _check_allowed(name: str, settings: Settings) -> None:
    allowed = settings.shared_tools
    if "*" in allowed or name in allowed:
        return
    allowed_names = f"allowed are: {', '.join(allowed)}" if allowed else "none are allowed"
    raise InvalidArgument(
        f"The MCP server {name[:80]!r} is not shared with consulted models ({allowed_names}).",
        hint=f"The user can allow it: COUNSEL_SHARED_TOOLS={','.join((*allowed, name[:80]))}, or shared_tools in config.toml.",
        server=name[:80],
    )


def _chosen(name: str, rows: tuple[ListedServer, ...], caller: Caller) -> Shared:
    """The definition of the caller's own agent, or of the first agent that has one."""
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
    return Shared(best, _others(best, usable))


def _others(best: ListedServer, usable: list[ListedServer]) -> tuple[str, ...]:
    strongest: dict[str, ListedServer] = {}
    for row in usable:
        strongest.setdefault(row.agent, row)
    meant = best.server.means()
    return tuple(agent for agent, row in strongest.items() if row.server.means() != meant)


def _missing(name: str, rows: tuple[ListedServer, ...]) -> Refused:
    same = [row for row in rows if row.server.name == name]
    if any(row.scope == "project" for row in same) and not any(row.scope in _SCOPES for row in same):
        return InvalidArgument(
            f"{name} is only defined in the project's own file, which a repository can change: it is not shared.",
            hint=f"Copy it to your own configuration: counsel servers copy {name} --help",
            server=name,
        )
    if same:
        agents = ", ".join(dict.fromkeys(row.agent for row in same))
        return InvalidArgument(
            f"The MCP server {name} is disabled ({agents}).",
            hint=f"Enable it: counsel servers enable {name}.",
            server=name,
        )
    known = sorted({row.server.name for row in rows if row.scope in _SCOPES})
    return NotFound(
        f"No agent has an MCP server {name[:80]!r}.",
        hint="`counsel servers list` shows all servers.",
        server=name[:80],
        nearest=difflib.get_close_matches(name, known, 3) or None,
    )
