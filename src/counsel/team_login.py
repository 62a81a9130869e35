"""The team server that this COUNSEL_HOME has joined: `counsel login` writes two files, every daemon reads them.

    team.json         the address, the token (or its place in the keychain), and the person it belongs to
    team-models.json  what the server offered when it was last asked

Both are in COUNSEL_HOME, beside the keys. Nothing is read from a project's folder or an environment variable: a hostile
repository must not send questions to a server of its own. If a file cannot be read, other keys are not used instead:
the login has a `problem`, and no question is sent.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from counsel import json_reader, paths
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import dataclass

FILE = "team.json"
MODELS_FILE = "team-models.json"
_LARGEST = 8 * 1024 * 1024  # bytes of one of the files
_VARIABLE = "COUNSEL_TEAM_TOKEN"  # the token's name in the keychain
_PREFIX = "csl_"  # of people's tokens


@dataclass(frozen=True, slots=True)
class TeamLogin:
    url: str
    token: str = field(default="", repr=False)
    person: str = ""  # the person's id; "": the server belongs to one person
    name: str = ""
    role: str = ""
    in_keychain: bool = False
    problem: str = ""  # why the login cannot be used
    release: str = ""  # of the server
    asked_at: float = 0.0  # when it last reported what it offers; 0: never
    providers: tuple[Mapping[str, Any], ...] = ()
    models: tuple[Mapping[str, Any], ...] = ()

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc or self.url

    @property
    def identity(self) -> str:
        """Identifies the login, without the token: a job continues after the token was replaced."""
        return f"{self.url} {self.person}" if not self.problem else "a login that cannot be read"


def checked_url(text: str) -> str:
    """The server's address without a trailing slash. Raises `InvalidArgument`."""
    text = text.strip()
    if text.lower().removeprefix("https://").startswith(_PREFIX):  # else it would be sent to a name server
        raise InvalidArgument(
            "This is a token, not an address. counsel asks for the token afterwards.",
            hint=f"{_EXAMPLE}. Your shell may have stored it in its history: revoke this token.",
        )
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidArgument(f"This is not an address: {text[:200]!r}.", hint=_EXAMPLE) from None
    is_odd = any(letter.isspace() or not letter.isprintable() for letter in text)
    if parts.scheme not in {"https", "http"} or not host or port == 0 or is_odd:
        raise InvalidArgument(f"This is not an address of a server: {text[:200]!r}.", hint=_EXAMPLE)
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidArgument(
            "The address must not have a user, a password, a query or a fragment.",
            hint="Type the token when asked for it, or pipe it: others could see an address in the process list.",
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidArgument(
            "An http address is not encrypted: everyone on the network path could read the token.",
            hint=f"Use https://{parts.netloc}. http is for this machine only (127.0.0.1, localhost).",
        )
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


_EXAMPLE = "For example: counsel login https://team.example"


def is_loopback(host: str) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def read(home: Path) -> TeamLogin | None:
    """The login; None if no team was joined."""
    if not os.path.lexists(home / FILE):
        return None
    try:
        document = _document(home / FILE)
        url = checked_url(str(document["url"]))
        person = document.get("person") or {}
        token, problem = _token(str(document["token"]))
        login = TeamLogin(
            url=url,
            token=token,
            person=str(person.get("id", "")),
            name=str(person.get("name", "")),
            role=str(person.get("role", "")),
            in_keychain=str(document["token"]).startswith("keychain:"),
            problem=problem,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidArgument) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        return TeamLogin("", problem=f"{home / FILE} cannot be used ({reason}).")
    return _with_models(login, home)


def _document(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    document = json.loads(content) if len(content) <= _LARGEST else None
    if not isinstance(document, dict):
        raise TypeError("not an object")
    return document


def _token(reference: str) -> tuple[str, str]:
    if not reference.startswith("keychain:"):
        return reference, "" if reference else "it has no token"
    from counsel.settings import keychain  # optional, and its backends take long to import

    problems: list[str] = []
    token = keychain.resolved({_VARIABLE: reference}, problems).get(_VARIABLE, "")
    return token, f"The token of the team server is not available: {problems[0]}" if problems else ""


def _with_models(login: TeamLogin, home: Path) -> TeamLogin:
    """The login with its models. A list of another server or person is ignored; a damaged one is fetched again."""
    try:
        document = _document(home / MODELS_FILE)
        if (document.get("url"), document.get("person")) != (login.url, login.person):
            return login
        providers = tuple(_rows(document["providers"], ("name",)))
        models = tuple(_rows(document["models"], ("id", "provider", "wire_id")))
        return replace(
            login,
            release=str(document.get("release", "")),
            asked_at=float(document["at"]),
            providers=providers,
            models=models,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return login


def _rows(value: object, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return [
        row for row in value if isinstance(row, dict) and all(isinstance(row.get(n), str) for n in fields)
    ]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────


def write(home: Path, url: str, token: str, about: Mapping[str, object]) -> TeamLogin:
    """Join. The token is stored in the system's keychain if there is one, else in a file that only this user reads."""
    person = json_reader.part(about, "person")
    reference = _stored_token(home, token)
    paths.private_folder(home)
    document = {"url": url, "token": reference, "person": person or None}
    paths.write_private(str(home / FILE), json.dumps(document, indent=1).encode(), replace=True)
    write_models(home, url, str(person.get("id", "")), about)
    return read(home) or TeamLogin(url)


def _stored_token(home: Path, token: str) -> str:
    from counsel.settings import keychain

    account = keychain.account(_VARIABLE, home)
    try:
        keychain.store(account, token)
        if keychain.resolved({_VARIABLE: keychain.PREFIX + account}, []).get(_VARIABLE) == token:
            return keychain.PREFIX + account
    except keychain.KeychainError:
        pass
    return token


def write_models(home: Path, url: str, person: str, about: Mapping[str, object]) -> None:
    """Store what the server offers now."""
    document = {
        "url": url,
        "person": person,
        "at": time.time(),
        "release": about.get("counsel", ""),
        "providers": about.get("providers", []),
        "models": about.get("models", []),
    }
    paths.write_private(str(home / MODELS_FILE), json.dumps(document).encode(), replace=True)


def remove(home: Path) -> bool:
    """Leave the team; False if none was joined."""
    login = read(home)
    if login is None:
        return False
    if login.in_keychain:
        from counsel.settings import keychain

        with suppress(keychain.KeychainError):  # the token then stays there, but nothing refers to it
            keychain.remove(keychain.account(_VARIABLE, home))
    for name in (FILE, MODELS_FILE):
        (home / name).unlink(missing_ok=True)
    return True
