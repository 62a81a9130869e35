"""People's own vendor keys: stored encrypted, and used for their calls in place of the server's."""

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

SOURCE = "person"  # the source of such variables; programs that counsel starts do not get them
_MOST = 256  # people whose settings are cached


class OwnKeys:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: OrderedDict[str, tuple[Settings, Mapping[str, bytes], Settings]] = OrderedDict()

    # ── using keys ──

    async def applied(self, caller: Caller) -> Caller:
        """The caller with their own keys in place of the server's.

        Raises if a key cannot be read; the server's key is not used instead.
        """
        if caller.person is None or caller.server_settings is not None:
            return caller
        server = caller.settings
        own = await self._settings(caller.person.id, server)
        return replace(caller, settings=own, server_settings=server)

    async def _settings(self, person: str, server: Settings) -> Settings:
        ciphertexts = await self._store.person_keys.sealed(person)
        if not ciphertexts:
            self._cache.pop(person, None)
            return server
        entry = self._cache.get(person)
        if entry and entry[0] is server and entry[1] == ciphertexts:
            return entry[2]
        own = _with_keys(server, _decrypted(person, ciphertexts, server))
        redaction.protect(own)
        self._cache[person] = (server, ciphertexts, own)
        while len(self._cache) > _MOST:
            self._cache.popitem(last=False)
        return own

    # ── storing keys ──

    async def listed(self, person: str) -> dict[str, float]:
        """When each key was stored, by provider. The keys themselves are never shown again."""
        return await self._store.person_keys.stored(person)

    async def set(self, person: str, provider: str, text: str, server: Settings) -> str:
        """Store a key and return the provider's name. Raises `InvalidArgument`, `NotFound` or `ConfigInvalid`."""
        row = provider_keys.row_of(provider, server)
        if person == OPERATOR.id:
            raise NotFound(
                "The operator has no keys of their own.", hint="The server's keys are in its environment."
            )
        ciphertext = _sealer(server).seal(person, row.provider.name, provider_keys.parsed(text))
        await self._store.person_keys.set(person, row.provider.name, ciphertext, time.time())
        return row.provider.name

    async def remove(self, person: str, provider: str, server: Settings) -> str:
        name = provider_keys.row_of(provider, server).provider.name
        if not await self._store.person_keys.remove(person, name):
            raise NotFound(f"You have no key of your own for {name}.")
        return name

    async def reseal(self, server: Settings) -> int:
        """Encrypt everything that the old secret key encrypted with the new one, and return how many keys that were.

        Raises `ConfigInvalid` at the end if some cannot be decrypted, and names them.
        """
        sealer, count, unreadable = _sealer(server), 0, []
        for (person, provider), ciphertext in (await self._store.person_keys.all()).items():
            if sealer.is_current(ciphertext):
                continue
            try:
                new_ciphertext = sealer.seal(person, provider, sealer.open(person, provider, ciphertext))
            except ConfigInvalid:
                unreadable.append((person, provider))
            else:
                count += await self._store.person_keys.reseal(person, provider, ciphertext, new_ciphertext)
        if unreadable:
            names = {record.person.id: record.person.name for record in await self._store.people.listed()}
            raise _unreadable(
                count, [f"{names.get(person, person)} ({provider})" for person, provider in unreadable]
            )
        return count


def explain(error: AuthenticationFailed, caller: Caller, provider: str) -> None:
    """Give the error a hint that fits: whose key the vendor refused, as people cannot change the server's variables."""
    rows = (row.provider for row in provider_keys.rows(caller.settings) if row.provider.name == provider)
    if any(caller.settings.source(name) == SOURCE for row in rows for name in row.key_envs):
        error.fields["own_key"] = True
        error.hint = f"This is your own key. Store another one under Account in the console, or with `counsel people keys set {provider}`."
    else:
        error.hint = "This key belongs to the team's server. Tell whoever runs it."


def _unreadable(count: int, keys: Sequence[str]) -> ConfigInvalid:
    return ConfigInvalid(
        f"{count} encrypted again, but not those of {', '.join(keys)}: they were stored with another COUNSEL_SECRET_KEY.",
        hint="Set that one as COUNSEL_SECRET_KEY_OLD, or remove each with `counsel people keys remove PROVIDER --person NAME`.",
    )


def _sealer(server: Settings) -> Sealer:
    from counsel.engine.team.sealing import Sealer  # imports cryptography, which only own keys need

    return Sealer(server.secret_key, server.secret_key_old)


def _decrypted(person: str, ciphertexts: Mapping[str, bytes], server: Settings) -> dict[str, str]:
    sealer = _sealer(server)
    return {provider: sealer.open(person, provider, value) for provider, value in ciphertexts.items()}


def _with_keys(server: Settings, keys: Mapping[str, str]) -> Settings:
    """The settings with these keys. Providers that this release no longer knows are left out."""
    variables: dict[str, str] = {}
    for row in provider_keys.rows(server):
        if row.provider.name in keys:
            first, *aliases = row.provider.key_envs
            variables |= {**dict.fromkeys(aliases, ""), first: keys[row.provider.name]}
    return replace(
        server,
        env=MappingProxyType({**server.env, **variables}),
        sources=MappingProxyType({**server.sources, **dict.fromkeys(variables, SOURCE)}),
    )
