"""`counsel setup`: counsel's own entry in every installed agent, through the safe editor of the servers room.

What an agent hands on to the MCP servers it starts was measured (docs/setup.md): Claude Code everything, Gemini CLI all
but what looks like a secret, Codex and Cursor only what the entry names. So the entries name the variables that
counsel needs (keys, addresses, who asked whom), by reference: no value is ever written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from counsel.agents.definitions import WITH_SETUP, Agent, HandsOn, locate
from counsel.agents.self_entry import NAME, is_ours
from counsel.agents.server_format import Server, ServerTable
from counsel.configfiles.write.safewrite import Planned
from counsel.configfiles.write.undo_log import Operation
from counsel.envvars import is_unexpanded
from counsel.errors import Conflict, CounselError, NotFound, from_dict
from counsel.front import run_paths as places
from counsel.lazy_dataclass import dataclass
from counsel.models.catalog import Catalog
from counsel.servers.diff import unified
from counsel.servers.formats import FORMATS, is_present
from counsel.servers.listing import ListedServer, problem_text
from counsel.servers.service import Servers
from counsel.settings import Settings, rows

_ADDED, _REMOVED = "setup: counsel in {}", "setup --remove: counsel in {}"

# What belongs to a conversation between agents, and what agents are logged in with.
_CONTEXT = ("COUNSEL_CHAIN", "SESSION_ID", "PERMISSION_MODE")
_AGENTS = (
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
    "CODEX_HOME",
    "CODEX_API_KEY",
    "GEMINI_CLI_HOME",
    "CURSOR_API_KEY",
)
# How counsel reaches providers, and the settings of the seed's names. Settings of ours are named once they are set.
_WAYS = (
    *(
        name
        for proxy in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
        for name in (proxy, proxy.lower())
    ),
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUEST_TIMEOUT_MS",
    "MAX_MCP_OUTPUT_TOKENS",
    "LOG_LEVEL",
)
_NOT_HANDED_ON = frozenset(
    {"COUNSEL_HOME", "CLIENT_CWD", "MCP_TRANSPORT"}
)  # written as it is; a window's own
_SECRET = ("_KEY", "_TOKEN", "_TOKENS")  # Gemini CLI takes MAX_MCP_OUTPUT_TOKENS for one, and certificates


# Which variables an entry must name: those that the client does not hand on by itself.
_MISSING: dict[HandsOn, Callable[[str], bool]] = {
    "all": lambda _: False,
    "no secrets": lambda name: name.endswith(_SECRET) or "_CERT" in name,
    "named": lambda _: True,
}


@dataclass(slots=True)
class Step:
    """What happens, or happened, for one agent."""

    agent: Agent
    program: Path | None
    action: str  # added, updated, unchanged, removed, absent, refused, not installed
    path: Path | None = None
    writes: list[Planned] = field(default_factory=list, repr=False)
    error: CounselError | None = None
    operation: str | None = None
    connected: bool | None = None  # None: not checked
    said: str = ""  # what the check found, and what to do

    @property
    def changes(self) -> bool:
        return any(one.changes for one in self.writes)

    @property
    def diff(self) -> str:
        return "".join(unified(one) for one in self.writes)

    @property
    def failed(self) -> bool:
        return self.error is not None or self.connected is False

    def as_dict(self, *, diff: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "agent": self.agent.name,
            "installed": self.program is not None,
            "action": self.action,
            "path": str(self.path) if self.path else None,
            "id": self.operation,
            "connected": self.connected,
            "said": self.said,
        }
        if self.error:
            shown["error"] = self.error.as_dict()
        return {**shown, "diff": self.diff} if diff else shown


def server(agent: Agent, settings: Settings) -> Server:
    """counsel as this agent should start it: no module in the folder where an agent works is ever imported. `-P` keeps
    Python from looking there, `-E` from a PYTHONPATH with an empty entry, which means the same."""
    flags = ("-P",) if _by_module_path(settings.env) else ("-E", "-P")
    return Server(
        name=NAME,
        command=sys.executable,
        args=(*flags, "-m", "counsel", "stdio", "--as", agent.name),
        env={**_table(settings), **_handed_on(agent, settings)},
    )


def _by_module_path(env: Mapping[str, str]) -> bool:
    """Whether only PYTHONPATH leads to this counsel."""
    above = str(Path(__file__).parents[1])
    return above in env.get("PYTHONPATH", "").split(os.pathsep)


def passing(python: str) -> bool:
    """Whether this Python lies in a cache that `uvx` or `pipx run` made: what is written would stop working one day."""
    parts = Path(python).parts
    return any(part.startswith(("archive-v", "environments-v")) for part in parts) or (
        "pipx" in parts and ".cache" in parts
    )


def _table(settings: Settings) -> dict[str, str]:
    """COUNSEL_HOME, where a front that knows nothing but HOME would look elsewhere."""
    user = settings.env.get("HOME") or str(Path.home())
    mine = str(settings.home)
    return {} if mine == places.home({"HOME": user}) else {"COUNSEL_HOME": mine}


def _handed_on(agent: Agent, settings: Settings) -> dict[str, str]:
    """What is not set must reach counsel as nothing, not as a text: Codex leaves it out by itself."""
    default = ":-" if FORMATS[agent.name].syntax.expands else ""
    missing = _MISSING[agent.hands_on]
    # An empty SSL_CERT_FILE would leave OpenSSL, and every agent that counsel starts, without certificates.
    empty = {name for name in _WAYS if not settings.own_env.get(name)} if default else set()
    wanted = (name for name in _variables(settings) if missing(name) and name not in empty)
    return {name: f"${{{name}{default}}}" for name in wanted}


def _variables(settings: Settings) -> list[str]:
    providers = [row.provider for row in Catalog.load(settings).providers() if row.provider.name != "local"]
    keys = [name for row in providers for name in row.key_envs]
    addresses = [row.base_url_env for row in providers if row.base_url_env]
    return list(dict.fromkeys((*_CONTEXT, *_AGENTS, *keys, *addresses, *_WAYS, *_set(settings))))


def _set(settings: Settings) -> list[str]:
    """Settings that stand in the environment of who runs setup; those in COUNSEL_HOME's files reach every window."""
    given = settings.own_env
    names = (row.metadata["env"] for row in rows())
    return [name for name in names if given.get(name) and name not in _NOT_HANDED_ON]


# ── planning ─────────────────────────────────────────────────────────────────────────────────────────


class Setup:
    """Plans for each agent by itself: one that cannot take it holds up none of the others."""

    def __init__(self, settings: Settings, env: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self.env = os.environ if env is None else env
        self.servers = Servers.here(env=self.env)

    def plan(self, names: Sequence[str] = (), *, remove: bool = False) -> list[Step]:
        agents = [WITH_SETUP[name] for name in dict.fromkeys(names or WITH_SETUP)]
        return [self._step(agent, remove=remove) for agent in agents]

    def apply(self, step: Step, *, remove: bool = False) -> None:
        what = (_REMOVED if remove else _ADDED).format(step.agent.name)
        try:
            step.operation = self.servers.undo_log.apply(step.writes, what)
        except CounselError as error:
            step.action, step.error = "refused", error

    def _step(self, agent: Agent, *, remove: bool) -> Step:
        program = locate(agent, self.env)
        if program is None and not remove and not self._used(agent):
            return Step(agent, None, "not installed", said=f"Install it: {agent.install}")
        path = _user_table(agent, self.servers).target.path
        try:
            action, writes = self._removal(agent) if remove else self._entry(agent)
        except CounselError as error:
            return Step(agent, program, "refused", path, error=error)
        return Step(agent, program, action, path, writes)

    def _used(self, agent: Agent) -> bool:
        """An application without a program on PATH (VS Code on macOS) is known by its files."""
        return "ask" not in agent.can and is_present(agent.name, self.servers.workspace)

    # ── in ──

    def _entry(self, agent: Agent) -> tuple[str, list[Planned]]:
        wanted, held = server(agent, self.settings), self._held(agent)
        if held is None:
            plan = self.servers.add([wanted], [agent.name], "user", dry_run=True).plan
            return "added", plan.writes
        if not is_ours(held.server):
            raise Conflict(
                f"{agent.label} has another server named {NAME!r}; it was left alone.",
                hint=f"Rename or remove it: counsel servers remove {NAME} --agent {agent.name} --scope user",
                file=str(held.table.target.path),
            )
        plan = self.servers.update(NAME, _renewal(wanted), [agent.name], "user", dry_run=True).plan
        return plan.results[0].action, plan.writes

    def _held(self, agent: Agent) -> ListedServer | None:
        seen = self.servers.listing([agent.name], "user")
        broken = [one for one in seen.problems if one.get("name") in (None, NAME) and not one.get("editable")]
        if broken:
            raise from_dict(
                {
                    "code": broken[0]["code"],
                    "error": problem_text(broken[0]),
                    "hint": "Correct it by hand, then run `counsel setup` again.",
                    "file": broken[0]["path"],
                }
            )
        return next((one for one in seen.servers if one.server.name == NAME and one.table.writable), None)

    # ── out ──

    def _removal(self, agent: Agent) -> tuple[str, list[Planned]]:
        """What setup did is rewound, byte for byte where nobody wrote since; else the entry alone is taken out."""
        held = self._held(agent)
        if held is None or not is_ours(held.server):
            return "absent", []
        path = held.table.target.path
        try:
            return "removed", [self.servers.undo_log.rewind(self._done(agent), path)]
        except (Conflict, NotFound):
            plan = self.servers.remove(NAME, [agent.name], "user", dry_run=True).plan
            return "removed", plan.writes

    def _done(self, agent: Agent) -> list[Operation]:
        """The changes of `counsel setup` that still stand, newest first."""
        known = self.servers.history()
        taken_back = {one.undoes for one in known}
        standing: list[Operation] = []
        for one in known:
            if one.what == _REMOVED.format(agent.name):
                break
            if one.what == _ADDED.format(agent.name) and one.id not in taken_back:
                standing.append(one)
        return standing


def _renewal(wanted: Server) -> Callable[[Server], Server]:
    """Of an entry that is there, only what must change: the user's own variables and fields stay."""

    def change(old: Server) -> Server:
        kept = {name: value for name, value in old.env.items() if name != "COUNSEL_HOME"}
        own = {
            name: value for name, value in kept.items() if name in _WAYS and not is_unexpanded(name, value)
        }
        return old.replaced(command=wanted.command, args=wanted.args, env={**kept, **wanted.env, **own})

    return change


def _user_table(agent: Agent, servers: Servers) -> ServerTable:
    return next(table for table in FORMATS[agent.name].tables(servers.workspace) if table.scope == "user")
