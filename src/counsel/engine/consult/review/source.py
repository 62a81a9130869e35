"""Gets a change from git or from a diff. Used by the command line and the Python API, before the request.

Secrets are searched for in whole files here, since the few lines around a change can lack what gives a secret away. The
engine searches the diff again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from counsel import size_limits
from counsel.caller import Caller
from counsel.engine.consult.review import diff, selection
from counsel.engine.consult.review.selection import CONTEXT, LeftOut
from counsel.engine.context import git_change
from counsel.lazy_dataclass import dataclass
from counsel.requests import Member, ReviewRequest
from counsel.results import LeftOutFile
from counsel.text import counted


@dataclass(frozen=True, slots=True)
class Change:
    about: str  # what was compared
    diff: str  # empty: there is nothing to review
    root: Path | None
    files: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()  # for people: untracked files, uncommitted changes

    @property
    def counts(self) -> str:
        return counted(len(self.files), "file")


def from_git(
    caller: Caller, *, base: str | None = None, staged: bool = False, context: int = CONTEXT
) -> Change:
    change = git_change.collect(caller.cwd, caller.env, base=base, staged=staged)
    notes = [change.note] if change.note else []
    if change.untracked:
        names = ", ".join(change.untracked[:3]) + (", …" if len(change.untracked) > 3 else "")
        count = counted(len(change.untracked), "untracked file")
        notes.append(f"Not included: {count} ({names}). `git add -N FILE` includes one.")
    result = _change(change.diff, change.about, caller, change.root, context)
    return replace(result, notes=tuple(notes))


def from_text(text: str, about: str, caller: Caller, *, context: int = CONTEXT) -> Change:
    return _change(text, about, caller, None, context)


def is_diff(text: str) -> bool:
    return bool(diff.parse(text))


def _change(text: str, about: str, caller: Caller, root: Path | None, context: int) -> Change:
    selected, excluded = selection.split(diff.parse(text), caller, root)
    candidates = [file.narrowed(context, whole_functions=context > 0) for file in selected]
    # The rest of the question and line numbers need room, too.
    excerpt = selection.fit(candidates, caller.settings.max_prompt_bytes * 3 // 4, size_limits.count)
    excluded += [LeftOut(name, "the change is too large") for name in excerpt.left_out]
    files = tuple(file.path for file in excerpt.files)
    return Change(about, diff.write(excerpt.files), root, files, tuple(excluded))


def question(about: str, focus: str | None = None) -> str:
    emphasis = f" Look especially at: {focus.strip()}" if focus and focus.strip() else ""
    return f"Review this change{f': {about}' if about else ''}.{emphasis}"


def request(
    change: Change, models: Sequence[str | Member], focus: str | None = None, **fields: object
) -> ReviewRequest:
    left_out = tuple(LeftOutFile(file=entry.file, reason=entry.reason) for entry in change.left_out)
    return ReviewRequest(
        prompt=question(change.about, focus),
        diff=change.diff,
        models=tuple(models),
        about=change.about,
        root=str(change.root) if change.root else None,
        left_out=left_out,
        **fields,  # type: ignore[arg-type]
    )
