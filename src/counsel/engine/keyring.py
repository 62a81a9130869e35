"""Whose keys are at hand. They live here, in memory; the journal knows only fingerprints."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from counsel import logs
from counsel.caller import Caller
from counsel.settings import Settings
from counsel.settings import load as load_settings

_MOST = 256  # callers


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
        logs.tell(settings.problems)
        while len(self._met) > _MOST:
            self._forget_oldest()
        return fingerprint, True

    def find(self, fingerprint: str) -> Settings | None:
        """Settings with this fingerprint: a caller's that is here, or what COUNSEL_HOME's own files give."""
        if known := self._known.get(fingerprint):
            return known
        alone = load_settings({"COUNSEL_HOME": str(self._home)})
        return alone if Caller(settings=alone).fingerprint(self._secret) == fingerprint else None

    def _forget_oldest(self) -> None:
        _, (_, forgotten) = self._met.popitem(last=False)
        if all(forgotten != fingerprint for _, fingerprint in self._met.values()):
            self._known.pop(forgotten, None)
