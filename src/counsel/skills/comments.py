"""JSON with comments, for reading only."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*[\s\S]*?\*/')


def without_comments(text: str) -> str:
    return _TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
