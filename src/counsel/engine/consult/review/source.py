"""Where a change comes from: git, or a diff that the caller has. Used by the command line and Python, before the request.

Secrets are looked for in whole files here, since the few lines around a change can lack what gives a secret away; the engine
looks at the diff again.
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
    notes: tuple[str, ...] = ()  # what a person should know: untracked files, uncommitted changes

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
        notes.append(f"Not part of it: {count} ({names}); `git add -N FILE` includes one.")
    made = _made(change.diff, change.about, caller, change.root, context)
    return replace(made, notes=tuple(notes))


def from_text(text: str, about: str, caller: Caller, *, context: int = CONTEXT) -> Change:
    return _made(text, about, caller, None, context)


def is_diff(text: str) -> bool:
    return bool(diff.parse(text))


def _made(text: str, about: str, caller: Caller, root: Path | None, context: int) -> Change:
    kept, left = selection.split(diff.parse(text), caller, root)
    narrowed = [file.narrowed(context, whole_functions=context > 0) for file in kept]
    # the rest of the question and line numbers need room, too
    fitted = selection.fit(narrowed, caller.settings.max_prompt_bytes * 3 // 4, size_limits.count)
    left += [LeftOut(name, "the change is too large") for name in fitted.left_out]
    files = tuple(file.path for file in fitted.files)
    return Change(about, diff.write(fitted.files), root, files, tuple(left))


def question(about: str, focus: str | None = None) -> str:
    look = f" Look especially at: {focus.strip()}" if focus and focus.strip() else ""
    return f"Review this change{f': {about}' if about else ''}.{look}"


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
