"""A review's question before it is stored: secrets and files that nobody reviews are taken out of the diff."""

from __future__ import annotations

from pathlib import Path

from counsel.caller import Caller
from counsel.engine.consult.review import diff, selection
from counsel.engine.store.model import ReviewSubject
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.requests import ReviewRequest
from counsel.results import LeftOutFile
from counsel.text import counted, sound


@dataclass(frozen=True, slots=True)
class Prepared:
    text: str  # the question, with the diff at its end
    about: ReviewSubject


def prepared(request: ReviewRequest, caller: Caller) -> Prepared:
    """Raises `InvalidArgument` if there is nothing to review."""
    root = Path(request.root) if request.root else None
    files = diff.parse(sound(request.diff))
    if not files:
        raise InvalidArgument(
            "The diff contains no files.",
            hint="Nothing was sent. A unified diff is needed, as `git diff` writes it.",
        )
    kept, left = selection.split(files, caller, root)
    left_out: list[LeftOutFile] = [*request.left_out, *(entry.to_json() for entry in left)]
    if not kept:
        raise InvalidArgument(
            f"There is nothing to review: all {counted(len(left_out), 'file')} were left out ({_reasons(left_out)}).",
            hint="Nothing was sent.",
            left_out=left_out,
        )
    head = f"{request.prompt}\n\n"
    about: ReviewSubject = {
        "offset": len(head),
        "about": request.about or request.prompt,
        "left_out": left_out,
    }
    if root:
        about["root"] = str(root)
    return Prepared(head + diff.write(kept), about)


def _reasons(left_out: list[LeftOutFile]) -> str:
    shown = [f"{entry['file']}: {entry['reason']}" for entry in left_out[:5]]
    return "; ".join([*shown, "…"] if len(left_out) > 5 else shown)
