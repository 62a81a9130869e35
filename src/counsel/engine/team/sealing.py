"""Encryption of people's stored keys: AES-256-GCM with a key that only the servers have (COUNSEL_SECRET_KEY).

A sealed value begins with the id of its key, so that values of a second key (COUNSEL_SECRET_KEY_OLD) can be read while
they are being sealed again. Person and provider are authenticated along with it, so a value that was copied to another
row cannot be opened.
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
_KEY_ID, _NONCE = 8, 12  # bytes


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
        self._keys = {_key_id_of(key): AESGCM(key) for key in map(_derive, filter(None, (secret, old)))}
        self._key_id = _key_id_of(_derive(secret))

    def seal(self, person: str, provider: str, value: str) -> bytes:
        nonce = os.urandom(_NONCE)
        ciphertext = self._keys[self._key_id].encrypt(nonce, value.encode(), _context(person, provider))
        return _FORMAT + self._key_id + nonce + ciphertext

    def open(self, person: str, provider: str, sealed: bytes) -> str:
        """The value. Raises `ConfigInvalid` if it was sealed with another key, or changed."""
        key_id, nonce = sealed[1 : 1 + _KEY_ID], sealed[1 + _KEY_ID : 1 + _KEY_ID + _NONCE]
        key = self._keys.get(key_id)
        if sealed[:1] != _FORMAT or key is None:
            raise _unreadable(provider)
        try:
            return key.decrypt(nonce, sealed[1 + _KEY_ID + _NONCE :], _context(person, provider)).decode()
        except (InvalidTag, ValueError):
            raise _unreadable(provider) from None

    def is_current(self, sealed: bytes) -> bool:
        """Whether it was sealed with the current key; if not, it should be sealed again."""
        return sealed[1 : 1 + _KEY_ID] == self._key_id


def _derive(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"counsel person keys").derive(secret.encode())


def _key_id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"counsel sign" + key).digest()[:_KEY_ID]


def _context(person: str, provider: str) -> bytes:
    return f"counsel\0{person}\0{provider}".encode()


def _unreadable(provider: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"Your own key for {provider} cannot be read on this server: it was stored with another COUNSEL_SECRET_KEY.",
        hint="Store the key again, or remove it to use the server's. Nothing was sent.",
    )
