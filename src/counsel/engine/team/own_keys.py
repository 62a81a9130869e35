"""Keys of vendors that people bring: stored encrypted, and used for their own calls instead of the server's."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from counsel import redaction
from counsel.errors import AuthenticationFailed, ConfigInvalid, NotFound
from counsel.models import provider_keys
from counsel.people import OPERATOR

if TYPE_CHECKING:
    from counsel.caller import Caller
    from counsel.engine.store.protocol import Store
    from counsel.engine.team.sealing import Sealer
    from counsel.settings import Settings

SOURCE = "person"  # where such a variable comes from: programs that counsel starts do not get it
_MOST = 256  # people whose settings are remembered


class OwnKeys:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[Settings, Mapping[str, bytes], Settings]] = OrderedDict()

    # ── using them ──

    async def applied(self, caller: Caller) -> Caller:
        """The caller with their own keys in place of the server's. Raises where a key cannot be read: the server's is not used instead."""
        if caller.person is None or caller.server_settings is not None:
            return caller
        server = caller.settings
        own = await self._settings(caller.person.id, server)
        return replace(caller, settings=own, server_settings=server)

    async def _settings(self, person: str, server: Settings) -> Settings:
        sealed = await self._store.person_keys.sealed(person)
        if not sealed:
            self._known.pop(person, None)
            return server
        known = self._known.get(person)
        if known and known[0] is server and known[1] == sealed:
            return known[2]
        own = _with_keys(server, _opened(person, sealed, server))
        redaction.protect(own)
        self._known[person] = (server, sealed, own)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return own

    # ── keeping them ──

    async def listed(self, person: str) -> dict[str, float]:
        """When each was stored, by provider. The keys themselves are never shown again."""
        return await self._store.person_keys.stored(person)

    async def set(self, person: str, provider: str, text: str, server: Settings) -> str:
        """Store a key; the provider's name. Raises `InvalidArgument`, `NotFound`, `ConfigInvalid`."""
        row = provider_keys.row_of(provider, server)
        if person == OPERATOR.id:
            raise NotFound(
                "The operator has no keys of their own.", hint="The server's keys are in its environment."
            )
        sealed = _sealer(server).seal(person, row.provider.name, provider_keys.parsed(text))
        await self._store.person_keys.set(person, row.provider.name, sealed, time.time())
        return row.provider.name

    async def remove(self, person: str, provider: str, server: Settings) -> str:
        name = provider_keys.row_of(provider, server).provider.name
        if not await self._store.person_keys.remove(person, name):
            raise NotFound(f"There is no key of yours for {name}.")
        return name

    async def reseal(self, server: Settings) -> int:
        """Seal everything that the old key has sealed with the new one; how many.

        Raises `ConfigInvalid` in the end when some cannot be opened, and names them.
        """
        sealer, count, unreadable = _sealer(server), 0, []
        for (person, provider), sealed in (await self._store.person_keys.all()).items():
            if sealer.is_current(sealed):
                continue
            try:
                again = sealer.seal(person, provider, sealer.open(person, provider, sealed))
            except ConfigInvalid:
                unreadable.append((person, provider))
            else:
                count += await self._store.person_keys.reseal(person, provider, sealed, again)
        if unreadable:
            shown = {record.person.id: record.person.name for record in await self._store.people.listed()}
            raise _left(
                count, [f"{shown.get(person, person)} ({provider})" for person, provider in unreadable]
            )
        return count


def explain(error: AuthenticationFailed, caller: Caller, provider: str) -> None:
    """Whose key a vendor has refused, and what its person can do: they cannot change the server's variables."""
    rows = (row.provider for row in provider_keys.rows(caller.settings) if row.provider.name == provider)
    if any(caller.settings.source(name) == SOURCE for row in rows for name in row.key_envs):
        error.fields["own_key"] = True
        error.hint = f"This is your own key: store another one under Account in the console, or with `counsel people keys set {provider}`."
    else:
        error.hint = "This is a key of the team's server: tell whoever runs it."


def _left(count: int, keys: Sequence[str]) -> ConfigInvalid:
    return ConfigInvalid(
        f"{count} encrypted again; not those of {', '.join(keys)}: they were stored with another COUNSEL_SECRET_KEY.",
        hint="Set that one as COUNSEL_SECRET_KEY_OLD, or remove each with `counsel people keys remove PROVIDER --person NAME`.",
    )


def _sealer(server: Settings) -> Sealer:
    from counsel.engine.team.sealing import Sealer  # cryptography: only where someone has a key of their own

    return Sealer(server.secret_key, server.secret_key_old)


def _opened(person: str, sealed: Mapping[str, bytes], server: Settings) -> dict[str, str]:
    sealer = _sealer(server)
    return {provider: sealer.open(person, provider, value) for provider, value in sealed.items()}


def _with_keys(server: Settings, keys: Mapping[str, str]) -> Settings:
    """A provider that this release does not know any more is left out."""
    variables: dict[str, str] = {}
    for row in provider_keys.rows(server):
        if row.provider.name in keys:
            first, *others = row.provider.key_envs
            variables |= {**dict.fromkeys(others, ""), first: keys[row.provider.name]}
    return replace(
        server,
        env=MappingProxyType({**server.env, **variables}),
        sources=MappingProxyType({**server.sources, **dict.fromkeys(variables, SOURCE)}),
    )
