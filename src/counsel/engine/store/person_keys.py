"""People's own keys for vendors, stored encrypted. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from counsel.engine.store.protocol import Pending


class PersonKeyStore(Protocol):
    async def sealed(self, person: str) -> dict[str, bytes]:
        """A person's encrypted keys, by provider."""

    async def stored(self, person: str) -> dict[str, float]:
        """When each key was stored, by provider."""

    def set(self, person: str, provider: str, ciphertext: bytes, at: float) -> Pending[None]: ...

    def remove(self, person: str, provider: str) -> Pending[bool]: ...

    async def all(self) -> Mapping[tuple[str, str], bytes]:
        """All keys by person and provider, to encrypt them with another secret key."""

    def reseal(self, person: str, provider: str, before: bytes, after: bytes) -> Pending[bool]:
        """Replace a key, unless the person has stored another one meanwhile."""
