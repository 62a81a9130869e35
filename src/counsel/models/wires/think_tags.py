"""`<think>…</think>` at the beginning of an answer is thinking: R1 and Qwen3 behind Groq, Hugging Face, Ollama, vLLM.

Later tags are text. A tag may be split between any two pieces. Some servers write `<think>` into the prompt, so that
only `</think>` arrives, on a line of its own (deepseek-ai/DeepSeek-R1 issue 506, vllm issue 13125): see `lone_end`.
"""

from __future__ import annotations

import re
from typing import Literal

from counsel.types import Event, Text, Thinking

_OPEN, _CLOSE = "<think>", "</think>"


_LONE_CLOSE = re.compile(r"^[ \t]*</think>[ \t\r]*$", re.MULTILINE)


def lone_end(text: str) -> tuple[str, str] | None:
    """The thinking and the answer, if the thinking has no beginning. None if the text has no such tag, or quotes it."""
    match = _LONE_CLOSE.search(text) if _CLOSE in text else None
    if match is None:
        return None
    thinking = text[: match.start()]
    if _OPEN in thinking or thinking.count("```") % 2:
        return None
    return thinking, text[match.end() :].lstrip()


class ThinkTags:
    """`feed` the answer's text as it arrives; `end` returns the buffered rest."""

    __slots__ = ("_buffer", "_state")

    def __init__(self) -> None:
        self._buffer = ""
        self._state: Literal["start", "thinking", "gap", "answer"] = "start"

    def feed(self, piece: str) -> list[Event]:
        if self._state == "answer":
            return [Text(piece)]
        self._buffer += piece
        events: list[Event] = []
        if self._state == "start":
            events += self._start()
        if self._state == "thinking":
            events += self._thinking()
        if self._state == "gap":
            events += self._gap()
        return events

    def end(self) -> list[Event]:
        """If the tag was never closed, all of it was thinking."""
        rest, self._buffer = self._buffer, ""
        if not rest:
            return []
        return [Thinking(rest)] if self._state == "thinking" else [Text(rest)]

    def _start(self) -> list[Event]:
        start = self._buffer.lstrip()
        if start.startswith(_OPEN):
            self._state, self._buffer = "thinking", start[len(_OPEN) :]
        elif not _OPEN.startswith(start):
            return self._answer(self._buffer)
        return []

    def _thinking(self) -> list[Event]:
        text, tag, rest = self._buffer.partition(_CLOSE)
        if tag:
            self._state = "gap"
        else:
            overlap = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
            text, rest = text[: len(text) - overlap], text[len(text) - overlap :]
        self._buffer = rest
        return [Thinking(text)] if text else []

    def _gap(self) -> list[Event]:
        """White space between the tag and the answer belongs to neither."""
        self._buffer = self._buffer.lstrip()
        return self._answer(self._buffer) if self._buffer else []

    def _answer(self, text: str) -> list[Event]:
        self._state, self._buffer = "answer", ""
        return [Text(text)]
