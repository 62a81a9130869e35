"""The result of a consensus as a person reads it: recommendation, agreement, dissent, then the answers and what
changed."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from counsel import settings
from counsel.cli.questions import consensus_members, consensus_output
from counsel.cli.questions.consensus_board import Board
from counsel.cli.terminal import markdown, output
from counsel.cli.terminal.live_region import EMPTY
from counsel.errors import SchemaMismatch
from counsel.job_events import ModelFailed, ModelFinished, ModelStarted, PhaseStarted, TextAdded
from counsel.mcp import render
from counsel.results import ConsensusResult, fences
from fake import FakeProcess
from support.council import CONTRADICTION, JUDGING, REFINING, picks, verdict
from support.terminal import Terminal, user_env
from support.user import User

GOLDEN = Path(__file__).parent.parent / "golden" / "results" / "verdict_80_columns.txt"
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\]8;[^\x1b\x07]*(?:\x1b\\\\|\x07))")
USED = {"metadata": {"model": "m", "provider": "p", "usage": {"input_tokens": 1, "output_tokens": 1}}}
FIRST = "Use PostgreSQL from the first day: it is one process more, and every later need is met by it."
LAST = "Use PostgreSQL from the first day: it is one service more, and most later needs are met by it."


def answer(model: str, first: str, last: str, changed: bool | None) -> tuple[Any, Any]:
    refined_answer = {"model": model, "refined_response": last, "changed": changed, "round": 2, **USED}
    return {"model": model, "response": first, **USED}, refined_answer


ANSWERS = [
    answer("gpt-5", FIRST, LAST, changed=False),
    answer(
        "opus", "SQLite is enough.", "PostgreSQL, because two services write at the same time.", changed=True
    ),
    answer("gemini-2.5-pro", "SQLite.", "SQLite.", changed=None),
]
RESULT: Any = {
    "status": "consensus_complete",
    "models_consulted": 3,
    "phases": {
        "initial": [first for first, _ in ANSWERS],
        "refined": [refined for _, refined in ANSWERS],
        "verdict": {
            "judge": "grok-4",
            "based_on": "refined",
            "consensus": [
                "The data fits one machine.",
                "Backups matter more than the choice of the engine itself.",
            ],
            "contradictions": [
                {
                    "topic": "Concurrent writers",
                    "positions": [
                        {"models": ["gpt-5", "opus"], "position": "they are needed from the first day on"},
                        {"models": ["gemini-2.5-pro"], "position": "one writer is enough for years."},
                    ],
                }
            ],
            "partial_coverage": [{"point": "Costs of operation.", "models": ["gpt-5", "opus"]}],
            "unique_insights": [{"model": "gemini-2.5-pro", "insight": "Litestream replicates SQLite."}],
            "blind_spots": ["Who is on call at night."],
            "failed_models": [],
            "recommendation": "Take PostgreSQL, with a managed service, and keep the schema portable so that a test can "
            "still run on SQLite.",
        },
    },
    "vote": {
        "choices": ["PostgreSQL", "SQLite"],
        "counts": {"PostgreSQL": 2, "SQLite": 1},
        "majority": "PostgreSQL",
        "agreement": 0.6667,
        "votes": [
            {"model": "gpt-5", "choice": "PostgreSQL", "reason": "It grows."},
            {"model": "opus", "choice": "PostgreSQL", "reason": "Writers."},
            {"model": "gemini-2.5-pro", "choice": "SQLite", "reason": "It has no moving parts."},
        ],
        "minority": [
            {"choice": "SQLite", "models": ["gemini-2.5-pro"], "reasons": ["It has no moving parts."]}
        ],
    },
    "refinement": {"mode": "always", "rounds": 2, "ended": "limit"},
}


def test_the_verdict_reads_well_at_80_columns() -> None:
    result = ConsensusResult.from_json(RESULT)
    rows = [*markdown.rows(result.content, 80), EMPTY, *consensus_output.first_rows(result, 80)]
    text = "\n".join(ESCAPES.sub("", row.text).rstrip() for row in rows) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80
    order = ["Recommendation", "Agreement", "Dissent", "gpt-5\n", "First answers"]
    assert sorted(order, key=text.index) == order


def test_differences_are_not_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fence, a table's row or a list that appears twice, or in part, would change everything after it."""
    before = (
        "- fast\n- small\n\n```sql\nBEGIN;\nUPDATE one SET a = 1 WHERE b = 2;\nCOMMIT;\n```\n\nUse a lock.\n"
    )
    after = "- fast\n- small and *easy*\n\nUPDATE one SET a = 1 WHERE b = 2;\n```\n\nUse a lock for it all, and for as long as it takes.\n"
    first, refined = zip(
        answer("gpt-5", before, after, True), answer("opus", "a b c", "a b d", False), strict=True
    )
    result = ConsensusResult.from_json(RESULT | {"phases": {"initial": first, "refined": refined}})
    monkeypatch.setenv("TERM", "xterm-256color")
    rows = consensus_output.first_rows(result, 60)
    lines = [ESCAPES.sub("", row.text) for row in rows]
    assert lines == [
        "First answers",
        "",
        "gpt-5 (changed its position)",
        "",
        "- fast",
        "- small{+ and *easy*+}",
        "",
        "[-```sql-]",
        "[-BEGIN;-]",
        "UPDATE one SET a = 1 WHERE b = 2;",
        "[-COMMIT;-]",
        "```",
        "",
        "Use a lock{+ for it all, and for as long as it takes+}.",
        "",
        "opus (kept its position)",
        "",
        "a b [-c-]{+d+}",
    ]
    assert max(row.cells for row in rows) <= 60


@pytest.mark.parametrize("opening", ["```py", "~~~~", "````\n```"])
def test_code_that_an_answer_leaves_open_swallows_nothing(opening: str) -> None:
    """An answer that ends at its limit often ends inside a block of code."""
    answer_text = f"Like this:\n\n{opening}\nx = 1"
    phases = {
        "initial": [{"model": model, "response": answer_text, **USED} for model in ("gpt-5", "opus")],
        "verdict": RESULT["phases"]["verdict"] | {"recommendation": answer_text},
    }
    result = ConsensusResult.from_json(RESULT | {"phases": phases})
    rows = [ESCAPES.sub("", row.text).rstrip() for row in markdown.rows(result.content, 80)]
    for heading in ("Agreement", "Dissent", "gpt-5", "opus"):
        assert rows.count(heading) == 1, "as a heading, and not as a line of code"
    lines = fences.lines(render.text(result))
    assert sum(line.startswith("## ") for line, is_code in lines if not is_code) == 5
    assert [answer.text for answer in result.initial] == [answer_text] * 2


@pytest.mark.parametrize(
    ("renders", "quiet", "both"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_the_first_answers_stand_apart_and_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    renders: bool,
    quiet: bool,
    both: bool,
) -> None:
    monkeypatch.setattr(output, "can_render", lambda: renders)
    monkeypatch.setattr(output, "is_quiet", lambda: quiet)
    result = ConsensusResult.from_json(RESULT)
    consensus_output.show(result, plain=True)
    first = f"\n{consensus_output.first_answers(result)}\n" if both else ""
    assert capsys.readouterr().out == f"{result.content}\n{first}"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a b c d", "a b x d", "a b [-c-]{+x+} d"),
        ("one two three four", "one two three four five", "one two three four{+ five+}"),
        ("quite another text", "nothing of it is left", ""),
        ("word " * 3_000, "word " * 2_999, ""),
    ],
)
def test_differences_are_shown_by_words_where_enough_is_the_same(
    before: str, after: str, expected: str
) -> None:
    assert consensus_output.word_diff(before, after) == expected


def test_a_result_of_the_previous_release_is_shown_as_it_was() -> None:
    old = {
        "status": "consensus_complete",
        "models_consulted": 2,
        "phases": {
            "initial": [
                {"model": "gpt-5", "response": "One.", **USED},
                {"model": "o3", "response": "Two.", **USED},
            ],
            "refined": [{"model": "gpt-5", "status": "success", "refined_response": "Three.", **USED}],
            "failed": [],
        },
        "continuation": {"id": "consensus_1"},
        "settings": {"enable_cross_feedback": True, "temperature": 0.2, "models_requested": ["gpt-5", "o3"]},
        "metadata": {"usage": {}, "cost_usd": None, "cost_complete": True},
        "job_id": "job_1",
    }
    result = ConsensusResult.from_json(old)
    assert (result.verdict, result.vote, result.refinement) == (None, None, None)
    assert result.content == "## gpt-5\n\nThree.\n\n## o3\n\nTwo."
    assert "did not say" in consensus_output.first_answers(result)
    again = result.to_json()
    assert "verdict" not in again["phases"]
    assert "vote" not in again


def test_a_failure_after_an_answer_is_not_announced_as_a_new_start() -> None:
    """An answer outside the choices arrives completely, and fails afterwards."""
    board = Board()
    news = [
        board.add(event)
        for event in (
            PhaseStarted(1, 0.0, "", "initial"),
            ModelStarted(2, 0.0, "0", "gpt-5", "initial"),
            ModelFinished(3, 0.0, "0", "gpt-5", "initial", "openai", 1, 2),
            ModelStarted(4, 0.0, "0", "gpt-5", "initial"),
            ModelFailed(5, 0.0, "0", "gpt-5", "initial", SchemaMismatch("gpt-5 picked none of the choices.")),
            PhaseStarted(6, 0.0, "", "refined"),
            ModelStarted(7, 0.0, "1", "opus", "refined"),
            ModelFinished(8, 0.0, "1", "opus", "refined", "anthropic", 1, 2),
            PhaseStarted(9, 0.0, "", "refined"),
            ModelStarted(10, 0.0, "1", "opus", "refined"),
        )
    ]
    assert news == [False, True, True, False, True, False, True, True, False, True]
    assert board.line("0") == "gpt-5: failed: gpt-5 picked none of the choices."


def test_failures_are_reported_in_the_words_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "can_render", lambda: False)
    error = {
        "error": "max_cost_usd of $0.10 does not allow a call to gpt-5.",
        "hint": "Raise max_cost_usd, or send less.",
        "code": "BUDGET_EXCEEDED",
    }
    phases = {
        "initial": [{"model": "opus", "response": "A tool takes max_cost_usd of a dollar.", **USED}],
        "failed": [{**error, "model": "gpt-5", "phase": "initial"}],
        "verdict": {**error, "judge": "grok-4"},
    }
    consensus_output.show(ConsensusResult.from_json(RESULT | {"phases": phases}), plain=False)
    text = capsys.readouterr().out
    assert (
        text.count("[BUDGET_EXCEEDED] --max-cost of $0.10")
        == text.count("Raise --max-cost, or send less.")
        == 2
    )
    assert "A tool takes max_cost_usd of a dollar." in text, "an answer is not changed"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("height", [10, 13, 16, 24, 60])
def test_the_board_fills_the_window_and_no_more(count: int, width: int, height: int) -> None:
    board = Board()
    for number in range(count):
        board.add(ModelStarted(1, 0.0, str(number), f"m{number}", "initial"))
        board.add(TextAdded(2, 0.0, str(number), "line\n" * 100, 0, "initial"))
    console = Console(width=width, height=height, file=io.StringIO())
    console.print(board.render(width, height))
    stream: Any = console.file
    printed = stream.getvalue().splitlines()
    across = min(count, width // 36)
    rows = (count + across - 1) // across
    each = max(1, min((height - 1) // rows - 2, board.most_lines))
    assert len(printed) == rows * (each + 2)
    assert max(map(len, printed)) <= width
    assert sum(line.count("line") for line in printed) == count * each


def test_the_board_has_the_judge() -> None:
    board = Board()
    board.add(ModelStarted(1, 0.0, "judge", "grok-4", "verdict"))
    assert board.line("judge") == "grok-4: judging …"
    board.add(TextAdded(2, 0.0, "judge", "Both work.\n\nA\n\nC\n\nUse tabs.", 0, "verdict"))
    assert board.text("judge") == "Both work.\n\nUse tabs."


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--role", "opus=x"], 2, "opus is not a member. The members are gpt-5, sonnet."),
        (["--role", "gpt-5"], 2, "is not --role MODEL=TEXT"),
        (["--role", "gpt-5=a", "--role", "gpt-5=b"], 2, "gpt-5 already has a role"),
        (["--stance", "gpt-5=maybe"], 2, "'maybe' is not a stance"),
        (["--rounds", "4"], 2, "4 is not in the range 1<=x<=3"),
        (
            ["--choice", "a"],
            1,
            "choices must have 2 to 20 entries, not 1. Nothing was sent. `--help` lists the options.",
        ),
        (
            ["--no-feedback", "--refine", "always"],
            2,
            "--no-feedback and --refine always contradict each other",
        ),
        (["--no-feedback", "--rounds", "3"], 1, "3 rounds were requested, but no refinement"),
        (["-m", "openai/unheard-of", "--max-cost", "0"], 1, "its price is unknown, and --max-cost applies"),
        (["--max-cost", "0"], 1, "gpt-5: failed: --max-cost of $0 does not allow"),
        (["--refine", "disagreement"], 1, "needs choices or a judge"),
        (["--judge", "sonnet"], 1, "must not be a member"),
    ],
)
def test_contradictory_options_are_refused(
    user: User, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, message: str
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "k")
    user.command = "consensus"
    user.counsel("q", "-m", "gpt-5,sonnet", "--standalone", *options, code=code)
    assert message in " ".join(user.err.split())
    assert "max_cost_usd" not in user.err


def test_a_member_without_role_or_stance_is_asked_by_its_name(tmp_path: Path) -> None:
    user_settings = settings.load({"COUNSEL_HOME": str(tmp_path)})
    models = ("gpt-5", "gpt-5", "sonnet")
    members = consensus_members.assign_roles(models, ["gpt-5=a writer"], ["sonnet=Against"], user_settings)
    assert members == (
        {"model": "gpt-5", "role": "a writer"},
        "gpt-5",
        {"model": "sonnet", "stance": "against"},
    )


def test_a_council_on_the_command_line(tmp_path: Path, fake_process: FakeProcess) -> None:
    fake_process.script(text=verdict(contradictions=[CONTRADICTION], choice="Tabs"), contains=JUDGING)
    fake_process.script(text=picks("Tabs", "Convinced."), contains=REFINING, times=None)
    fake_process.script(text=picks("Spaces", "Same everywhere."), model="claude")
    fake_process.script(text=picks("Tabs", "Fewer bytes."), times=None)
    command = ["consensus", "Which?", "-m", "gpt-5,gpt-5,sonnet", "--choice", "Tabs", "--choice", "Spaces"]
    parts = ["--role", "gpt-5=a writer", "--role", "gpt-5#2=a reader", "--stance", "sonnet=against"]
    more = ["--judge", "gpt-5-mini", "--refine", "disagreement", "--standalone"]
    env = user_env(tmp_path, tmp_path / "home", fake_process)
    with Terminal(*command, *parts, *more, env=env, cwd=tmp_path, rows=60) as screen:
        assert screen.wait() == 0
    for text in ("Tabs: 3 of 3 votes.", "Use tabs.", "Judge: gpt-5-mini", "changed its position"):
        assert text in screen.text
    bodies = [str(call["body"]) for call in fake_process.calls]
    assert len(bodies) == 7
    assert [sum(part in body for body in bodies) for part in ("a writer", "a reader", "case against")] == [
        2,
        2,
        2,
    ]
