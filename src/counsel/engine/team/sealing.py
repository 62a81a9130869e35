"""People's keys at rest: AES-256-GCM with a key that only the servers have (COUNSEL_SECRET_KEY).

A sealed value begins with the sign of the key that sealed it, so that a second key (COUNSEL_SECRET_KEY_OLD) can be read
while values are sealed again. Person and provider are authenticated with it: a value that is copied to another row does
not open.
"""

from __future__ import annotations

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from counsel.errors import ConfigInvalid

SHORTEST = 32  # characters of COUNSEL_SECRET_KEY
_FORMAT = b"\x01"
_SIGN, _NONCE = 8, 12  # bytes


class Sealer:
    def __init__(self, secret: str, old: str = "") -> None:
        for name, value in (("COUNSEL_SECRET_KEY", secret), ("COUNSEL_SECRET_KEY_OLD", old)):
            if value and len(value) < SHORTEST:
                raise ConfigInvalid(
                    f"{name} has fewer than {SHORTEST} characters.",
                    hint="Make one with `openssl rand -base64 32`, the same for all servers.",
                )
        if not secret:
            raise ConfigInvalid(
                "This server has no COUNSEL_SECRET_KEY, so it cannot store or use people's own keys.",
                hint="Make one with `openssl rand -base64 32`, the same for all servers.",
            )
        self._keys = {_sign(key): AESGCM(key) for key in map(_derived, filter(None, (secret, old)))}
        self._sign = _sign(_derived(secret))

    def seal(self, person: str, provider: str, value: str) -> bytes:
        nonce = os.urandom(_NONCE)
        sealed = self._keys[self._sign].encrypt(nonce, value.encode(), _about(person, provider))
        return _FORMAT + self._sign + nonce + sealed

    def open(self, person: str, provider: str, sealed: bytes) -> str:
        """Raises `ConfigInvalid`: it was sealed with another key, or changed."""
        sign, nonce = sealed[1 : 1 + _SIGN], sealed[1 + _SIGN : 1 + _SIGN + _NONCE]
        key = self._keys.get(sign)
        if sealed[:1] != _FORMAT or key is None:
            raise _unreadable(provider)
        try:
            return key.decrypt(nonce, sealed[1 + _SIGN + _NONCE :], _about(person, provider)).decode()
        except (InvalidTag, ValueError):
            raise _unreadable(provider) from None

    def is_current(self, sealed: bytes) -> bool:
        """False: it should be sealed again, the key is the old one."""
        return sealed[1 : 1 + _SIGN] == self._sign


def _derived(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"counsel person keys").derive(secret.encode())


def _sign(key: bytes) -> bytes:
    return hashlib.sha256(b"counsel sign" + key).digest()[:_SIGN]


def _about(person: str, provider: str) -> bytes:
    return f"counsel\0{person}\0{provider}".encode()


def _unreadable(provider: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"Your own key for {provider} cannot be read on this server: it was stored with another COUNSEL_SECRET_KEY.",
        hint="Store the key again, or remove it to use the server's. Nothing was sent.",
    )
