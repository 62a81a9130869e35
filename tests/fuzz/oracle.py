"""Invariants for any input: no internal error, no growth, and other clients are served."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.processes import log_of, resident

GROWTH = 80  # MiB over a whole run
LARGEST_ANSWER = 200_000  # bytes


def check_answer(answer: Any) -> None:
    for message in answer if isinstance(answer, list) else [answer]:
        text = json.dumps(message)
        assert len(text) < LARGEST_ANSWER, text[:500]
        assert "-32603" not in text, text[:500]
        assert '"INTERNAL"' not in text, text[:500]


@contextmanager
def unharmed(home: Path, pid: int, is_alive: Callable[[], bool]) -> Iterator[None]:
    """The process lives, has not grown much, and has logged no traceback."""
    assert is_alive()
    before = resident(pid)
    yield
    assert is_alive()
    assert resident(pid) - before < GROWTH
    log = log_of(home)
    assert "Traceback" not in log, log[-3_000:]
