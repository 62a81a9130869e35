"""A file that is unchanged since an earlier turn of its conversation is not sent again: a note names that turn.

Every model gets the whole conversation, even one that `auto` switches to, so it always sees what earlier turns sent.
Agents read files themselves and get the paths each time. Content is compared by hash with the newest version that was
sent, so a file that was changed and changed back is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counsel.engine.context import files
from counsel.engine.store.model import Part, Task
from counsel.engine.store.records import Message
from counsel.lazy_dataclass import replace
from counsel.results import QuestionDetails


def without_unchanged(task: Task, messages: Sequence[Message]) -> Task:
    """The task with a note in place of each file that `messages` already contain unchanged."""
    if not task.parts or not messages:
        return task
    earlier = _newest(messages)
    text, parts, sources, end = "", [], list(task.sources), 0
    for number, (key, sha, start, stop) in enumerate(task.parts):
        turn = earlier[key][1] if key in earlier and earlier[key][0] == sha else 0
        text += task.text[end:start]
        if turn:
            text += _note(sources[number].name, turn)
            sources[number] = replace(sources[number], unchanged_since_turn=turn)
        else:
            parts.append(Part(key, sha, len(text), len(text) + stop - start))
            text += task.text[start:stop]
        end = stop
    return replace(task, text=text + task.text[end:], parts=tuple(parts), sources=tuple(sources))


def _newest(messages: Sequence[Message]) -> Mapping[str, tuple[str, int]]:
    """For each file and range: the hash of what was sent last, and its turn."""
    newest: dict[str, tuple[str, int]] = {}
    turn = 0
    for message in messages:
        if message.role == "user":
            turn += 1
        if isinstance(message.details, QuestionDetails):
            newest |= {key: (sha, turn) for key, sha in message.details.files_sent.items()}
    return newest


def _note(name: str, turn: int) -> str:
    path = files.attribute(name)
    return f'<file path="{path}">\n{path} is unchanged since turn {turn} of this conversation: read it there.\n</file>'
