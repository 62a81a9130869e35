"""Gemini CLI's own record of its answer: its session file.

Measured with 0.61.0: when a model's stream breaks, it asks again, up to four times, and prints the new text after the
old, without any sign on stdout or stderr. Its session file has the final answer only. The file's format is not
documented: if it is not as expected, counsel ignores the file.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path

_TAIL_BYTES = 4 << 20  # bytes at the end of the file


def messages(home: Path, session: str, since: str) -> list[str]:
    """The model's messages in this session since this timestamp, without empty ones."""
    for path in home.glob(f"tmp/*/chats/session-*-{glob.escape(session[:8])}.jsonl"):
        if texts := _model_texts(path, since):
            return texts
    return []


def _model_texts(path: Path, since: str) -> list[str]:
    texts: dict[str, str] = {}
    for entry in _entries(path):
        if entry.get("type") == "gemini" and str(entry.get("timestamp")) >= since:
            texts[str(entry.get("id"))] = str(entry.get("content") or "").strip()
    return [text for text in texts.values() if text]


def _entries(path: Path) -> Iterator[dict[str, object]]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):  # the first line may be cut
            continue
        if isinstance(entry, dict):
            yield entry


def discarded_lengths(printed_texts: list[str], final_texts: list[str]) -> list[int] | None:
    """How many leading characters of each printed text are not final; None if the texts do not match, or if all are."""
    if len(printed_texts) != len(final_texts):
        return None
    lengths = []
    for text, final in zip(printed_texts, final_texts, strict=True):
        stripped = text.rstrip()
        if not stripped.endswith(final):
            return None
        start = len(stripped) - len(final)
        lengths.append(start if text[:start].strip() else 0)
    return lengths if any(lengths) else None
