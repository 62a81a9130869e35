"""Every recorded stream of an agent, step by step (tests/golden/steps.txt), complete and cut off after each line.

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.reading import request_to
from agents.test_event_readers import STREAMS
from counsel.agents.claude import run as claude
from counsel.agents.codex import exec as codex_exec
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.driver import AgentRequest
from counsel.agents.gemini import run as gemini
from counsel.agents.process import Exit
from counsel.errors import CounselError

GOLDEN = Path(__file__).parent.parent / "golden" / "steps.txt"
READERS: dict[str, tuple[str, Callable[[AgentRequest], Any]]] = {
    "claude": ("claude", claude.Reader),
    "codex_app_server": ("codex", codex.Reader),
    "codex_exec": ("codex", codex_exec.ExecReader),
    "cursor": ("cursor", cursor.Reader),
    "gemini": ("gemini", gemini.Reader),
}


def reader_of(stream: str) -> Any:
    agent, reader = next(READERS[name] for name in READERS if stream.startswith(name))
    return reader(request_to(agent))


def steps(stream: str, lines: list[Any], exit_: Exit) -> list[str]:
    reader, results = reader_of(stream), []
    try:
        for line in lines:
            results += [repr(step) for step in reader.feed(line)]
        results += [repr(step) for step in reader.finish(exit_)]
    except CounselError as error:
        results.append(
            f"{type(error).__name__} {json.dumps({k: v for k, v in error.fields.items() if k != 'hint'}, sort_keys=True, default=str)}"
        )
    return results


def test_every_recorded_stream_gives_these_steps() -> None:
    reports = []
    for path in sorted(STREAMS.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        reports.append(f"# {path.stem}")
        reports += steps(path.stem, lines, Exit(0))
        for count in range(len(lines)):
            reports.append(f"## broken off after {count} lines")
            reports += steps(path.stem, lines[:count], Exit(1, "it broke"))[-3:]
    text = "\n".join(reports) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
