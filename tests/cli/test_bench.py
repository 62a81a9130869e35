"""`counsel bench council`: ways of asking, compared on questions with known answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel import cli
from fake import FakeProcess
from support.council import picks
from support.user import Output

QUESTIONS = (
    {"id": "capital", "question": "Capital of France?", "choices": ["Paris", "Rome"], "answer": "A"},
    {"id": "sum", "question": "2 + 2?", "choices": ["4", "5"], "answer": "4"},
)
PANEL = ("-m", "gpt-5", "-m", "sonnet")
Run = Callable[..., Output]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(question)}\n" for question in QUESTIONS))
    return path


@pytest.fixture
def run(
    tmp_path: Path,
    fake_process: FakeProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000000000000000000000")
    monkeypatch.setenv("OPENAI_BASE_URL", fake_process.v1)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-000000000000")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake_process.url)
    monkeypatch.chdir(tmp_path)

    def go(*arguments: str) -> Output:
        code = cli.run(["bench", "council", *arguments, "--standalone"])
        streams = capsys.readouterr()
        return Output(code, streams.out, streams.err)

    return go


def answers(fake: FakeProcess) -> None:
    """gpt-5 is right both times; sonnet learns from it once."""
    fake.script(text=picks("Paris", "Learned."), contains="France says so", times=None)
    fake.script(text=picks("Paris", "Known."), contains="Rome is old", times=None)
    fake.script(text=picks("4", "Counted."), contains="Counted", times=None)
    fake.script(text=picks("Paris", "France says so."), contains="France", model="gpt-5", times=None)
    fake.script(text=picks("Rome", "Rome is old."), contains="France", model="claude", times=None)
    fake.script(text=picks("4", "Counted."), contains="2 + 2", times=None)


def test_the_ways_are_compared_and_a_second_run_asks_nothing_again(
    run: Run, file: Path, fake_process: FakeProcess, tmp_path: Path
) -> None:
    answers(fake_process)
    results = tmp_path / "kept.jsonl"
    result = run(str(file), *PANEL, "--max-cost", "5", "--results", str(results), "--json")
    assert result.code == 0, result.err
    assert "2 questions, about 8 calls: about $0." in result.err
    assert "at most $5.00" in result.err
    assert "[2/2]" in result.err
    document = json.loads(result.out)
    ways = {way["name"]: way for way in document["ways"]}
    assert {name: way["right"] for name, way in ways.items()} == {
        "gpt-5": 2,
        "sonnet": 1,
        "vote": 1,
        "refine": 2,
        "refine on disagreement": 2,
    }
    assert ways["vote"]["undecided"] == 1
    assert (
        ways["refine"]["cost_usd"] > ways["refine on disagreement"]["cost_usd"] > ways["vote"]["cost_usd"] > 0
    )
    assert document["refinement"] == {"fixed": 1, "broken": 0, "kept_right": 3, "kept_wrong": 0}
    assert (document["failed"], document["stopped"]) == ([], None)
    calls = len(fake_process.calls)
    with results.open("a") as results_file:
        results_file.write('{"id": "cut')  # killed while writing
    again = run(str(file), *PANEL, "--results", str(results))
    assert (again.code, len(fake_process.calls)) == (0, calls)
    assert "refine on disagreement  2/2" in again.out
    assert "Refinement fixed 1 of the members' answers and broke 0" in again.err
    assert "Where ranges overlap, these questions do not show which way is better." in again.err
    other_panel = run(str(file), "-m", "gpt-5", "-m", "haiku", "--max-cost", "1", "--results", str(results))
    assert (other_panel.code, "another panel" in other_panel.err) == (1, True)
    assert len(fake_process.calls) == calls


def test_nothing_is_sent_before_a_limit_is_agreed_to(run: Run, file: Path, fake_process: FakeProcess) -> None:
    for arguments, problem in (
        ((str(file), *PANEL), "--max-cost"),
        ((str(file), *PANEL, "--max-cost", "0"), "--max-cost"),
        ((str(file), *PANEL, "--limit", "0"), "--limit"),
    ):
        result = run(*arguments)
        assert (result.code, problem in result.err) == (2, True), result.err
    assert not fake_process.calls


def test_a_missing_key_is_named_before_the_price(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    for arguments in (PANEL, ("-m", "sonnet", "-m", "haiku", "--judge", "gpt-5")):
        result = run(str(file), *arguments)
        assert result.code == 1
        assert result.err.startswith("error: OpenAI is not available.")
        assert "OPENAI_API_KEY" in result.err


def test_the_estimate_counts_the_models_behind_panels_and_auto(run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[panels]\npair = ["gpt-5", "sonnet"]\n')
    for models, expected in (
        ("@pair", "about 4 calls: about $0."),
        ("auto", "about 6 calls: about ?. No price"),
    ):
        result = run(str(file), "-m", models, "--no-refine")
        assert (result.code, expected in result.err) == (2, True), result.err
    unknown = run(str(file), "-m", "@nobody")
    assert (unknown.code, "There is no panel @nobody" in unknown.err) == (1, True)


def test_results_that_cannot_be_kept_are_refused_before_anything_is_sent(
    run: Run, file: Path, fake_process: FakeProcess, tmp_path: Path
) -> None:
    result = run(str(file), *PANEL, "--yes", "--results", str(tmp_path / "none" / "results.jsonl"))
    assert (result.code, "results.jsonl cannot be written: No such file or directory" in result.err) == (
        1,
        True,
    )
    assert not fake_process.calls


def test_a_limit_that_is_used_up_stops_it(run: Run, file: Path, fake_process: FakeProcess) -> None:
    result = run(str(file), *PANEL, "--max-cost", "0.000001", "--json")
    assert result.code == 1
    document = json.loads(result.out)
    assert document["stopped"]["code"] == "BUDGET_EXCEEDED"
    assert not fake_process.calls
    errors = run(str(file), *PANEL, "--max-cost", "0.000001").err
    assert "Stopped early: the rest of --max-cost is too little for another question." in errors
    assert "max_cost_usd" not in errors


def test_a_panel_that_cannot_be_asked_is_refused_before_anything_is_sent(
    run: Run, file: Path, fake_process: FakeProcess
) -> None:
    for options, why, failed in (
        (("-m", "gpt-5,no-such-model"), "error: Model not found: 'no-such-model'.", 0),
        (("-m", "gpt-5,sonnet", "--judge", "gpt-5"), "Stopped early: The judge must not be a member", 1),
    ):
        result = run(str(file), *options, "--yes", "--standalone", "--at-once", "1")
        assert (result.code, result.out) == (1, "")
        assert why in result.err
        assert result.err.count("failed: [") == failed
    assert not fake_process.calls


def test_a_key_that_is_refused_stops_it_after_three_questions(
    run: Run, tmp_path: Path, fake_process: FakeProcess
) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(f"{json.dumps(QUESTIONS[1] | {'id': str(number)})}\n" for number in range(20)))
    fake_process.script(status=401, times=None)
    result = run(str(file), *PANEL, "--yes", "--json", "--at-once", "1")
    assert result.code == 1
    document = json.loads(result.out)
    assert len(document["failed"]) == 3
    assert document["ways"] == []
    assert len(fake_process.calls) == 6
