"""Finished questions in a file, so that a stopped evaluation continues where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypedDict

from counsel.errors import ConfigInvalid, Conflict, FileNotAllowed
from counsel.evaluation.questions import Question
from counsel.evaluation.scoring import Ballot, Choice, Trial


class Records:
    """A file with a line for the panel, then one for each finished question."""

    def __init__(self, path: Path, panel: Mapping[str, object]) -> None:
        self._path, self._panel = path, panel
        self._file: TextIO | None = None

    def read(self, questions: Sequence[Question]) -> list[Trial]:
        """The trials of the questions that are finished. Raises if the file belongs to another panel."""
        try:
            lines = self._path.read_text("utf-8").split("\n")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError:
            raise ConfigInvalid(f"{self._path} is not UTF-8.", hint="Name another file.") from None
        except OSError as error:
            raise FileNotAllowed(f"{self._path} cannot be read: {error.strerror}.") from None
        by_id = {question.id: question for question in questions}
        trials: dict[str, Trial] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or (number == len(lines) and not line.endswith("}")):
                continue  # the last line may be incomplete: the command was killed while it wrote
            try:
                record = json.loads(line)
                if "panel" in record:
                    self._check(record["panel"])
                elif (question := by_id.get(record["id"])) and record["question"] == question.text:
                    trials[question.id] = _trial(question, record)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigInvalid(
                    f"{self._path}, line {number}, is not a finished question: {error}.",
                    hint="Name another file.",
                ) from None
        return list(trials.values())

    def _check(self, panel: Mapping[str, object]) -> None:
        if panel != self._panel:
            raise Conflict(
                f"{self._path} contains the answers of another panel: {json.dumps(panel, ensure_ascii=False)}.",
                hint="Name another file, or ask the same models.",
            )

    def open(self) -> None:
        """Open the file before anything is asked: an answer that cannot be stored would be paid for twice."""
        try:
            is_new = not self._path.exists() or not self._path.stat().st_size
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None
        # An empty line ends an incomplete one.
        self._write(json.dumps({"panel": self._panel}, ensure_ascii=False) if is_new else "")

    def add(self, trial: Trial) -> None:
        if self._file is None:
            self.open()
        self._write(json.dumps(_record(trial), ensure_ascii=False))

    def _write(self, line: str) -> None:
        assert self._file is not None
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            self.close()
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> FileNotAllowed:
        return FileNotAllowed(f"{self._path} cannot be written: {error.strerror}.", hint="Name another file.")

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # writing the line has reported the failure
                self._file.close()
            self._file = None


class ChoiceRecord(TypedDict):
    choice: str | None
    cost_usd: float | None
    seconds: float


class MemberRecord(TypedDict):
    model: str
    first: ChoiceRecord | None
    refined: ChoiceRecord | None


class TrialRecord(TypedDict):
    id: str
    question: str
    members: list[MemberRecord]
    judge: ChoiceRecord | None


def _record(trial: Trial) -> TrialRecord:
    return {
        "id": trial.question.id,
        "question": trial.question.text,
        "members": [
            {
                "model": ballot.model,
                "first": _choice_record(ballot.first),
                "refined": _choice_record(ballot.refined),
            }
            for ballot in trial.ballots
        ],
        "judge": _choice_record(trial.judge),
    }


def _choice_record(choice: Choice | None) -> ChoiceRecord | None:
    if choice is None:
        return None
    return {"choice": choice.choice, "cost_usd": choice.cost_usd, "seconds": choice.seconds}


def _trial(question: Question, record: TrialRecord) -> Trial:
    ballots = tuple(
        Ballot(member["model"], _choice(member["first"]) or Choice(None), _choice(member["refined"]))
        for member in record["members"]
    )
    return Trial(question, ballots, _choice(record["judge"]))


def _choice(record: ChoiceRecord | None) -> Choice | None:
    return None if record is None else Choice(record["choice"], record["cost_usd"], float(record["seconds"]))
