"""References to environment variables inside values, and the agents' ways to write them.

Between agents a reference is `${NAME}` or `${NAME:-default}`, Claude Code's way. Text that only looks like one (in the
file of an agent that expands nothing, or typed with --literal) has `LITERAL` in the place of its `$`. An agent's format
says how it reads and writes both; what it cannot say is raised as `Untranslatable`, never written as if it could.
"""

import re
from collections.abc import Callable

from counsel.records import Record

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
REFERENCE = re.compile(rf"\$\{{({_NAME})(?::-([^}}]*))?\}}")
LITERAL = "\ue000"  # a private-use character: a `$` before `{` that starts no reference
BEARER = re.compile(rf"[Bb]earer \$\{{({_NAME})\}}")
_BARE = rf"\$({_NAME})"  # compiled when first needed, by `re` itself
_BARE_CAPITALS = r"\$([A-Z_][A-Z0-9_]*)\b"
_PREFIXED = rf"\$\{{env:({_NAME})\}}"
# Cursor's own words in `${…}`: they name folders, not variables of the environment.
_CURSOR_WORDS = frozenset({"userHome", "workspaceFolder", "workspaceFolderBasename", "pathSeparator"})


class Untranslatable(ValueError):
    """`str(error)` says which text cannot be said, and why."""


class Syntax(Record):
    """How an agent writes references. `read` gives ours, `write` gives the agent's."""

    read: Callable[[str], str]
    write: Callable[[str], str]
    example: str  # how a person writes a reference to NAME
    expands: bool = True  # anywhere in a value


def names(text: str) -> list[str]:
    """The variables that a value (in our form) refers to."""
    return [found[1] for found in REFERENCE.finditer(text)]


def whole(text: str) -> str | None:
    """The variable's name when the value is nothing but one plain reference."""
    found = REFERENCE.fullmatch(text)
    return found[1] if found and found[2] is None else None


def from_person(text: str) -> str:
    """What a person types or pastes: any agent's syntax. `$name` in small letters is left alone: it may be text."""
    return re.sub(_BARE_CAPITALS, r"${\1}", re.sub(_PREFIXED, r"${\1}", text)) if "$" in text else text


def bare(text: str) -> list[str]:
    """What `from_person` takes for a reference although it may be meant as text: `$NAME`."""
    return [found[0] for found in re.finditer(_BARE_CAPITALS, text)] if "$" in text else []


def as_text(text: str) -> str:
    """Nothing in it is a reference, whatever it looks like."""
    return text.replace("${", LITERAL + "{")


def plain(text: str) -> str:
    """As a person reads it, and as it stands in a file."""
    return text.replace(LITERAL, "$")


def _refuse_literal(text: str, label: str) -> None:
    if LITERAL in text:
        start = text.index(LITERAL)
        word = plain(text[start : text.find("}", start) + 1] or text[start:])
        raise Untranslatable(f"{label} would read {word} in {shown(plain(text))} as a variable")


def _same(text: str) -> str:
    return text


def _to_claude(text: str) -> str:
    _refuse_literal(text, "Claude Code")
    return text


def _from_gemini(text: str) -> str:
    return re.sub(_BARE, r"${\1}", text) if "$" in text else text


def _to_gemini(text: str) -> str:
    """Gemini CLI expands `$NAME` too: text that only looks like it would change its meaning there."""
    _refuse_literal(text, "Gemini CLI")
    if "$" in text and (found := re.search(_BARE, text)):
        raise Untranslatable(f"Gemini CLI would read {found[0]} in {shown(text)} as a variable")
    return text


def _from_cursor(text: str) -> str:
    return re.sub(_PREFIXED, r"${\1}", text) if "$" in text else text


def _to_cursor(text: str) -> str:
    """Cursor documents `${env:NAME}` only, which is empty when NAME is not set: no other default can be said."""
    _refuse_literal(text, "Cursor")
    for found in REFERENCE.finditer(text):
        if found[2]:
            raise Untranslatable(f"Cursor knows no default values, so {found[0]} would not be expanded")
    return REFERENCE.sub(lambda found: f"${{env:{found[1]}}}", text)


def _to_codex(text: str) -> str:
    if found := REFERENCE.search(text):
        raise Untranslatable(f"Codex expands no variables, so {found[0]} would be taken literally")
    return plain(text)


def cursor_word(text: str) -> str | None:
    """A Cursor word such as `${workspaceFolder}` in a value read from Cursor's file: no other agent knows it."""
    return next((name for name in names(text) if name in _CURSOR_WORDS), None)


def shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


CLAUDE = Syntax(_same, _to_claude, "${NAME}")
GEMINI = Syntax(_from_gemini, _to_gemini, "${NAME}")
CURSOR = Syntax(_from_cursor, _to_cursor, "${env:NAME}")
CODEX = Syntax(as_text, _to_codex, "env_vars, bearer_token_env_var or env_http_headers", expands=False)
