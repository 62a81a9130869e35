"""A client's identity as the `Caller` of its calls."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from counsel import redaction
from counsel import settings as settings_
from counsel.agents.definitions import AGENTS
from counsel.caller import Caller, chain
from counsel.lazy_dataclass import dataclass
from counsel.people import Person
from counsel.settings import Settings

_Stamp: TypeAlias = tuple[int, ...]
CHECK_SECONDS = 1.0  # between checks of the files: one costs as much as the interface's other work for a call


@dataclass(slots=True, kw_only=True)
class ClientIdentity:
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    agent: str | None = None  # `counsel stdio --as`
    front: int | None = None  # the process that its client started
    roots: tuple[Path, ...] = ()
    person: Person | None = None  # a member of a team; the settings are the server's
    _server: ClientIdentity | None = field(default=None, repr=False)
    _settings: Settings | None = field(default=None, init=False, repr=False)
    _stamp: _Stamp = field(default=(), init=False, repr=False)
    _checked: float = field(default=0.0, init=False, repr=False)
    _caller: Caller | None = field(default=None, init=False, repr=False)

    @property
    def settings(self) -> Settings:
        """The client's settings, read again when a file under COUNSEL_HOME has changed."""
        if self._server is not None:
            return self._server.settings
        now = time.monotonic()
        if self._settings is not None and now - self._checked < CHECK_SECONDS:
            return self._settings
        stamp = _stamps(settings_.default_home(self.env))
        if self._settings is None or stamp != self._stamp:
            self._settings, self._stamp = settings_.load(self.env), stamp
            redaction.protect(self._settings)
        self._checked = now
        return self._settings

    def read_again(self) -> None:
        """Check the files at the next request: the current one has changed them."""
        self._checked = -CHECK_SECONDS

    def move(self, env: Mapping[str, str], cwd: Path) -> None:
        """Use another folder and other variables: the client's user has moved."""
        self.env, self.cwd = env, cwd
        self._settings = self._caller = None

    def of_person(self, person: Person) -> ClientIdentity:
        """The identity of a person who uses this server, with its settings and keys but none of its folders."""
        return ClientIdentity(env=self.env, cwd=self.cwd, person=person, _server=self)

    def caller(self, client: str) -> Caller:
        """The caller; the same object as long as nothing has changed."""
        settings, previous = self.settings, self._caller
        if (
            previous is not None
            and previous.settings is settings
            and previous.client == client
            and previous.roots == self.roots
        ):
            return previous
        self._caller = Caller(
            client=client,
            agent=self.agent or agent_named(client),
            cwd=self._folder(settings),
            roots=() if self.person else self.roots,
            settings=settings,
            chain=chain(self.env),
            person=self.person,
        )
        return self._caller

    def _folder(self, settings: Settings) -> Path:
        """CLIENT_CWD, the client's first root, CLAUDE_PROJECT_DIR, or the folder in which its front was started."""
        if self.person is not None:
            return settings.home / "team" / self.person.id
        folder = settings.client_cwd or (self.roots[0] if self.roots else self.env.get("CLAUDE_PROJECT_DIR"))
        return Path(folder) if folder and Path(folder).is_absolute() else self.cwd


_FILES = ("config.toml", ".env", "team.json", "team-models.json")


def _stamps(home: Path) -> _Stamp:
    return tuple(_mtime(home / name) for name in _FILES)


def _mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=256)
def agent_named(client: str) -> str | None:
    """The agent whose MCP client has this name (Gemini appends the server's name to its own)."""
    for agent in AGENTS.values():
        if any(client == name or client.startswith(f"{name}-") for name in agent.client_names):
            return agent.name
    return None


def folders(uris: Iterable[object]) -> tuple[Path, ...]:
    """The local folders among a client's roots."""
    paths = (_split(uri) for uri in uris if isinstance(uri, str))
    local = (unquote(at.path) for at in paths if at.scheme == "file" and at.netloc in {"", "localhost"})
    return tuple(Path(path) for path in local if Path(path).is_absolute())


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:  # `file://[`
        return SplitResult("", "", "", "", "")
