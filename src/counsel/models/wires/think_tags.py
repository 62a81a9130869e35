"""`<think>…</think>` at the beginning of an answer is thinking: R1 and Qwen3 behind Groq, Hugging Face, Ollama, vLLM.

Only there: a model that writes about the tag further down is quoted as it is. Tags may be cut anywhere.
"""

from __future__ import annotations

from typing import Literal

from counsel.types import Event, Text, Thinking

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """`feed` the answer's text as it comes; `end` gives what was held back."""

    __slots__ = ("_held", "_state")

    def __init__(self) -> None:
        self._held = ""
        self._state: Literal["start", "thinking", "gap", "answer"] = "start"

    def feed(self, piece: str) -> list[Event]:
        if self._state == "answer":
            return [Text(piece)]
        self._held += piece
        events: list[Event] = []
        if self._state == "start":
            events += self._start()
        if self._state == "thinking":
            events += self._thinking()
        if self._state == "gap":
            events += self._gap()
        return events

    def end(self) -> list[Event]:
        """A tag that was never closed: all of it was thinking."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [Thinking(held)] if self._state == "thinking" else [Text(held)]

    def _start(self) -> list[Event]:
        begun = self._held.lstrip()
        if begun.startswith(_OPEN):
            self._state, self._held = "thinking", begun[len(_OPEN) :]
        elif not _OPEN.startswith(begun):
            return self._answer(self._held)
        return []

    def _thinking(self) -> list[Event]:
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state = "gap"
        else:
            kept = next((n for n in range(len(_CLOSE) - 1, 0, -1) if thought.endswith(_CLOSE[:n])), 0)
            thought, rest = thought[: len(thought) - kept], thought[len(thought) - kept :]
        self._held = rest
        return [Thinking(thought)] if thought else []

    def _gap(self) -> list[Event]:
        """White space between the tag and the answer belongs to neither."""
        self._held = self._held.lstrip()
        return self._answer(self._held) if self._held else []

    def _answer(self, text: str) -> list[Event]:
        self._state, self._held = "answer", ""
        return [Text(text)]
