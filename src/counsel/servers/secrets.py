"""What looks like a secret, and how it is shown: `ab…yz`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from counsel.agents.references import REFERENCE
from counsel.agents.serverform import Server

# Patterns are compiled when they are first needed (by `re` itself): all of them at once would be a tenth of a start.
_WORDS = frozenset(
    [
        "key",
        "keys",
        "apikey",
        "token",
        "secret",
        "password",
        "passwd",
        "pass",
        "pwd",
        "pat",
        "auth",
        "authorization",
        "credential",
        "credentials",
        "bearer",
        "cookie",
        "session",
        "dsn",
        "private",
    ]
)
_INSIDE = ("apikey", "api_key", "accesskey", "access_key", "secret", "password")
# What well-known keys start with; a text with none of these holds no such key.
_STARTS = (
    *(
        "sk-",
        "sk_",
        "pk-",
        "pk_",
        "rk-",
        "rk_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
    ),
    *("xox", "akia", "aiza", "ya29.", "hf_", "eyj", "bearer", "basic"),
)
_VALUES = (
    r"(?i)\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{10,}"
    r"|\bxox[abposr]-[\w-]{8,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\bya29\.[\w.-]{10,}|\bhf_[A-Za-z0-9]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\bBearer\s+\S+|\bBasic\s+[A-Za-z0-9+/=]{8,}"
)
_FLAG = r"(?s)(--?[A-Za-z][\w.-]*)(?:=(.*))?"
_QUERY = r"([?&;])([^=&;#]+)=([^&;#]*)"
_LOGIN = r"(://[^/@:]*:)([^/@]+)@"
_ASSIGNED = r"(?s)([A-Za-z_]\w*)=(.+)"
_PREFIX = r"(?is)((?:Bearer|Basic|Token)\s+)(.*)"
_MEMBER = r"""(["']?([\w.-]+)["']?[ \t]*[:=][ \t]*")((?:[^"\\\n]|\\.)*)(")"""
_RANDOM = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-")
MASK = "…"


def named(name: str) -> bool:
    """Whether what stands under this name is a secret by its name."""
    lower = name.lower().replace("-", "_").replace(".", "_")
    return (
        not _WORDS.isdisjoint(lower.split("_"))
        or lower.endswith("token")
        or any(word in lower for word in _INSIDE)
    )


def _known_key(text: str) -> bool:
    lower = text.lower()
    return any(start in lower for start in _STARTS) and bool(re.search(_VALUES, text))


def _random(text: str) -> bool:
    """Long, of letters and digits without a space or a dot: nobody writes such a thing by hand, except as a path."""
    if text.startswith(("/", "~/", "./", "../")):
        return any(map(_random, filter(None, text.strip("~.").split("/"))))
    return (
        len(text) >= 32
        and _RANDOM.issuperset(text)
        and any(map(str.isdigit, text))
        and any(map(str.isalpha, text))
    )


def looks_secret(name: str, value: str) -> bool:
    """Whether a literal stands there that should not be shown; a reference to a variable is none."""
    literal = REFERENCE.sub("", value).strip()
    found = re.match(_PREFIX, literal)
    rest = found[2].strip() if found else literal
    if not rest or rest.lower() in {"bearer", "basic", "token"}:
        return False
    return named(name) or _known_key(literal) or _random(literal)


def masked(value: str) -> str:
    if found := re.fullmatch(_PREFIX, value):
        return found[1] + masked(found[2])
    if REFERENCE.fullmatch(value):
        return value
    return f"{value[:2]}{MASK}{value[-2:]}" if len(value) >= 10 else MASK


def masked_map(values: Mapping[str, str]) -> dict[str, str]:
    return {name: masked(value) if looks_secret(name, value) else value for name, value in values.items()}


def masked_args(args: Iterable[str]) -> tuple[str, ...]:
    """`--api-key VALUE`, `--api-key=VALUE`, `NAME=VALUE`, and values that look like keys by themselves."""
    shown: list[str] = []
    flag = ""
    for arg in args:
        shown.append(masked(arg) if flag and looks_secret(flag, arg) else _masked_arg(arg))
        found = re.fullmatch(_FLAG, arg)
        flag = found[1] if found and found[2] is None else ""
    return tuple(shown)


def _masked_arg(arg: str) -> str:
    found = re.fullmatch(_FLAG, arg)
    if found and found[2] is not None and looks_secret(found[1], found[2]):
        return f"{found[1]}={masked(found[2])}"
    pair = re.fullmatch(_ASSIGNED, arg)
    if pair and looks_secret(pair[1], pair[2]):
        return f"{pair[1]}={masked(pair[2])}"
    if "://" in arg:
        return masked_url(arg)
    return masked(arg) if _random(arg) else _without_keys(arg)


def _without_keys(text: str) -> str:
    return re.sub(_VALUES, lambda hit: masked(hit[0]), text) if _known_key(text) else text


def masked_url(url: str) -> str:
    def query(found: re.Match[str]) -> str:
        secret = looks_secret(found[2], found[3])
        return f"{found[1]}{found[2]}={masked(found[3]) if secret else found[3]}"

    shown = re.sub(_LOGIN, rf"\g<1>{MASK}@", re.sub(_QUERY, query, url))
    pieces = re.split(r"[?#]", url, maxsplit=1)[0].split("/")[3:]
    for piece in pieces:
        if _known_key(piece) or _random(piece):
            shown = shown.replace(piece, masked(piece))
    return shown


def masked_any(value: Any, name: str = "") -> Any:
    """An agent's own fields: masked by their names, however deep."""
    if isinstance(value, Mapping):
        return {key: masked_any(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [masked_any(item, name) for item in value]
    return masked(value) if isinstance(value, str) and looks_secret(name, value) else value


def masked_server(server: Server) -> Server:
    return replace(
        server,
        args=masked_args(server.args),
        env=masked_map(server.env),
        url=masked_url(server.url),
        headers=masked_map(server.headers),
        extras=masked_any(server.extras),
    )


def literals(server: Server) -> list[str]:
    """Every literal secret of a server, to be taken out of words that other programs wrote."""
    found = [
        value for name, value in (*server.env.items(), *server.headers.items()) if looks_secret(name, value)
    ]
    found += [old for old, new in zip(server.args, masked_args(server.args), strict=True) if old != new]
    found += [re.sub(_PREFIX, r"\2", value) for value in found]
    return sorted({one for one in found if len(one) > 3}, key=len, reverse=True)


def redacted(text: str, server: Server) -> str:
    for secret in literals(server):
        text = text.replace(secret, masked(secret))
    return _without_keys(text)


def masked_lines(text: str) -> str:
    """A diff for a page: values under secret names are masked, in JSON and TOML alike."""

    def shown(found: re.Match[str]) -> str:
        return f"{found[1]}{masked(found[3])}{found[4]}" if looks_secret(found[2], found[3]) else found[0]

    return _without_keys(re.sub(_MEMBER, shown, text))


def in_command_line(server: Server) -> list[str]:
    """Where a literal secret stands in the arguments or the address: everybody on the machine can read these."""
    places = [
        f"argument {number}"
        for number, (old, new) in enumerate(zip(server.args, masked_args(server.args), strict=True), 1)
        if old != new
    ]
    return places + (["the url"] if masked_url(server.url) != server.url else [])


def in_file(server: Server) -> list[str]:
    """Which variables and headers hold a literal secret."""
    return [name for name, value in server.env.items() if looks_secret(name, value)] + [
        name for name, value in server.headers.items() if looks_secret(name, value)
    ]
