"""The rules for names of people and groups, and the form of ids and tokens."""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata

from counsel.errors import InvalidArgument
from counsel.people import OPERATOR, ROLES, Role

LONGEST = 64  # characters of a name
LONGEST_TOKEN = 200  # characters; longer tokens are not looked up
MOST_GROUPS = 20  # per person
PREFIX = "csl_"
_GROUP = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch
_ID = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch


def person(name: str) -> str:
    """The name in the form in which it is stored. Raises `InvalidArgument`."""
    normalized = unicodedata.normalize("NFC", name).strip()
    if not normalized or len(normalized) > LONGEST:
        raise InvalidArgument(f"A person's name must have 1 to {LONGEST} characters.")
    if any(unicodedata.category(letter) in _UNPRINTABLE for letter in normalized):
        raise InvalidArgument("A person's name must not contain control or invisible characters.")
    if folded(normalized) == OPERATOR.name:
        raise InvalidArgument(
            f"{OPERATOR.name!r} means whoever has the server's COUNSEL_TOKEN.", hint="Choose another name."
        )
    return normalized


# Control, format (such as a reversed direction), surrogate, private use, unassigned, line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def folded(name: str) -> str:
    """The name for comparison: equal for names that differ only in case or in compatible characters (NFKC)."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def group(name: str) -> str:
    group_name = name.strip().lower()
    if not _GROUP(group_name):
        raise InvalidArgument(
            f"{name[:80]!r} is not a group name.",
            hint="Use 1 to 64 letters a to z, digits, dots, hyphens or underscores.",
        )
    return group_name


def groups(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    unique = tuple(sorted({group(name) for name in names}))
    if len(unique) > MOST_GROUPS:
        raise InvalidArgument(f"A person can be in at most {MOST_GROUPS} groups.")
    return unique


def role(name: str) -> Role:
    for role_ in ROLES:
        if name == role_:
            return role_
    raise InvalidArgument(f"There is no role {name[:80]!r}.", hint=f"Roles: {', '.join(ROLES)}.")


def label(text: str) -> str:
    if len(text) > LONGEST or any(unicodedata.category(letter) in _UNPRINTABLE for letter in text):
        raise InvalidArgument(
            f"A token's label must have at most {LONGEST} characters, all of them printable."
        )
    return text.strip()


def is_id(text: str) -> bool:
    """Whether this has the form of our own ids, which are safe in an SQL statement."""
    return _ID(text) is not None


def new_id(kind: str) -> str:
    """`p_…` for a person, `t_…` for a token."""
    return f"{kind}_{secrets.token_hex(8)}"


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """The token's hash. A token has 256 random bits, so a slow hash would not protect it better."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
