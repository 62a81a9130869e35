"""Files of questions with known answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counsel.errors import CounselError
from counsel.evaluation import questions
from counsel.evaluation.questions import Question


def write_file(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8"
    )
    return path


def valid_question(**fields: object) -> dict[str, object]:
    return {"question": "2 + 2?", "choices": ["3", "4"], "answer": "4", **fields}


def test_answers_are_choices_or_their_letters_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    path = write_file(
        tmp_path,
        valid_question(),
        "",
        valid_question(id="sums", answer="b"),
        valid_question(choices=["b", "a"], answer="a"),
        valid_question(choices=["3", " 4"], answer=" 4 "),
    )
    assert questions.read(path) == [
        Question("1", "2 + 2?", ("3", "4"), "4"),
        Question("sums", "2 + 2?", ("3", "4"), "4"),
        Question("4", "2 + 2?", ("b", "a"), "a"),
        Question("5", "2 + 2?", ("3", "4"), "4"),  # as the models are asked, without blanks around
    ]
    assert [question.id for question in questions.read(path, limit=2)] == ["1", "sums"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        (valid_question(question=" "), '"question" is missing'),
        (valid_question(choices="ab"), '"choices" is not a list'),
        (valid_question(choices=["4", ""]), '"choices" is not a list'),
        (valid_question(choices=["4"]), "needs 2 to 20 strings"),
        (valid_question(choices=["4", "4"]), "'4' appears twice"),
        (valid_question(choices=["a", "A"], answer="a"), "'a' appears twice"),
        (valid_question(choices=["a", "a "], answer="a"), "'a' appears twice"),
        (valid_question(answer="5"), "not one of the choices: '5'"),
        (valid_question(answer="c"), "not one of the choices"),
        (valid_question(answer="3 or 4"), "not one of the choices: '3 or 4'"),
        (valid_question(answer=4), "not one of the choices"),
        (valid_question(id="1"), "the id '1' is used twice"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: object, problem: str) -> None:
    with pytest.raises(CounselError, match=r"questions\.jsonl, line 2") as failure:
        questions.read(write_file(tmp_path, valid_question(), line))
    assert problem in failure.value.message
    assert '"question"' in (failure.value.hint or "")


def test_a_file_that_is_missing_empty_or_binary_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, problem in (
        (tmp_path / "none", "There is no file"),
        (tmp_path, "cannot be read"),
        (tmp_path / "binary", "is not UTF-8"),
        (write_file(tmp_path), "has no questions"),
    ):
        with pytest.raises(CounselError, match=problem):
            questions.read(path)


def test_a_file_may_have_as_many_bytes_as_the_limit_and_none_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path, valid_question())
    size = path.stat().st_size
    monkeypatch.setattr(questions, "MAX_BYTES", size)
    assert len(questions.read(path)) == 1
    monkeypatch.setattr(questions, "MAX_BYTES", size - 1)
    with pytest.raises(CounselError, match=f"is larger than {size - 1:,} bytes"):
        questions.read(path)
