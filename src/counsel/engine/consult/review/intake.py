"""Prepares a review's question before it is stored: leaves secrets and files that nobody reviews out of the diff."""

from __future__ import annotations

from pathlib import Path

from counsel.caller import Caller
from counsel.engine.consult.review import diff, selection
from counsel.engine.store.model import ReviewSubject
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.requests import ReviewRequest
from counsel.results import LeftOutFile
from counsel.text import counted, without_surrogates


@dataclass(frozen=True, slots=True)
class Prepared:
    text: str  # the question, with the diff at its end
    about: ReviewSubject


def prepare(request: ReviewRequest, caller: Caller) -> Prepared:
    """The question of a review. Raises `InvalidArgument` if there is nothing to review."""
    root = Path(request.root) if request.root else None
    files = diff.parse(without_surrogates(request.diff))
    if not files:
        raise InvalidArgument(
            "The diff contains no files.",
            hint="Nothing was sent. Pass a unified diff, as `git diff` writes it.",
        )
    reviewed, excluded = selection.split(files, caller, root)
    left_out: list[LeftOutFile] = [*request.left_out, *(entry.to_json() for entry in excluded)]
    if not reviewed:
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
    return Prepared(head + diff.write(reviewed), about)


def _reasons(left_out: list[LeftOutFile]) -> str:
    examples = [f"{entry['file']}: {entry['reason']}" for entry in left_out[:5]]
    return "; ".join([*examples, "…"] if len(left_out) > 5 else examples)
