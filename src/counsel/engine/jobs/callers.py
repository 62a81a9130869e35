"""Callers and their keys, in memory only: the database has fingerprints."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from counsel import logs, paths, redaction
from counsel.caller import Caller
from counsel.errors import ModelNotFound
from counsel.models.catalog import Catalog
from counsel.settings import Settings
from counsel.settings import load as load_settings

log = logging.getLogger("counsel.callers")
_MOST = 256  # callers
_LENGTH = 32  # bytes of the secret
_OWN_AGE = 10.0  # seconds for which the home's files are not read again


class Secret:
    """Keys the fingerprints of callers, so that the database reveals nothing about their keys.

    A job continues after a restart only if the next process reads the same secret.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "secret"
        self.value = b""
        self.kept = False
        self.keep()

    def keep(self) -> None:
        """Read or write the secret; called again if that failed before (a full disk)."""
        try:
            paths.private_folder(self._home)
            with _locked(self._home):
                self._read_or_write()
        except OSError as error:
            if not self.value:
                self.value = secrets.token_bytes(_LENGTH)
                log.warning(
                    "%s cannot be written (%s): jobs do not continue after this process ends",
                    self._path,
                    error.strerror,
                )

    def _read_or_write(self) -> None:
        try:
            value = self._path.read_bytes()
        except FileNotFoundError:
            value = b""
        if len(value) != _LENGTH:  # none yet, or one that a full disk left empty
            value = self.value or secrets.token_bytes(_LENGTH)
            paths.write_private(str(self._path), value, replace=True)
        self.value = self.value or value
        self.kept = self.value == value


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Makes several processes that start at once agree on one secret."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class SharedSecret:
    """The same secret for all servers of a team, from their database."""

    kept = True

    def __init__(self) -> None:
        self.value = b""

    def keep(self) -> None:
        pass


def _home_secret(home: Path) -> bytes:
    """The home's secret, from before its server joined a team: jobs of an earlier release have its fingerprints."""
    with contextlib.suppress(OSError):
        return (home / "secret").read_bytes()
    return b""


class CallerRegistry:
    def __init__(self, home: Path, secret: Secret | SharedSecret) -> None:
        self._home = home
        self._secret = secret
        self._entries: OrderedDict[int, tuple[Settings, str]] = OrderedDict()  # by the settings' identity
        self._settings: dict[str, Settings] = {}  # by fingerprint
        self._home_secret = _home_secret(home) if isinstance(secret, SharedSecret) else b""
        # when the home's own files were read, and their fingerprint
        self._own: tuple[float, str] | None = None

    def register_caller(self, caller: Caller) -> tuple[str, bool]:
        """A caller's fingerprint, and whether its settings are new here."""
        settings = caller.server_settings or caller.settings  # a person's own keys are in the database
        entry = self._entries.get(id(settings))
        if entry is not None and entry[0] is settings:
            return entry[1], False
        fingerprint = self._fingerprint(caller.settings)
        self._entries[id(settings)] = (settings, fingerprint)
        self._settings[fingerprint] = settings
        if self._home_secret:
            self._settings[Caller(settings=caller.settings).fingerprint(self._home_secret)] = settings
        redaction.protect(settings)
        logs.warn_once(settings.problems)
        while len(self._entries) > _MOST:
            self._forget_oldest()
        return fingerprint, True

    def find(self, fingerprint: str) -> Settings | None:
        """Settings with this fingerprint: a known caller's, or those of COUNSEL_HOME's own files."""
        if settings := self._settings.get(fingerprint):
            return settings
        home_settings = load_settings({"COUNSEL_HOME": str(self._home)})
        return home_settings if self._fingerprint(home_settings) == fingerprint else None

    def _fingerprint(self, settings: Settings) -> str:
        if isinstance(self._secret, SharedSecret):
            from counsel.engine.team import fingerprints

            return fingerprints.of(settings, self._secret.value)
        return Caller(settings=settings).fingerprint(self._secret.value)

    def fingerprints(self) -> list[str]:
        """The fingerprints of all keys here: those of COUNSEL_HOME's own files, and of callers."""
        if self._own is None or time.monotonic() - self._own[0] > _OWN_AGE:
            own = self._fingerprint(load_settings({"COUNSEL_HOME": str(self._home)}))
            self._own = (time.monotonic(), own)
        return list(dict.fromkeys([*self._settings, self._own[1]]))

    def names(self, models: Sequence[str]) -> list[str]:
        """The variables that hold the keys of these models, according to the catalog."""
        catalog = Catalog.load(load_settings({"COUNSEL_HOME": str(self._home)}))
        providers = {row.provider.name: row.provider for row in catalog.providers()}
        names: list[str] = []
        for model in models:
            with contextlib.suppress(ModelNotFound, KeyError):
                names += providers[catalog.lookup(model).provider].key_envs[:1]
        return list(dict.fromkeys(names))

    def _forget_oldest(self) -> None:
        _, (_, oldest) = self._entries.popitem(last=False)
        if all(oldest != fingerprint for _, fingerprint in self._entries.values()):
            self._settings.pop(oldest, None)
