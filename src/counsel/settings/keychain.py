"""Keys in the system's keychain, through the optional package `keyring` (`pip install 'counsel[keychain]'`).

COUNSEL_HOME/.env then has a reference instead of the key: `OPENAI_API_KEY=keychain:ACCOUNT`. A keychain may wait for a
person to unlock it, so each read has a time limit, and its result is cached for a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

SERVICE = "counsel"
PREFIX = "keychain:"
_SECONDS = 3.0
_CACHE_SECONDS = 60.0
_cache: dict[str, tuple[float, str | None]] = {}
T = TypeVar("T")


class KeychainError(Exception):
    """The keychain cannot be used; the message says why, without any key."""


def account(name: str, home: Path) -> str:
    return f"{name}@{home}"


def resolved(values: dict[str, str], problems: list[str]) -> dict[str, str]:
    """The variables of .env, with references replaced by keys. Unreadable keys are reported and left out."""
    keys: dict[str, str] = {}
    for name, value in values.items():
        if not value.startswith(PREFIX):
            keys[name] = value
            continue
        try:
            key = _cached(value.removeprefix(PREFIX))
        except KeychainError as error:
            problems.append(f"{name}: {error}")
            continue
        if key:
            keys[name] = key
        else:
            problems.append(f"{name}: the keychain has no such key. Run `counsel keys set` again.")
    return keys


def store(account_name: str, key: str) -> None:
    _cache.pop(account_name, None)
    _within_limit(lambda backend: backend.set_password(SERVICE, account_name, key))


def remove(account_name: str) -> None:
    _cache.pop(account_name, None)
    if _within_limit(lambda backend: backend.get_password(SERVICE, account_name)) is not None:
        _within_limit(lambda backend: backend.delete_password(SERVICE, account_name))


def _cached(account_name: str) -> str | None:
    read_at, key = _cache.get(account_name, (0.0, None))
    if not read_at or time.monotonic() - read_at > _CACHE_SECONDS:
        key = _within_limit(lambda backend: backend.get_password(SERVICE, account_name))
        _cache[account_name] = time.monotonic(), key
    return key


def _within_limit(action: Callable[[Any], T]) -> T:
    """Run the action in a thread: while it waits for a person, it cannot be interrupted, only abandoned."""
    results: list[T] = []
    failures: list[str] = []

    def run() -> None:
        try:
            import keyring  # optional

            results.append(action(keyring))
        except ImportError:
            failures.append("the package keyring is not installed: pip install 'counsel[keychain]'")
        except Exception as error:  # noqa: BLE001 - each backend has its own errors; their text may contain the key
            failures.append(f"the keychain cannot be used ({type(error).__name__})")

    thread = threading.Thread(target=run, name="counsel-keychain", daemon=True)
    thread.start()
    thread.join(_SECONDS)
    if results:
        return results[0]
    raise KeychainError(failures[0] if failures else f"the keychain did not answer within {_SECONDS:.0f} s")
