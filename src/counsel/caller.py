"""The caller of a request: its folder, settings and keys. Every call carries its own; nothing is global.

Clients with different keys or folders share one daemon and must never get each other's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from counsel import paths
from counsel import settings as settings_
from counsel.lazy_dataclass import dataclass
from counsel.people import Person
from counsel.settings import Settings


@dataclass(frozen=True, slots=True)
class Caller:
    client: str = "python"  # the name of the MCP client or of the interface
    agent: str | None = None  # claude, codex … if the caller is an agent (`counsel stdio --as`)
    cwd: Path = Path()
    roots: tuple[Path, ...] = ()  # further folders that the client says it works in
    settings: Settings = field(default_factory=Settings, repr=False)
    chain: tuple[str, ...] = ()  # the agents that asked before this call, nearest last
    # Real paths of files that a person typed on the command line, and those of them that may be sent although they look
    # like secrets. Only the CLI sets these: what an agent names over MCP, HTTP or a socket is not consent.
    consented_files: tuple[Path, ...] = ()
    consented_secrets: tuple[Path, ...] = ()
    person: Person | None = None  # of a team; None: the server belongs to one person
    # A person's own keys are in `settings`. These are the server's own settings, by which any server of the team
    # recognises the settings of a job.
    server_settings: Settings | None = field(default=None, repr=False)

    @property
    def owner(self) -> str:
        """The id under which the caller's work is stored; "" on a server that belongs to one person."""
        return self.person.id if self.person else ""

    @property
    def env(self) -> Mapping[str, str]:
        return self.settings.env

    @property
    def own_env(self) -> Mapping[str, str]:
        """The environment for programs that are started for this caller: without counsel's own keys."""
        return self.settings.own_env

    @property
    def agent_chain(self) -> tuple[str, ...]:
        """The chain of agents that led to this call, this caller last."""
        if self.agent is None or self.chain[-1:] == (self.agent,):
            return self.chain
        return (*self.chain, self.agent)

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.cwd, *self.roots)

    def fingerprint(self, secret: bytes) -> str:
        """Equal for callers whose settings and keys are equal; reveals nothing about them."""
        import hashlib  # loads OpenSSL, 3 ms; commands that start no job do not need it
        import hmac

        env = (self.server_settings or self.settings).env
        # Each server starts the embedded model itself, at another address and with another key.
        moving = _EMBEDDED_ADDRESS if EMBEDDED in env else ()
        values = sorted(
            (name, value) for name, value in env.items() if _affects_jobs(name) and name not in moving
        )
        if self.settings.team:
            values.append(("team", self.settings.team.identity))
        return hmac.new(secret, repr(values).encode(), hashlib.sha256).hexdigest()[:32]


def local_caller(
    client: str = "python", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Caller:
    """The caller that this process is: its environment, and its configured or current folder."""
    settings = settings_.load(os.environ if env is None else env)
    folder = cwd or settings.client_cwd or settings.env.get("CLAUDE_PROJECT_DIR") or paths.current_folder()
    return Caller(client=client, cwd=Path(folder).absolute(), settings=settings, chain=chain(settings.env))


def chain(env: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that asked before this caller: counsel sets COUNSEL_CHAIN for the agents that it starts."""
    return tuple(name.strip() for name in env.get("COUNSEL_CHAIN", "").split(",") if name.strip())


EMBEDDED = "COUNSEL_LOCAL_EMBEDDED"  # set by counsel beside the two variables of its own embedded model
_EMBEDDED_ADDRESS = ("COUNSEL_LOCAL_BASE_URL", "COUNSEL_LOCAL_API_KEY")
# Variables that a job needs to continue unchanged: keys, addresses, counsel's settings, the agents' homes and logins.
_SUFFIXES = ("_API_KEY", "_BASE_URL", "_TOKEN")
_PREFIXES = ("COUNSEL_", "CLAUDE_CODE_USE_", "GOOGLE_GENAI_", "GOOGLE_CLOUD_")
_NAMES = frozenset(
    {
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "CODEX_SANDBOX_MODE",
        "CODEX_APPROVAL_POLICY",
        "CODEX_SKIP_GIT_CHECK",
        "CURSOR_CONFIG_DIR",
        "GEMINI_CLI_HOME",
        # The network path to a provider: a job that continues after a crash must use the same.
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "https_proxy",
        "http_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
)
# These do not identify keys: counsel's own folder, the token of each editor window, and what a team's server needs for
# sign-in and for the keys of its people.
_IGNORED_PREFIXES = ("COUNSEL_HOME", "COUNSEL_CHAIN", "VSCODE_", "COUNSEL_SECRET_KEY", "COUNSEL_OIDC_")


def _affects_jobs(name: str) -> bool:
    is_listed = name in _NAMES or name.endswith(_SUFFIXES) or name.startswith(_PREFIXES)
    return is_listed and not name.startswith(_IGNORED_PREFIXES)
