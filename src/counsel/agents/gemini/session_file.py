"""What Gemini CLI itself takes for its answer: its record of a session.

Measured with 0.61.0: when a model's stream breaks it asks again, up to four times, and prints what comes after what
had come, with no sign of it on stdout or stderr. Its record of the session has the answer alone. The record is not
documented: where it is not as expected, nothing is concluded from it.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path

from counsel.types import Json

_MOST = 4 << 20  # bytes at a record's end


def messages(home: Path, session: str, since: str) -> list[str]:
    """What the model said in this session since then, a text per message; those without words are left out."""
    for path in home.glob(f"tmp/*/chats/session-*-{glob.escape(session[:8])}.jsonl"):
        if found := _said(path, since):
            return found
    return []


def _said(path: Path, since: str) -> list[str]:
    said: dict[str, str] = {}
    for entry in _entries(path):
        if entry.get("type") == "gemini" and str(entry.get("timestamp")) >= since:
            said[str(entry.get("id"))] = str(entry.get("content") or "").strip()
    return [text for text in said.values() if text]


def _entries(path: Path) -> Iterator[Json]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):  # the first may be half of one
            continue
        if isinstance(entry, dict):
            yield entry


def voids(said: list[str], recorded: list[str]) -> list[int] | None:
    """How much of the beginning of each text is void. None: the record tells another story, or the same."""
    if len(said) != len(recorded):
        return None
    lengths = []
    for text, kept in zip(said, recorded, strict=True):
        bare = text.rstrip()
        if not bare.endswith(kept):
            return None
        begins = len(bare) - len(kept)
        lengths.append(begins if text[:begins].strip() else 0)
    return lengths if any(lengths) else None
