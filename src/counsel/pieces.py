"""Text that comes in pieces, whole, or both."""

from __future__ import annotations


def missing(said: str, whole: str) -> str:
    """What a whole text adds to the pieces of it that came before it; nothing where they are not its beginning."""
    return whole[len(said) :] if whole.startswith(said) else ""
