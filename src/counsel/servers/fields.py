"""Servers from named fields, as typed on the command line, sent over HTTP or passed from Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from counsel.agents.json_server_format import with_token
from counsel.agents.references import as_text, bare, from_person, plain
from counsel.agents.server_format import TRANSPORTS, Server, script_of, translated
from counsel.errors import InvalidArgument
from counsel.servers import secrets

LONGEST = 2_000_000  # seconds; Gemini CLI counts milliseconds in 31 bits
_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_URL = r"(?i)https?://[^\s/?#]\S*|\$\S+"  # an address with a host, or a reference to one
_LOCAL = ("command", "args", "env", "cwd")
_REMOTE = ("url", "headers", "token_env")


def _string(value: object) -> TypeGuard[str | None]:
    return value is None or (isinstance(value, str) and writable_text(value))


def writable_text(text: str) -> bool:
    """Whether a text can be written: no program argument may contain NUL, no file a byte that is not UTF-8."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _command(value: object) -> bool:
    return _string(value) and (not value or bool(value.strip()))


def _strings(value: object) -> TypeGuard[Sequence[str] | None]:
    return value is None or (
        isinstance(value, list | tuple) and all(map(_string, value)) and None not in value
    )


def _tools(value: object) -> bool:
    return _strings(value) and all(value or ())


def _map(value: object) -> TypeGuard[Mapping[str, str | None]]:
    """Names with values; `null` removes a name."""
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and _string(item) for key, item in value.items()
    )


def _env(value: object) -> bool:
    return _map(value) and all(name and "=" not in name and writable_text(name) for name in value)


def _headers(value: object) -> bool:
    return _map(value) and all(
        re.fullmatch(_HEADER, key) and _one_line(item or "") for key, item in value.items()
    )


def _one_line(text: str) -> bool:
    return "\n" not in text and "\r" not in text


def is_url(value: object) -> bool:
    return _string(value) and (not value or re.fullmatch(_URL, value) is not None)


def _variable(value: object) -> bool:
    return value is None or (isinstance(value, str) and re.fullmatch(_VARIABLE, value) is not None)


def _seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value is None
    return 0 < value <= LONGEST


KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "transport": (lambda value: value in TRANSPORTS, f"one of {', '.join(TRANSPORTS)}"),
    "command": (_command, "a program (UTF-8)"),
    "args": (_strings, "a list of strings (UTF-8)"),
    "env": (_env, "names and values of variables (UTF-8)"),
    "cwd": (_string, "a string (UTF-8)"),
    "url": (is_url, "an address such as https://host/mcp"),
    "headers": (_headers, "names and values of HTTP headers"),
    "token_env": (_variable, "the name of a variable"),
    "timeout": (_seconds, f"seconds, more than 0 and at most {LONGEST:,}"),
    "include_tools": (_tools, "a list of names"),
    "exclude_tools": (_tools, "a list of names"),
}


def new_server(name: str, values: Mapping[str, object], *, literal: bool = False) -> Server:
    """A new server; it needs either a command or a url."""
    if bool(values.get("command")) == bool(values.get("url")):
        raise InvalidArgument("A server needs either a command or a url, not both.")
    return patched(Server(name, "http" if values.get("url") else "stdio"), values, literal=literal)


def patched(server: Server, values: Mapping[str, Any], *, literal: bool = False) -> Server:
    """The server with these fields changed; names in `env` and `headers` are added to the existing ones.

    References are recognised only in new values (not even there with `literal`): a value from a file keeps its meaning.
    """
    _refuse_wrong(values)
    if values.get("command") and server.transport != "stdio":
        server = server.without(*_REMOTE).replaced(transport="stdio")
    elif values.get("url") and server.transport == "stdio":
        server = server.without(*_LOCAL).replaced(transport="http")
    _refuse_mixtures(values.get("transport") or server.transport, values)
    parse = as_text if literal else from_person
    new_values: dict[str, Any] = {name: _value(server, name, value, parse) for name, value in values.items()}
    if "headers" in new_values and _authorizes(values["headers"], server.headers, new_values["headers"]):
        new_values.setdefault("token_env", None)
    new = server.replaced(**new_values)
    _refuse_incomplete(new, values)
    return with_token(new if literal else _with_literal_script(server, new, values))


def interpreted(server: Server) -> Server:
    """A pasted server with references in any agent's syntax; in a shell's script, `$NAME` belongs to the shell."""
    script_index, interpretation = script_of(server), translated(server, from_person)
    args = (
        old if n == script_index else new
        for n, (old, new) in enumerate(zip(server.args, interpretation.args, strict=True))
    )
    return interpretation.replaced(args=tuple(args))


def _with_literal_script(old: Server, new: Server, values: Mapping[str, Any]) -> Server:
    """The new server, with a new shell script exactly as typed."""
    script_index = script_of(new)
    if script_index is None or not values.get("args") or values["args"][script_index] in _args_by_text(old):
        return new
    return new.replaced(
        args=(*new.args[:script_index], values["args"][script_index], *new.args[script_index + 1 :])
    )


def reference_notes(values: Mapping[str, Any], *, literal: bool = False) -> list[str]:
    """Notes on `$NAME` in typed values: read as a reference, though it may be meant literally."""
    if literal:
        return []
    args = list(values.get("args") or ())
    script_index = script_of(Server("", command=values.get("command") or "", args=tuple(args)))
    strings = [values.get(name) for name in ("command", "cwd", "url")]
    strings += [arg for number, arg in enumerate(args) if number != script_index]
    strings += [value for name in ("env", "headers") for value in (values.get(name) or {}).values()]
    names = dict.fromkeys(name for text in strings if isinstance(text, str) for name in bare(text))
    return [f"{name} was read as a reference to a variable; --literal writes it literally." for name in names]


def refuse_unusable(server: Server, old: Server | None = None) -> None:
    """Refuse values that a field cannot have; of an updated server, check only the changed fields."""
    values = {
        name: getattr(server, name) if old is None else _changed(getattr(server, name), getattr(old, name))
        for name in KINDS
        if old is None or getattr(server, name) != getattr(old, name)
    }
    if server.transport not in TRANSPORTS:  # one agent's own transport: its module checks it
        values = {name: value for name, value in values.items() if name not in ("transport", "url")}
    else:
        _refuse_incomplete(server, values)
    _refuse_wrong(values)


def _changed(new: object, old: Any) -> object:
    """The new value; of a mapping, only the items that differ."""
    if not isinstance(new, Mapping):
        return new
    return {name: value for name, value in new.items() if old.get(name) != value}


def _authorizes(changes: Mapping[str, str | None], old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the new headers change the authorization, which can also be a token."""
    names = [name for name in {**changes, **old} if name.lower() == "authorization"]
    is_removed = any(changes.get(name, "") is None for name in names)
    return is_removed or any(old.get(name) != new.get(name) for name in names)


def _args_by_text(server: Server) -> dict[str, str]:
    """The arguments by their displayed text, masked or not."""
    texts = [plain(arg) for arg in server.args]
    return dict(zip((*secrets.masked_args(texts), *texts), server.args * 2, strict=True))


def _value(server: Server, name: str, value: Any, parse: Callable[[str], str]) -> object:
    """A field's new value; a value that comes back as it was displayed, masked or not, is the old one."""
    if name == "env":
        return _merged(server.env, value, parse)
    if name == "headers":
        return _merged(server.headers, _with_known_spelling(value, server.headers), parse)
    if value is None:
        return getattr(Server(""), name)
    if name == "args":
        args_by_text = _args_by_text(server)
        return tuple(args_by_text[arg] if arg in args_by_text else parse(arg) for arg in value)
    if name in ("command", "cwd", "url"):
        old = getattr(server, name) or ""
        return old if value in (plain(old), secrets.masked_url(plain(old))) else parse(value)
    return tuple(value) if isinstance(value, list | tuple) else value


def _with_known_spelling(
    new_values: Mapping[str, str | None], old: Mapping[str, str]
) -> dict[str, str | None]:
    """The new headers; names ignore case, and an existing one keeps its spelling."""
    spellings = {name.lower(): name for name in old}
    return {spellings.setdefault(name.lower(), name): value for name, value in new_values.items()}


def _merged(
    old: Mapping[str, str], new_values: Mapping[str, str | None], parse: Callable[[str], str]
) -> dict[str, str]:
    remaining = {name: value for name, value in old.items() if new_values.get(name, "") is not None}
    masks = secrets.masked_map({name: plain(value) for name, value in old.items()})
    new = {
        name: parse(value)
        for name, value in new_values.items()
        if value is not None and (name not in old or value not in (masks[name], plain(old[name])))
    }
    return {**remaining, **new}


def _refuse_wrong(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if name not in KINDS:
            raise InvalidArgument(f"A server has no field {name!r}.", hint=f"Fields: {', '.join(KINDS)}.")
        if not KINDS[name][0](value):
            raise InvalidArgument(f"{name} must be {KINDS[name][1]}.")


def _refuse_incomplete(server: Server, values: Mapping[str, object]) -> None:
    field = "command" if server.transport == "stdio" else "url"
    if {field, "transport"} & values.keys() and not getattr(server, field):
        raise InvalidArgument(f"With transport {server.transport} a server needs a {field}.")


def fields_of_other_transport(server: Server) -> list[str]:
    """Fields of a remote server that a local one has, or the reverse."""
    return [name for name in (_REMOTE if server.transport == "stdio" else _LOCAL) if getattr(server, name)]


def _refuse_mixtures(transport: str, values: Mapping[str, object]) -> None:
    wrong = [name for name in (_REMOTE if transport == "stdio" else _LOCAL) if values.get(name)]
    if wrong:
        raise InvalidArgument(
            f"With transport {transport} a server takes no {', '.join(wrong)}.",
            hint="env and cwd belong to a command, headers and tokens to a url.",
        )
