"""Unguessable ids for jobs and conversations."""

from __future__ import annotations

import re

from counsel import pending_calls, random_ids

_OWN_KIND = re.compile(r"(?:conv|consensus|ask|review|job)_([0-9A-Za-z-]+)")
_HEX = re.compile(r"[0-9a-fA-F-]")
_UUID_START = re.compile(r"[^-]{8}(?:-[^-]{0,4}){0,3}(?:-[^-]{0,12})?")


def new(kind: str) -> str:
    """`conv_…`, `consensus_…`, `ask_…`, `review_…` or `job_…` with 106 random bits."""
    return f"{kind}_{random_ids.uuid8()}"


def of_call(key: str | None) -> str:
    """A job's id. The same call has the same id, even if a crash came before the job was on disk."""
    return pending_calls.job_id(key) if key else new("job")


def is_ours(name: str) -> bool:
    """True for names that only we give out, even mistyped or cut ones: they never start a new conversation.

    Other servers' names are not ours: `conv_` and 10 letters (converse), `consensus_1703123456789_xyz789`.
    """
    match = _OWN_KIND.fullmatch(name)
    return match is not None and _is_uuid(match[1])


def _is_uuid(text: str) -> bool:
    """A UUID, the start of one, or one with a few wrong letters; not a word, a date, a phrase or a shorter id."""
    digits = len(_HEX.findall(text))
    if digits < len(text):
        return len(text) >= 24 and digits >= len(text) * 0.8
    plain = text.replace("-", "")
    if not _UUID_START.fullmatch(text):
        return len(plain) >= 20
    return len(plain) >= (20 if plain.isdigit() else 12 if plain.isalpha() else 8)
