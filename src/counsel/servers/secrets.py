"""Recognise secrets, and mask them: `ab…yz`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from counsel.agents.references import REFERENCE
from counsel.agents.server_format import Server

# Patterns stay strings, which `re` compiles at first use: compiling all of them takes a tenth of counsel's start.
_NAME_WORDS = frozenset(
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
        "sig",
        "signature",
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
_NAME_PARTS = ("apikey", "api_key", "accesskey", "access_key", "accountkey", "secret", "password")
# Prefixes of well-known keys: a text without any of them contains no such key.
_KEY_PREFIXES = (
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
    *("xox", "akia", "aiza", "ya29.", "hf_", "eyj", "bearer", "basic", "hooks.slack"),
)
_KEYS = (
    r"(?i)\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{10,}"
    r"|\bxox[abposr]-[\w-]{8,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\bya29\.[\w.-]{10,}|\bhf_[A-Za-z0-9]{10,}"
    r"|(?<=hooks\.slack\.com/services/)\S+|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\bBearer\s+\S+|\bBasic\s+[A-Za-z0-9+/=]{8,}"
)
_FLAG = r"(?s)(--?[A-Za-z][\w.-]*)(?:=(.*))?"
_PAIR = r"([A-Za-z][\w.-]*)=([^&;#\s]+)"
_HEADER = r"(?s)([A-Za-z][A-Za-z0-9-]*):\s*(\S.*)"
# `user:PASSWORD@` with any scheme; with http also `TOKEN@`.
_LOGIN = r"://[^/@:\s]*:([^/@\s]+)@|(?<=http://)([^/@:\s]+)(?=@)|(?<=https://)([^/@:\s]+)(?=@)"
_PREFIX = r"(?is)((?:Bearer|Basic|Token)\s+)(.*)"
_MEMBER = r"""(["']?([\w.-]+)["']?[ \t]*[:=][ \t]*(["']))((?:(?!\3)[^\\\n]|\\.)*)(\3)"""
_RANDOM = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-")
MASK = "…"


def is_secret_name(name: str) -> bool:
    """Whether this name suggests that its value is a secret."""
    lower = name.lower().replace("-", "_").replace(".", "_")
    return (
        not _NAME_WORDS.isdisjoint(lower.split("_"))
        or lower.endswith("token")
        or any(word in lower for word in _NAME_PARTS)
    )


def _has_known_key(text: str) -> bool:
    lower = text.lower()
    return any(start in lower for start in _KEY_PREFIXES) and bool(re.search(_KEYS, text))


def _looks_random(text: str) -> bool:
    """Whether a text, or a part of a path, is long and has letters and digits but no space or dot."""
    if text.startswith(("/", "~/", "./", "../")):
        return any(map(_looks_random, filter(None, text.strip("~.").split("/"))))
    return (
        len(text) >= 32
        and _RANDOM.issuperset(text)
        and any(map(str.isdigit, text))
        and any(map(str.isalpha, text))
    )


def looks_secret(name: str, value: str) -> bool:
    """Whether the value is a literal that should not be displayed; a reference to a variable is not."""
    literal = REFERENCE.sub("", value).strip()
    prefix = re.match(_PREFIX, literal)
    rest = prefix[2].strip() if prefix else literal
    if not rest or rest.lower() in {"bearer", "basic", "token"}:
        return False
    return is_secret_name(name) or _has_known_key(literal) or _looks_random(literal)


def masked(value: str) -> str:
    if prefix := re.fullmatch(_PREFIX, value):
        return prefix[1] + masked(prefix[2])
    if REFERENCE.fullmatch(value):
        return value
    return f"{value[:2]}{MASK}{value[-2:]}" if len(value) >= 10 else MASK


def displayed(name: str, value: str) -> str:
    """A value for display: masked as a whole if it looks like a secret, else only the secrets inside it."""
    return masked(value) if looks_secret(name, value) else _with_secrets_changed(value, masked)


def masked_map(values: Mapping[str, str]) -> dict[str, str]:
    return {name: displayed(name, value) for name, value in values.items()}


def masked_args(args: Iterable[str]) -> tuple[str, ...]:
    """Mask `--api-key VALUE`, `--api-key=VALUE`, `NAME=VALUE`, `Name: VALUE`, and values that look like keys."""
    shown_args: list[str] = []
    flag = ""
    for arg in args:
        is_secret = _looks_random(arg) or (
            flag and looks_secret(flag, arg) and not re.fullmatch(_HEADER, arg)
        )
        shown_args.append(masked(arg) if is_secret else _with_secrets_changed(arg, masked))
        option = re.fullmatch(_FLAG, arg)
        flag = option[1] if option and option[2] is None else ""
    return tuple(shown_args)


def masked_url(url: str) -> str:
    return _with_secrets_changed(url, masked)


def _with_secrets_changed(text: str, change: Callable[[str], str]) -> str:
    result, position = "", 0
    for start, end in sorted(_secret_spans(text)):
        if start >= position:
            result, position = result + text[position:start] + change(text[start:end]), end
    return result + text[position:]


def _secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """The spans of secrets in a text: in an address, in pairs (`?key=…`, `Password=…;`), after a header's name."""
    for match in re.finditer(_PAIR, text) if "=" in text else ():
        if looks_secret(match[1], match[2]):
            yield match.span(2)
    if ":" in text and (header := re.fullmatch(_HEADER, text)) and looks_secret(header[1], header[2]):
        yield header.span(2)
    if "://" in text:
        for match in re.finditer(_LOGIN, text):
            yield match.span(match.lastindex or 0)
        for match in re.finditer(r"(?<=/)[^/?#\s]+", text):
            if _looks_random(match[0]):
                yield match.span()
    if _has_known_key(text):
        for match in re.finditer(_KEYS, text):
            yield match.span()


def _without_keys(text: str) -> str:
    return re.sub(_KEYS, lambda hit: masked(hit[0]), text) if _has_known_key(text) else text


def masked_any(value: object, name: str = "") -> object:
    """Mask an agent's own fields by their names, at any depth."""
    if isinstance(value, Mapping):
        return {key: masked_any(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [masked_any(item, name) for item in value]
    return displayed(name, value) if isinstance(value, str) else value


def masked_server(server: Server) -> Server:
    return server.replaced(
        args=masked_args(server.args),
        env=masked_map(server.env),
        url=masked_url(server.url),
        headers=masked_map(server.headers),
        extras=masked_any(server.extras),
    )


def literals(server: Server) -> list[str]:
    """Every literal secret of a server, to be redacted from other programs' output."""
    values = [value for name, value in _named_values(server) if looks_secret(name, value)]
    values += [old for old, new in zip(server.args, masked_args(server.args), strict=True) if old != new]
    strings = [*server.args, server.url, *(value for _, value in _named_values(server))]
    values += [text[start:end] for text in strings for start, end in _secret_spans(text)]
    values += [re.sub(_PREFIX, r"\2", value) for value in values]
    return sorted({value for value in values if len(value) > 3}, key=len, reverse=True)


def _named_values(server: Server) -> tuple[tuple[str, str], ...]:
    return (*server.env.items(), *server.headers.items())


def redacted(text: str, server: Server) -> str:
    for secret in literals(server):
        text = text.replace(secret, masked(secret))
    return _without_keys(text)


def masked_lines(text: str) -> str:
    """Mask values with secret names in a diff of JSON or TOML, for a web page."""

    def member(match: re.Match[str]) -> str:
        return f"{match[1]}{displayed(match[2], match[4])}{match[5]}"

    return _without_keys(re.sub(_MEMBER, member, text))


def masked_diff(diff: str, documents: Iterable[object]) -> str:
    """Mask a file's diff for a web page. `documents` are the file's values before and after: a line of the diff with an
    argument does not show that the argument before it is `--api-key`."""
    for args in {tuple(args) for document in documents for args in _string_lists(document)}:
        for old, new in zip(args, masked_args(args), strict=True):
            if old != new:
                for quoted_text in {json.dumps(old), json.dumps(old, ensure_ascii=False), f"'{old}'"}:
                    diff = diff.replace(quoted_text, f"{quoted_text[0]}{new}{quoted_text[0]}")
    return masked_lines(diff)


def _string_lists(value: object) -> Iterator[list[str]]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _string_lists(item)
    elif isinstance(value, list):
        strings = [item for item in value if isinstance(item, str)]
        if len(strings) == len(value) > 0:
            yield strings
        else:
            for item in value:
                yield from _string_lists(item)


def in_command_line(server: Server) -> list[str]:
    """Where the arguments or the address contain a literal secret: every user of the machine can read these."""
    locations = [
        f"argument {number}"
        for number, (old, new) in enumerate(zip(server.args, masked_args(server.args), strict=True), 1)
        if old != new
    ]
    return locations + (["the url"] if masked_url(server.url) != server.url else [])


def in_file(server: Server) -> list[str]:
    """The variables and headers that contain a literal secret."""
    return [name for name, value in _named_values(server) if displayed(name, value) != value]
