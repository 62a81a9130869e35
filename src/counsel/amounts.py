"""Tokens, dollars and models as text for people, the same in answers, jobs, `usage` and MCP results.

`?` stands for a value that was not reported. A call always has input, so a usage without tokens is unknown, not free.
"""

from __future__ import annotations

from counsel.types import Usage

UNKNOWN = "?"
_SMALLEST = 0.0001  # dollars that four digits can show


def dollars(usd: float | None, *, complete: bool = True) -> str:
    """`$0.0042`, `$12.30`, `<$0.0001`; `$0`: free; `$0.01+`: at least, because some prices are unknown."""
    if usd is None or (not usd and not complete):
        return UNKNOWN
    more = "" if complete else "+"
    if not usd:
        return "$0"
    if usd < _SMALLEST:
        return f"<${_SMALLEST}{more}"
    return f"${usd:.4f}{more}" if usd < 1 else f"${usd:,.2f}{more}"


def cost(usage: Usage, usd: float | None, *, complete: bool = True) -> str:
    """The price of one or several calls; unknown if their usage is."""
    return dollars(usd if usage.total or usd else None, complete=complete)


def tokens(usage: Usage) -> str:
    """`1,200 → 340 tokens`; `~` marks an estimate."""
    if not usage.total:
        return f"{UNKNOWN} tokens"
    about = "~" if usage.estimated else ""
    return f"{about}{usage.input:,} → {about}{usage.output:,} tokens"


def count(number: int, *, reports: int, calls: int, brief: bool = False) -> str:
    """The sum of tokens of several calls: `?` if none of them reported its usage, `1,200+` if only some did."""
    if not reports:
        return UNKNOWN if calls else "0"
    return f"{_brief(number) if brief else f'{number:,}'}{'+' if reports < calls else ''}"


def _brief(number: int) -> str:
    """`1.23M`, `45.6K`, `789`."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return str(number)


def model(provider: str, name: str) -> str:
    """`openai/gpt-5`; a name that has its provider already stays as it is, and an agent is its own provider."""
    own = not provider or name == provider or name.startswith((f"{provider}/", f"{provider}:"))
    return name if own else f"{provider}/{name}"
