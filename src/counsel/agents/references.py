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
# Words of Cursor and VS Code in `${…}`: they name folders, not variables of the environment.
EDITORS_WORDS = r"\$\{(?:userHome|workspaceFolder|workspaceFolderBasename|pathSeparator)\}"


class Untranslatable(ValueError):
    """`str(error)` says which text cannot be said, and why."""


class Syntax(Record):
    """How an agent writes references. `read` gives ours, `write` gives the agent's."""

    read: Callable[[str], str]
    write: Callable[[str], str]
    example: str  # how a person writes a reference to NAME
    expands: bool = True  # anywhere in a value
    own: str = "(?!)"  # a pattern of what the client fills in and most others do not know


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


def refuse_literal(text: str, label: str) -> None:
    if LITERAL in text:
        start = text.index(LITERAL)
        word = plain(text[start : text.find("}", start) + 1] or text[start:])
        raise Untranslatable(f"{label} would read {word} in {shown(plain(text))} as a variable")


def refuse_default(text: str, label: str) -> None:
    for found in REFERENCE.finditer(text):
        if found[2]:
            raise Untranslatable(f"{label} knows no default values, so {found[0]} would not be expanded")


def _same(text: str) -> str:
    return text


def _to_claude(text: str) -> str:
    refuse_literal(text, "Claude Code")
    return text


def _from_gemini(text: str) -> str:
    return re.sub(_BARE, r"${\1}", text) if "$" in text else text


def _to_gemini(text: str) -> str:
    """Gemini CLI expands `$NAME` too: text that only looks like it would change its meaning there."""
    refuse_literal(text, "Gemini CLI")
    if "$" in text and (found := re.search(_BARE, text)):
        raise Untranslatable(f"Gemini CLI would read {found[0]} in {shown(text)} as a variable")
    return text


def from_prefixed(text: str) -> str:
    """`${env:NAME}`, as Cursor and VS Code have it."""
    return re.sub(_PREFIXED, r"${\1}", text) if "$" in text else text


def to_prefixed(text: str, label: str) -> str:
    """`${env:NAME}` only, which is empty when NAME is not set: no other default can be said."""
    refuse_literal(text, label)
    refuse_default(text, label)
    return REFERENCE.sub(_prefixed, text)


def _prefixed(found: re.Match[str]) -> str:
    return found[0] if re.fullmatch(EDITORS_WORDS, found[0]) else f"${{env:{found[1]}}}"


def _to_cursor(text: str) -> str:
    return to_prefixed(text, "Cursor")


def _to_codex(text: str) -> str:
    if found := REFERENCE.search(text):
        raise Untranslatable(f"Codex expands no variables, so {found[0]} would be taken literally")
    return plain(text)


def shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


CLAUDE = Syntax(_same, _to_claude, "${NAME}")
GEMINI = Syntax(_from_gemini, _to_gemini, "${NAME}")
CURSOR = Syntax(from_prefixed, _to_cursor, "${env:NAME}", own=EDITORS_WORDS)
CODEX = Syntax(as_text, _to_codex, "env_vars, bearer_token_env_var or env_http_headers", expands=False)
