"""Questions with known answers, one JSON object per line."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from pathlib import Path

from counsel.engine.consult.consensus import vote
from counsel.errors import ConfigInvalid, InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass

MOST_CHOICES = 20
MAX_BYTES = 50_000_000
_HINT = 'A line is {"question": "…", "choices": ["…", "…"], "answer": "…"}; "id" is optional.'


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    choices: tuple[str, ...]
    answer: str  # one of the choices


def read(path: Path, limit: int | None = None) -> list[Question]:
    """Read the first `limit` questions, or all. Errors name the line."""
    questions: list[Question] = []
    ids: set[str] = set()
    for number, line in _lines(path):
        question = _question(_object(line, path, number), path, number)
        if question.id in ids:
            raise _invalid(path, number, f"the id {question.id!r} is used twice")
        ids.add(question.id)
        questions.append(question)
        if len(questions) == limit:
            break
    if not questions:
        raise InvalidArgument(f"{path} has no questions.", hint=_HINT)
    return questions


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidArgument(f"{path} is larger than {MAX_BYTES:,} bytes.", hint="Use a smaller sample.")
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", hint=_HINT) from None
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}.") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def _object(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid(path, number, f"not JSON ({error})") from None
    if not isinstance(value, dict):
        raise _invalid(path, number, "not a JSON object")
    return value


def _question(fields: dict[str, object], path: Path, number: int) -> Question:
    text, choices, answer = (fields.get(name) for name in ("question", "choices", "answer"))
    if not isinstance(text, str) or not text.strip():
        raise _invalid(path, number, '"question" is missing or empty')
    if not isinstance(choices, list) or not all(
        isinstance(choice, str) and choice.strip() for choice in choices
    ):
        raise _invalid(
            path,
            number,
            '"choices" is not a list of strings: votes need choices to count',
        )
    if not 2 <= len(choices) <= MOST_CHOICES:
        raise _invalid(path, number, f'"choices" needs 2 to {MOST_CHOICES} strings')
    try:
        valid_choices = vote.normalize_choices(tuple(choices))  # as the models see them
    except InvalidArgument as error:
        raise _invalid(path, number, error.message.rstrip(".")) from None
    if (
        not isinstance(answer, str)
        or (correct_choice := _matching_choice(answer.strip(), valid_choices)) is None
    ):
        raise _invalid(path, number, f'"answer" is not one of the choices: {str(answer)[:80]!r}')
    return Question(str(fields.get("id") or number), text, valid_choices, correct_choice)


def _matching_choice(answer: str, choices: tuple[str, ...]) -> str | None:
    """The choice that the answer names: itself, or by its letter, as in many collections of questions."""
    if answer in choices:
        return answer
    index = string.ascii_uppercase.find(answer.upper()) if len(answer) == 1 else -1
    return choices[index] if 0 <= index < len(choices) else None


def _invalid(path: Path, number: int, problem: str) -> ConfigInvalid:
    return ConfigInvalid(f"{path}, line {number}: {problem}.", hint=_HINT)
