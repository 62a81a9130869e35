"""`counsel setup`: counsel's own entry in every installed agent, written by servers/.

Which variables an agent passes to its MCP servers was measured (docs/use/setup.md): Claude Code passes all, Gemini CLI
all but those that look like secrets, Codex and Cursor only those that the entry names. So the entries name the
variables that counsel needs (keys, addresses, who asked whom), by reference: no value is ever written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import counsel
from counsel import run_paths as places
from counsel.agents.definitions import WITH_SETUP, Agent, PassedEnv, locate
from counsel.agents.self_entry import NAME, is_ours
from counsel.agents.server_format import Server, ServerTable
from counsel.configfiles.write.safewrite import PlannedWrite
from counsel.configfiles.write.undo_log import Operation
from counsel.envvars import is_unexpanded
from counsel.errors import Conflict, CounselError, NotFound, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.models.catalog import Catalog
from counsel.servers.diff import unified
from counsel.servers.formats import FORMATS, is_present
from counsel.servers.listing import ListedServer, problem_text
from counsel.servers.service import Servers
from counsel.settings import Settings, rows

_ADDED, _REMOVED = "setup: counsel in {}", "setup --remove: counsel in {}"

# A conversation between agents, and the agents' logins.
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
# How counsel reaches providers, and settings without a COUNSEL_ name. COUNSEL_ settings are named only if they are set.
_NETWORK = (
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
# The first is written literally, the others belong to a client.
_NEVER_NAMED = frozenset({"COUNSEL_HOME", "CLIENT_CWD", "MCP_TRANSPORT"})
_SECRET = ("_KEY", "_TOKEN", "_TOKENS")  # Gemini CLI withholds MAX_MCP_OUTPUT_TOKENS and certificates, too


# Which variables an entry must name: those that the client does not pass on.
_MISSING: dict[PassedEnv, Callable[[str], bool]] = {
    "all": lambda _: False,
    "no secrets": lambda name: name.endswith(_SECRET) or "_CERT" in name,
    "named": lambda _: True,
}


@dataclass(slots=True)
class Step:
    """The change for one agent, planned or done."""

    agent: Agent
    program: Path | None
    action: str  # added, updated, unchanged, removed, absent, refused, not installed
    path: Path | None = None
    writes: list[PlannedWrite] = field(default_factory=list, repr=False)
    error: CounselError | None = None
    operation: str | None = None
    connected: bool | None = None  # None: not checked
    message: str = ""  # the result of the check, and what to do

    @property
    def changes(self) -> bool:
        return any(write.changes for write in self.writes)

    @property
    def diff(self) -> str:
        return "".join(unified(write) for write in self.writes)

    @property
    def failed(self) -> bool:
        return self.error is not None or self.connected is False

    def as_dict(self, *, diff: bool) -> dict[str, object]:
        document: dict[str, object] = {
            "agent": self.agent.name,
            "installed": self.program is not None,
            "action": self.action,
            "path": str(self.path) if self.path else None,
            "id": self.operation,
            "connected": self.connected,
            "said": self.message,
        }
        if self.error:
            document["error"] = self.error.as_dict()
        return {**document, "diff": self.diff} if diff else document


def server(agent: Agent, settings: Settings) -> Server:
    """The entry with which this agent starts counsel. It imports no module from the agent's working folder: `-P` keeps
    Python from looking there, and `-E` ignores a PYTHONPATH, whose empty entries mean that folder."""
    flags = ("-P",) if _needs_pythonpath(settings.env) else ("-E", "-P")
    return Server(
        name=NAME,
        command=sys.executable,
        args=(*flags, "-m", NAME, "stdio", "--as", agent.name),
        env={**_home_variable(settings), **_references(agent, settings)},
    )


def _needs_pythonpath(env: Mapping[str, str]) -> bool:
    """Whether this counsel is found only through PYTHONPATH."""
    source_folder = str(Path(counsel.__file__).parents[1])
    return source_folder in env.get("PYTHONPATH", "").split(os.pathsep)


def in_cache(python: str) -> bool:
    """Whether this Python is in a cache of `uvx` or `pipx run`: the entry would stop working once that is cleared."""
    parts = Path(python).parts
    return any(part.startswith(("archive-v", "environments-v")) for part in parts) or (
        "pipx" in parts and ".cache" in parts
    )


def _home_variable(settings: Settings) -> dict[str, str]:
    """COUNSEL_HOME, unless it is the default, which a front derives from HOME."""
    user_home = settings.env.get("HOME") or str(Path.home())
    counsel_home = str(settings.home)
    return {} if counsel_home == places.home({"HOME": user_home}) else {"COUNSEL_HOME": counsel_home}


def _references(agent: Agent, settings: Settings) -> dict[str, str]:
    """References to variables. An unset one must reach counsel empty, not as `${NAME}`; Codex leaves it out."""
    default = ":-" if FORMATS[agent.name].syntax.expands else ""
    missing = _MISSING[agent.passed_env]
    # An empty SSL_CERT_FILE would leave OpenSSL, and every agent that counsel starts, without certificates.
    empty = {name for name in _NETWORK if not settings.own_env.get(name)} if default else set()
    names = (name for name in _variables(settings) if missing(name) and name not in empty)
    return {name: f"${{{name}{default}}}" for name in names}


def _variables(settings: Settings) -> list[str]:
    providers = [row.provider for row in Catalog.load(settings).providers() if row.provider.name != "local"]
    keys = [name for row in providers for name in row.key_envs]
    addresses = [row.base_url_env for row in providers if row.base_url_env]
    return list(dict.fromkeys((*_CONTEXT, *_AGENTS, *keys, *addresses, *_NETWORK, *_set_settings(settings))))


def _set_settings(settings: Settings) -> list[str]:
    """Settings from the environment of `counsel setup`; those in COUNSEL_HOME's files reach every client anyway."""
    env = settings.own_env
    names = (row.metadata["env"] for row in rows())
    return [name for name in names if env.get(name) and name not in _NEVER_NAMED]


# ── planning ─────────────────────────────────────────────────────────────────────────────────────────


class Setup:
    """Plans each agent separately: a failure of one does not stop the others."""

    def __init__(self, settings: Settings, env: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self.env = os.environ if env is None else env
        self.servers = Servers.here(env=self.env)

    def plan(self, names: Sequence[str] = (), *, remove: bool = False) -> list[Step]:
        agents = [WITH_SETUP[name] for name in dict.fromkeys(names or WITH_SETUP)]
        return [self._step(agent, remove=remove) for agent in agents]

    def apply(self, step: Step, *, remove: bool = False) -> None:
        label = (_REMOVED if remove else _ADDED).format(step.agent.name)
        try:
            step.operation = self.servers.undo_log.apply(step.writes, label)
        except CounselError as error:
            step.action, step.error = "refused", error

    def _step(self, agent: Agent, *, remove: bool) -> Step:
        program = locate(agent, self.env)
        if program is None and not remove and not self._has_files(agent):
            return Step(agent, None, "not installed", message=f"Install it: {agent.install}")
        path = _user_table(agent, self.servers).target.path
        try:
            action, writes = self._removal(agent) if remove else self._entry(agent)
        except CounselError as error:
            return Step(agent, program, "refused", path, error=error)
        return Step(agent, program, action, path, writes)

    def _has_files(self, agent: Agent) -> bool:
        """An application without a program on PATH (VS Code on macOS) is detected by its files."""
        return "ask" not in agent.can and is_present(agent.name, self.servers.workspace)

    # ── adding ──

    def _entry(self, agent: Agent) -> tuple[str, list[PlannedWrite]]:
        entry, existing = server(agent, self.settings), self._existing(agent)
        if existing is None:
            plan = self.servers.add([entry], [agent.name], "user", dry_run=True).plan
            return "added", plan.writes
        if not is_ours(existing.server):
            raise Conflict(
                f"{agent.label} has another server named {NAME!r}; it was not changed.",
                hint=f"Rename or remove it: counsel servers remove {NAME} --agent {agent.name} --scope user",
                file=str(existing.table.target.path),
            )
        plan = self.servers.update(NAME, _update_to(entry), [agent.name], "user", dry_run=True).plan
        return plan.results[0].action, plan.writes

    def _existing(self, agent: Agent) -> ListedServer | None:
        listing = self.servers.listing([agent.name], "user")
        broken = [
            row for row in listing.problems if row.get("name") in (None, NAME) and not row.get("editable")
        ]
        if broken:
            raise from_dict(
                {
                    "code": broken[0]["code"],
                    "error": problem_text(broken[0]),
                    "hint": "Correct it by hand, then run `counsel setup` again.",
                    "file": broken[0]["path"],
                }
            )
        return next((row for row in listing.servers if row.server.name == NAME and row.table.writable), None)

    # ── removing ──

    def _removal(self, agent: Agent) -> tuple[str, list[PlannedWrite]]:
        """Restore the earlier bytes if the file was not written since; else remove only the entry."""
        existing = self._existing(agent)
        if existing is None or not is_ours(existing.server):
            return "absent", []
        path = existing.table.target.path
        try:
            return "removed", [self.servers.undo_log.rewind(self._own_changes(agent), path)]
        except (Conflict, NotFound):
            plan = self.servers.remove(NAME, [agent.name], "user", dry_run=True).plan
            return "removed", plan.writes

    def _own_changes(self, agent: Agent) -> list[Operation]:
        """The changes of `counsel setup` that are still in place, newest first."""
        history = self.servers.history()
        undone_ids = {operation.undoes for operation in history}
        in_place: list[Operation] = []
        for operation in history:
            if operation.what == _REMOVED.format(agent.name):
                break
            if operation.what == _ADDED.format(agent.name) and operation.id not in undone_ids:
                in_place.append(operation)
        return in_place


def _update_to(entry: Server) -> Callable[[Server], Server]:
    """Change only what must change in an existing entry; the user's own variables and fields stay."""

    def change(old: Server) -> Server:
        variables = {name: value for name, value in old.env.items() if name != "COUNSEL_HOME"}
        user_values = {
            name: value
            for name, value in variables.items()
            if name in _NETWORK and not is_unexpanded(name, value)
        }
        return old.replaced(
            command=entry.command, args=entry.args, env={**variables, **entry.env, **user_values}
        )

    return change


def _user_table(agent: Agent, servers: Servers) -> ServerTable:
    return next(table for table in FORMATS[agent.name].tables(servers.workspace) if table.scope == "user")
