"""References to environment variables inside values, and each agent's syntax for them.

Internally a reference is `${NAME}` or `${NAME:-default}`, as in Claude Code. Text that only looks like one (in the file
of an agent that expands nothing, or typed with --literal) has `LITERAL` instead of its `$`. An agent's syntax reads and
writes both; what it cannot express raises `Untranslatable`, and nothing is written.
"""

import re
from collections.abc import Callable

from counsel.records import Record

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
REFERENCE = re.compile(rf"\$\{{({_NAME})(?::-([^}}]*))?\}}")
LITERAL = "\ue000"  # a private-use character: a `$` before `{` that starts no reference
BEARER = re.compile(rf"[Bb]earer \$\{{({_NAME})\}}")
_BARE = rf"\$({_NAME})"  # not compiled: `re` does that when it is first needed
_BARE_CAPITALS = r"\$([A-Z_][A-Z0-9_]*)\b"
_PREFIXED = rf"\$\{{env:({_NAME})\}}"
# Placeholders of Cursor and VS Code: folders, not environment variables.
EDITOR_PLACEHOLDERS = r"\$\{(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator)\}"


class Untranslatable(ValueError):
    """`str(error)` says which text cannot be expressed, and why."""


class Syntax(Record):
    """How an agent writes references. `read` gives ours, `write` gives the agent's."""

    read: Callable[[str], str]
    write: Callable[[str], str]
    example: str  # how a user writes a reference to NAME
    expands: bool = True  # anywhere in a value
    own: str = "(?!)"  # a pattern of placeholders that this client fills in and most others do not know


def names(text: str) -> list[str]:
    """The variables that a value (in our syntax) refers to."""
    return [match[1] for match in REFERENCE.finditer(text)]


def sole_variable(text: str) -> str | None:
    """The variable's name if the value is one reference without a default, and nothing else."""
    match = REFERENCE.fullmatch(text)
    return match[1] if match and match[2] is None else None


def from_person(text: str) -> str:
    """What a user types or pastes, from any agent's syntax into ours. `$name` in lower case stays: it may be text."""
    return re.sub(_BARE_CAPITALS, r"${\1}", re.sub(_PREFIXED, r"${\1}", text)) if "$" in text else text


def bare(text: str) -> list[str]:
    """What `from_person` reads as references although it may be literal text: `$NAME`."""
    return [match[0] for match in re.finditer(_BARE_CAPITALS, text)] if "$" in text else []


def as_text(text: str) -> str:
    """The value as literal text without references."""
    return text.replace("${", LITERAL + "{")


def plain(text: str) -> str:
    """The value as it is in a file and on the screen."""
    return text.replace(LITERAL, "$")


def refuse_literal(text: str, label: str) -> None:
    if LITERAL in text:
        start = text.index(LITERAL)
        word = plain(text[start : text.find("}", start) + 1] or text[start:])
        raise Untranslatable(f"{label} would read {word} in {excerpt(plain(text))} as a variable")


def refuse_default(text: str, label: str) -> None:
    for match in REFERENCE.finditer(text):
        if match[2]:
            raise Untranslatable(f"{label} has no default values, so {match[0]} would not be expanded")


def refuse_read(pattern: str, text: str, label: str) -> None:
    if match := re.search(pattern, text):
        raise Untranslatable(f"{label} would read {match[0]} in {excerpt(text)} as a variable")


def _same(text: str) -> str:
    return text


def _to_claude(text: str) -> str:
    refuse_literal(text, "Claude Code")
    return text


def _from_gemini(text: str) -> str:
    return re.sub(_BARE, r"${\1}", text) if "$" in text else text


def _to_gemini(text: str) -> str:
    """Gemini CLI also expands `$NAME`: text that looks like a variable would change its meaning."""
    refuse_literal(text, "Gemini CLI")
    refuse_read(_BARE, text, "Gemini CLI")
    return text


def from_prefixed(text: str) -> str:
    """Our syntax for `${env:NAME}`, which Cursor and VS Code use."""
    return re.sub(_PREFIXED, r"${\1}", text) if "$" in text else text


def to_prefixed(text: str, label: str) -> str:
    """`${env:NAME}`, which is empty if NAME is not set: no other default can be expressed."""
    refuse_default(text, label)
    refuse_read(_PREFIXED, text, label)  # literal text for the client that it comes from
    return REFERENCE.sub(_prefixed, text)


def _prefixed(match: re.Match[str]) -> str:
    return match[0] if re.fullmatch(EDITOR_PLACEHOLDERS, match[0]) else f"${{env:{match[1]}}}"


def _to_cursor(text: str) -> str:
    refuse_literal(text, "Cursor")
    return to_prefixed(text, "Cursor")


def _to_codex(text: str) -> str:
    if match := REFERENCE.search(text):
        raise Untranslatable(f"Codex expands no variables, so {match[0]} would be literal")
    return plain(text)


def excerpt(text: str) -> str:
    text = plain(text)
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


CLAUDE = Syntax(_same, _to_claude, "${NAME}")
GEMINI = Syntax(_from_gemini, _to_gemini, "${NAME}")
CURSOR = Syntax(from_prefixed, _to_cursor, "${env:NAME}", own=EDITOR_PLACEHOLDERS)
CODEX = Syntax(as_text, _to_codex, "env_vars, bearer_token_env_var or env_http_headers", expands=False)
