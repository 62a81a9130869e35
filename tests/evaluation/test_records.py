"""Finished questions in a file: what a second run does not ask again, and what an evaluation will cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.errors import ConfigInvalid, Conflict, CounselError, FileNotAllowed
from counsel.evaluation import estimate as estimates
from counsel.evaluation.questions import Question
from counsel.evaluation.records import Records
from counsel.evaluation.run import Panel
from counsel.evaluation.scoring import Ballot, Choice, Score, Trial
from counsel.models.catalog import Catalog

ONE = Question("1", "Capital of Côte d'Ivoire?", ("Yamoussoukro", "Abidjan"), "Yamoussoukro")
TWO = Question("2", "2 + 2?", ("4", "5"), "4")
PANEL = {"models": ["gpt-5", "sonnet"]}
WHOLE = Trial(
    ONE,
    (
        Ballot("gpt-5", Choice("Abidjan", 0.5, 1.5), Choice("Yamoussoukro", None, 2.0)),
        Ballot("sonnet", Choice(None, 0.25, 0.0), None),
    ),
    Choice("Yamoussoukro", 0.125, 3.0),
)
PLAIN = Trial(TWO, (Ballot("gpt-5", Choice("4")),))


def write_records(path: Path, *trials: Trial, panel: dict[str, Any] = PANEL) -> list[Any]:
    records = Records(path, panel)
    for trial in trials:
        records.add(trial)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]  # before it is closed
    records.close()
    return lines


def test_what_is_finished_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    assert Records(path, PANEL).read([ONE, TWO]) == []
    head, first, second = write_records(path, WHOLE, PLAIN)
    assert head == {"panel": PANEL}
    assert (first["id"], first["question"]) == ("1", ONE.text)
    assert first["members"][0] == {
        "model": "gpt-5",
        "first": {"choice": "Abidjan", "cost_usd": 0.5, "seconds": 1.5},
        "refined": {"choice": "Yamoussoukro", "cost_usd": None, "seconds": 2.0},
    }
    assert second["judge"] is None
    assert Records(path, PANEL).read([ONE, TWO]) == [WHOLE, PLAIN]
    assert "Côte" in path.read_text("utf-8")


def test_a_file_that_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, problem in ((tmp_path / "binary", "is not UTF-8"), (tmp_path, "cannot be read")):
        with pytest.raises(CounselError, match=problem):
            Records(path, PANEL).read([ONE])
    for path in (tmp_path, tmp_path / "none" / "answers.jsonl"):
        with pytest.raises(FileNotAllowed, match="cannot be written"):
            Records(path, PANEL).open()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_an_error() -> None:
    with pytest.raises(FileNotAllowed, match="cannot be written: No space left"):
        Records(Path("/dev/full"), PANEL).open()


def test_a_run_without_a_finished_question_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    records = Records(path, PANEL)
    records.open()
    records.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"panel": PANEL}]
    write_records(path, WHOLE)
    assert Records(path, PANEL).read([ONE, TWO]) == [WHOLE]


def test_questions_that_have_changed_or_gone_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    write_records(path, WHOLE, PLAIN)
    new_question = Question("1", "Another?", ONE.choices, ONE.answer)
    assert Records(path, PANEL).read([new_question, TWO]) == [PLAIN]
    assert Records(path, PANEL).read([ONE]) == [WHOLE]


def test_a_line_that_was_cut_is_passed_over_and_written_behind(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    write_records(path, WHOLE)
    path.write_text(path.read_text("utf-8") + '{"id": "2", "ques', "utf-8")
    assert Records(path, PANEL).read([ONE, TWO]) == [WHOLE]
    records = Records(path, PANEL)
    records.add(PLAIN)
    records.close()
    with pytest.raises(ConfigInvalid, match=r"line 3, is not a finished question"):
        Records(path, PANEL).read([ONE, TWO])


def test_a_whole_last_line_counts_without_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    write_records(path, WHOLE)
    path.write_text(path.read_text("utf-8").rstrip("\n"), "utf-8")
    assert Records(path, PANEL).read([ONE]) == [WHOLE]


def test_a_file_of_another_panel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    write_records(path, WHOLE, panel={"models": ["gpt-5"]})
    with pytest.raises(Conflict, match=r'another panel: \{"models": \["gpt-5"\]\}'):
        Records(path, PANEL).read([ONE])


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.touch()
    assert write_records(path, PLAIN)[0] == {"panel": PANEL}


@pytest.mark.parametrize(("right", "total", "accuracy"), [(3, 4, 0.75), (0, 4, 0.0), (0, 0, 0.0)])
def test_accuracy_is_the_share_of_right_answers(right: int, total: int, accuracy: float) -> None:
    score = Score("vote", right, total, 0, 0.0, 1.0, 0.0, cost_complete=True, seconds=0.0)
    assert score.accuracy == accuracy


# ── the estimate ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("panel", "calls", "cost"),
    [
        # 25 tokens of two questions, 600 of our own prompts, 1,200 of answers a member; a reader reads all answers
        (Panel(("a", "b"), None, refine=False), 4, (2 * 625 * 1 + 2 * 1200 * 2) / 1e6),
        (Panel(("a", "b"), None), 8, (2 * (2 * 625 + 2400) * 1 + 2 * 2400 * 2) / 1e6),
        (
            Panel(("a", "b"), "j"),
            10,
            (2 * (2 * 625 + 2400) + 2 * 2400 * 2 + (625 + 2400) * 1 + 1200 * 2) / 1e6,
        ),
    ],
)
def test_an_estimate_counts_what_each_reads_and_writes(
    panel: Panel, calls: int, cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "_price", lambda name, catalog: (1.0, 2.0))
    questions = [
        Question("1", "x" * 40, ("a" * 5, "b" * 5), "a"),
        Question("2", "x" * 40, ("a" * 5, "b" * 5), "a"),
    ]
    catalog: Any = None
    estimate = estimates.estimate(questions, panel, ["a", "b"], catalog)
    assert (estimate.calls, estimate.unpriced) == (calls, ())
    assert estimate.cost_usd == pytest.approx(cost)


def test_models_without_a_price_are_named_once_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "_price", lambda name, catalog: (1.0, 2.0) if name == "a" else None)
    catalog: Any = None
    panel = Panel(("codex", "a", "codex"), "judge")
    estimate = estimates.estimate([TWO], panel, ["codex", "a", "codex"], catalog)
    assert estimate.unpriced == ("codex", "judge")
    assert estimate.calls == 7
    alone = estimates.estimate([TWO], Panel(("a",), None, refine=False), ["a"], catalog)
    assert alone.cost_usd == pytest.approx(((len("2 + 2?45") / 4 + 300) * 1.0 + 600 * 2.0) / 1e6)


def test_an_estimate_has_the_prices_of_the_catalog_and_none_for_agents() -> None:
    catalog = Catalog.load(settings.load({"OPENAI_API_KEY": "sk-test-000000000000000000000000"}))
    priced = estimates.estimate(
        [TWO], Panel(("gpt-5", "codex"), None, refine=False), ["gpt-5", "codex"], catalog
    )
    assert priced.cost_usd > 0
    assert priced.unpriced == ("codex",)
