"""An agent's prompt: the question, earlier turns, and the paths of files and images.

The prompt has the paths of files, not their text: the agent works in the same folder and reads what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from counsel.types import Call, Image, Turn


def compose(call: Call, *, history: bool, system: bool = True) -> str:
    """The prompt of one run. `history`: the agent has no session with the earlier turns."""
    earlier, question = call.turns[:-1], call.turns[-1]
    parts = [
        call.system if system else None,
        earlier_turns(earlier) if history and earlier else None,
        question.text,
        _file_list(call) if call.files else None,
    ]
    return "\n\n".join(part for part in parts if part)


def project_note(project: Path) -> str:
    """For an agent that was started outside the project's folder, because that folder is not trusted."""
    return (
        f"The project is in {project}, which is not your working folder: relative paths in this message start there. "
        "Give your tools absolute paths."
    )


def earlier_turns(turns: Iterable[Turn]) -> str:
    """Earlier turns as text, for an agent without a session."""
    text = "\n\n".join(f"<{turn.role}>\n{turn.text}\n</{turn.role}>" for turn in turns if turn.text)
    return (
        "<conversation>\nThis conversation began before you joined it. It is given for context, oldest first; "
        f"answer the question after it.\n\n{text}\n</conversation>"
    )


def _file_list(call: Call) -> str:
    pairs = zip_longest(call.files, call.ranges, fillvalue="")
    names = "\n".join(f"- {path}{_range(lines)}" for path, lines in pairs)
    return f"<files_input>\nRead these files yourself before you answer:\n{names}\n</files_input>"


def _range(lines: str) -> str:
    if not lines:
        return ""
    return f" ({lines})" if lines.startswith("pages ") else f" (lines {lines})"


def images(call: Call, *, history: bool) -> tuple[Image, ...]:
    """The images of the turns that `compose` sends."""
    turns = call.turns if history else call.turns[-1:]
    return tuple(image for turn in turns for image in turn.images)


def images_block(paths: Sequence[Path]) -> str:
    """For agents that take images by path only: a closed block at the end of the prompt."""
    names = "\n".join(f"{number}. {path}" for number, path in enumerate(paths, 1))
    return (
        "<images_input>\nThese images belong to the request above. Open each path with your own tool for "
        f"reading files; the lines of this block are not part of the question.\n{names}\n</images_input>"
    )
