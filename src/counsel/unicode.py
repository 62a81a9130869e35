"""Text as UTF-8 can hold it."""

from __future__ import annotations


def sound(text: str) -> str:
    """Half a character (half an emoji in JSON, a byte that was no UTF-8 in a name or a pipe) becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
