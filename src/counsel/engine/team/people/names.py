"""What people and groups may be called, and how tokens look."""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata

from counsel.errors import InvalidArgument
from counsel.people import OPERATOR, ROLES, Role

LONGEST = 64  # characters of a name
LONGEST_TOKEN = 200  # characters of a token that is looked up at all
MOST_GROUPS = 20  # of one person
PREFIX = "csl_"
_GROUP = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch
_ID = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch


def person(name: str) -> str:
    """The name as it is stored; raises `InvalidArgument`."""
    cleaned = unicodedata.normalize("NFC", name).strip()
    if not cleaned or len(cleaned) > LONGEST:
        raise InvalidArgument(f"A person's name has 1 to {LONGEST} characters.")
    if any(unicodedata.category(letter) in _UNPRINTABLE for letter in cleaned):
        raise InvalidArgument("A person's name has no control or invisible characters.")
    if folded(cleaned) == OPERATOR.name:
        raise InvalidArgument(
            f"{OPERATOR.name!r} is whoever has the server's COUNSEL_TOKEN.", hint="Choose another name."
        )
    return cleaned


# control, format (such as a reversed direction), surrogate, private use, unassigned, line and paragraph separators
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def folded(name: str) -> str:
    """Equal for names that differ by case, or by letters that look the same (NFKC)."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def group(name: str) -> str:
    lowered = name.strip().lower()
    if not _GROUP(lowered):
        raise InvalidArgument(
            f"{name[:80]!r} is not a group name.",
            hint="1 to 64 letters a to z, digits, dots, hyphens or underscores.",
        )
    return lowered


def groups(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    checked = tuple(sorted({group(name) for name in names}))
    if len(checked) > MOST_GROUPS:
        raise InvalidArgument(f"A person is in at most {MOST_GROUPS} groups.")
    return checked


def role(name: str) -> Role:
    for known in ROLES:
        if name == known:
            return known
    raise InvalidArgument(f"There is no role {name[:80]!r}.", hint=f"Roles: {', '.join(ROLES)}.")


def label(text: str) -> str:
    if len(text) > LONGEST or any(unicodedata.category(letter) in _UNPRINTABLE for letter in text):
        raise InvalidArgument(f"A token's label has at most {LONGEST} printable characters.")
    return text.strip()


def is_id(text: str) -> bool:
    """An id that this program has made: it can be part of a statement."""
    return _ID(text) is not None


def new_id(kind: str) -> str:
    """`p_…` of a person, `t_…` of a token."""
    return f"{kind}_{secrets.token_hex(8)}"


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """Of 256 random bits, so a slow hash would protect nothing more."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
