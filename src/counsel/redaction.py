"""Replace keys and tokens by `[hidden]` in everything that is logged or shown.

This module does not import `logging`, because `counsel doctor` and other commands also redact what they print.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache

from counsel.settings import Settings, rows

HIDDEN = "[hidden]"

_SHAPES = r"""
      \b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}                 # OpenAI, Anthropic, OpenRouter, DeepSeek …
    | \bAIza[A-Za-z0-9_-]{30,}                          # Google
    | \bxai-[A-Za-z0-9_-]{16,}
    | \b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bcsl_[A-Za-z0-9_-]{16,}                          # a team's own tokens
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*   # JWT
    | -----BEGIN[ ][A-Z0-9 ]{0,40}PRIVATE[ ]KEY(?s:.*?)(?:-----END[^-]*-----|\Z)
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                   # user:password in an address
    """
_NAMED = r"""(?ix)
    ( (?:authorization | proxy-authorization | (?:x-)?(?:goog-)?api[-_]?key | access[-_]?token | [?&]key | [a-z_]{0,40}_(?:api_key|token|secret) )
      ["']? \s* [:=] \s* ["']? (?: (?:bearer|basic) \s+ )?
    | \b bearer \s+ )
    (?!\[hidden\]) [^\s"'&,;)}\]]{6,}
    """
_SECRET_NAME = re.compile(r"(?:_KEY|_TOKEN|_SECRET|PASSWORD)\Z")
_MAX_SECRETS = 1_000  # of all callers of one daemon; the oldest are forgotten first

_secrets: OrderedDict[str, None] = OrderedDict()
_secret_values_pattern: re.Pattern[str] | None = None


def protect(settings: Settings) -> None:
    """Keep this caller's keys out of the logs, whatever their format."""
    global _secret_values_pattern  # noqa: PLW0603 — one process, one set of secrets
    in_env = (value for name, value in settings.env.items() if _SECRET_NAME.search(name))
    own = (str(getattr(settings, row.name)) for row in rows() if row.metadata["secret"])
    in_tables = _secret_values(settings.tables)
    of_team = (settings.team.token,) if settings.team else ()
    new = {value for value in (*in_env, *own, *in_tables, *of_team) if len(value) >= 8} - _secrets.keys()
    if not new:
        return
    _secrets.update(dict.fromkeys(sorted(new)))
    while len(_secrets) > _MAX_SECRETS:
        _secrets.popitem(last=False)
    _secret_values_pattern = re.compile(
        "|".join(re.escape(value) for value in sorted(_secrets, key=len, reverse=True))
    )


def _secret_values(table: Mapping[str, object]) -> Iterator[str]:
    """Keys and headers in config.toml's tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _secret_values(value)
        elif isinstance(value, str) and re.search(
            r"key\Z|token|secret|password|authorization", name, re.IGNORECASE
        ):
            yield value


# A pattern matches only text that contains one of these; searching for them takes a hundredth of the pattern's time.
_SHAPE_SIGNS = ("k-", "AIza", "xai-", "gh", "github_pat_", "AKIA", "ASIA", "csl_", "eyJ", "-----BEGIN", "://")
_NAME_SIGNS = ("authorization", "key", "access", "_token", "_secret", "bearer")


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled at first use: that takes milliseconds, and few texts need it."""
    return re.compile(pattern, re.VERBOSE)


def redact(text: str) -> str:
    if _secret_values_pattern:
        text = _secret_values_pattern.sub(HIDDEN, text)
    if any(sign in text for sign in _SHAPE_SIGNS):
        text = _pattern(_SHAPES).sub(HIDDEN, text)
    lowercase = text.lower()
    if any(sign in lowercase for sign in _NAME_SIGNS):
        text = _pattern(_NAMED).sub(rf"\1{HIDDEN}", text)
    return text
