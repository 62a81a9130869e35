"""Whose keys are at hand. They live here, in memory; the database knows only fingerprints."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from counsel import logs, paths
from counsel.caller import Caller
from counsel.errors import ModelNotFound
from counsel.models.catalog import Catalog
from counsel.settings import Settings
from counsel.settings import load as load_settings

log = logging.getLogger("counsel.keyring")
_MOST = 256  # callers
_LENGTH = 32  # bytes of the secret


class Secret:
    """Keys the fingerprints of callers, so that the database says nothing about anybody's keys.

    A job goes on after a restart only where the next process finds the same secret.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "secret"
        self.value = b""
        self.kept = False
        self.keep()

    def keep(self) -> None:
        """Read it, or write it down: where that failed before (a full disk), it is tried again."""
        try:
            paths.private_folder(self._home)
            with _locked(self._home):
                self._read_or_write()
        except OSError as error:
            if not self.value:
                self.value = secrets.token_bytes(_LENGTH)
                log.warning(
                    "%s cannot be written (%s): jobs do not go on after this process ends",
                    self._path,
                    error.strerror,
                )

    def _read_or_write(self) -> None:
        try:
            found = self._path.read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) != _LENGTH:  # none yet, or one that a full disk left empty
            found = self.value or secrets.token_bytes(_LENGTH)
            paths.write_private(str(self._path), found, replace=True)
        self.value = self.value or found
        self.kept = self.value == found


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Several first starts at once agree on one secret."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Keyring:
    def __init__(self, home: Path, secret: bytes) -> None:
        self._home = home
        self._secret = secret
        self._met: OrderedDict[int, tuple[Settings, str]] = OrderedDict()  # by the settings' identity
        self._known: dict[str, Settings] = {}  # by fingerprint

    def meet(self, caller: Caller) -> tuple[str, bool]:
        """A caller's fingerprint, and whether its settings are new here."""
        settings = caller.settings
        held = self._met.get(id(settings))
        if held is not None and held[0] is settings:
            return held[1], False
        fingerprint = caller.fingerprint(self._secret)
        self._met[id(settings)] = (settings, fingerprint)
        self._known[fingerprint] = settings
        logs.protect(settings)
        logs.warn_once(settings.problems)
        while len(self._met) > _MOST:
            self._forget_oldest()
        return fingerprint, True

    def find(self, fingerprint: str) -> Settings | None:
        """Settings with this fingerprint: a caller's that is here, or what COUNSEL_HOME's own files give."""
        if known := self._known.get(fingerprint):
            return known
        alone = load_settings({"COUNSEL_HOME": str(self._home)})
        return alone if Caller(settings=alone).fingerprint(self._secret) == fingerprint else None

    def names(self, models: Sequence[str]) -> list[str]:
        """The variables in which people keep the keys of these models, as far as the catalog knows."""
        catalog = Catalog.load(load_settings({"COUNSEL_HOME": str(self._home)}))
        providers = {row.provider.name: row.provider for row in catalog.providers()}
        found: list[str] = []
        for model in models:
            with contextlib.suppress(ModelNotFound, KeyError):
                found += providers[catalog.lookup(model).provider].key_envs[:1]
        return list(dict.fromkeys(found))

    def _forget_oldest(self) -> None:
        _, (_, forgotten) = self._met.popitem(last=False)
        if all(forgotten != fingerprint for _, fingerprint in self._met.values()):
            self._known.pop(forgotten, None)
