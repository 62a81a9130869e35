"""Words that commands print for people: sums, notes, questions, what a chat says, and how long lines are wrapped."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from counsel import settings
from counsel.caller import Caller
from counsel.cli import bench, config, daemon, doctor, ids, skills, usage
from counsel.cli.ids import Ambiguous
from counsel.cli.questions import chat
from counsel.cli.questions.message_input import MessageInput
from counsel.cli.servers import output as servers_output
from counsel.cli.terminal import live_output, markdown, output
from counsel.cli.terminal.stopped import Stopped
from counsel.doctor.messages import Finding
from counsel.engine.store.records import Entry
from counsel.errors import NotFound
from counsel.evaluation.scoring import Changes, Score
from counsel.results import AnswerMetadata, ChatResult, Continuation
from counsel.skills.share import Sharing, Step
from counsel.types import Usage

Output = pytest.CaptureFixture[str]


def said(capsys: Output) -> list[str]:
    return capsys.readouterr().err.splitlines()


# ── counsel bench ────────────────────────────────────────────────────────────────────────────────────


def score(name: str, undecided: int) -> Score:
    return Score(name, 3, 4, undecided, 0.3, 0.95, 0.5, True, 2.04)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            Changes(1, 2, 3, 4),
            "Refinement fixed 1 of the members' answers and broke 2; 3 stayed right, 4 wrong.",
        ),
        (
            Changes(1, 1, 0, 0),
            "Refinement fixed 1 of the members' answers and broke 1; 0 stayed right, 0 wrong.",
        ),
        (
            Changes(0, 0, 1, 1),
            "Refinement fixed 0 of the members' answers and broke 0; 1 stayed right, 1 wrong.",
        ),
        (Changes(0, 0, 0, 0), None),
    ],
)
def test_what_refinement_changed(capsys: Output, changes: Changes, line: str | None) -> None:
    bench._print_notes([score("a", 0), score("b", 2), score("c", 1)], changes)
    lines = said(capsys)
    assert lines[-1] == "Where ranges overlap, these questions do not show which way is better."
    assert "Undecided (ties, failures), counted as wrong: b 2, c 1." in lines
    assert lines[0] == (line or lines[-2])
    bench._print_notes([score("a", 0)], Changes(0, 0, 0, 0))
    assert len(said(capsys)) == 1


def test_the_row_of_a_way_to_ask() -> None:
    assert bench._row(score("a", 0)) == ["a", "3/4", "30%-95%", "$0.5000", "2.0 s"]
    document = bench._score_row(score("a", 1))
    assert (document["accuracy"], document["interval"], document["undecided"]) == (0.75, [0.3, 0.95], 1)
    assert (document["median_seconds"], document["cost_usd"], document["cost_complete"]) == (2.04, 0.5, True)


# ── counsel usage ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1_800), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600), (" 1H ", 3_600)],
)
def test_a_period(text: str, seconds: int) -> None:
    context, parameter = click.Context(usage.usage), usage.usage.params[0]
    assert usage._seconds(context, parameter, text) == seconds
    for wrong in ("7", "d", "7y", "-1d", "1234567d", "1.5d"):
        with pytest.raises(click.BadParameter):
            usage._seconds(context, parameter, wrong)


def group(**fields: Any) -> Any:
    values: dict[str, Any] = {
        "calls": 5, "errors": {"TIMEOUT": 1, "CANCELLED": 1}, "input_tokens": 1_500, "output_tokens": 20,
        "cost_usd": 0.5, "calls_without_price": 0, "calls_without_usage": 0, "response_ms": {"p50": 1_200, "p95": None},
    }  # fmt: skip
    return {**values, **fields}


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({}, ["x", "5", "2", "1,500", "20", "$0.5000", "1.20 s", ""]),
        ({"calls_without_usage": 1}, ["x", "5", "2", "1,500+", "20+", "$0.5000", "1.20 s", ""]),
        ({"calls_without_usage": 3}, ["x", "5", "2", "?", "?", "$0.5000", "1.20 s", ""]),
        ({"calls_without_price": 1}, ["x", "5", "2", "1,500", "20", "$0.5000+", "1.20 s", ""]),
        ({"errors": {"TIMEOUT": 5}, "cost_usd": 0.0}, ["x", "5", "5", "0", "0", "$0", "1.20 s", ""]),
    ],
)
def test_a_sum_of_calls(fields: dict[str, Any], row: list[str]) -> None:
    assert usage._row("x", group(**fields), narrow=False) == row
    narrow = usage._row("x", group(**fields), narrow=True)
    assert [narrow[0], narrow[1], narrow[4]] == [row[0], row[1], row[5]]
    assert len(narrow) == 6


def test_marks_in_the_table_are_explained() -> None:
    assert list(usage._notes(group(), narrow=False)) == []
    assert list(usage._notes(group(), narrow=True)) == ["2 calls failed."]
    assert list(usage._notes(group(errors={}, calls_without_price=1, calls_without_usage=2), narrow=True)) == [
        "?, +: the price of 1 call is unknown and not in the sum.", "?, +: 2 calls did not report tokens.",
    ]  # fmt: skip


def test_what_is_left_of_a_budget(capsys: Output) -> None:
    usage._print_budgets([])
    streams = capsys.readouterr()
    assert streams.out + streams.err == ""
    row: Any = {
        "budget": "day", "limit_usd": 1.0, "spent_usd": 0.25, "reserved_usd": 0.0, "left_usd": 0.75,
        "until": "2026-11-20T00:00:00+01:00",
    }  # fmt: skip
    usage._print_budgets([row])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["BUDGET", "LIMIT", "SPENT", "RESERVED", "LEFT", "UNTIL"]
    assert lines[-1].split() == ["day", "$1.00", "$0.2500", "$0", "$0.7500", "2026-11-20", "00:00"]


def test_a_period_without_calls(capsys: Output) -> None:
    usage._print({"groups": [], "total": group()}, "model")  # type: ignore[typeddict-item]
    assert said(capsys) == ["No calls in this period."]


# ── counsel config ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (["a", 5], "a, 5"), (None, ""), (0, "0"), ("x", "x")],
)
def test_a_settings_value(value: object, text: str) -> None:
    assert config._text(value) == text


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("environment", "environment"),
        ("environment (COUNSEL_X)", "environment"),
        ("default", "default"),
        ("/home/.env: COUNSEL_X", ".env"),
        ("/home/config.toml", "config.toml"),
        ("/home/config.toml: x", "config.toml"),
    ],
)
def test_where_a_setting_comes_from(source: str, kind: str) -> None:
    assert config._kind(source) == kind
    row = {"source": kind, "environment": "COUNSEL_X"}
    assert config._origin(row) == ("environment (COUNSEL_X)" if kind == "environment" else kind)


def test_secrets_in_tables_are_not_shown() -> None:
    table = {
        "x": {"api_key": "sk", "headers": {"a": "b"}, "models": {"m": {"context": 5}}, "url": "u", "n": None}
    }
    assert config._leaves(("providers",), table) == [
        (("providers", "x", "api_key"), "(not shown)"), (("providers", "x", "headers"), "(not shown)"),
        (("providers", "x", "models"), {"m": {"context": 5}}), (("providers", "x", "url"), "u"),
        (("providers", "x", "n"), "None"),
    ]  # fmt: skip
    assert config._value("sk", secret=True) == "(set, not shown)"
    assert config._value("", secret=True) == ""
    assert config._value(("a", "b")) == ["a", "b"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    for name in ("COUNSEL_DEFAULT_MODEL", "COUNSEL_MAX_FILES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_change_says_what_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    first = run(config.config, ["set", "default_model", "opus"])
    assert first.stderr == "default_model = opus (config.toml)\n"
    assert run(config.config, ["set", "default_model", "opus"]).stderr == "Nothing was changed.\n"
    assert run(config.config, ["get", "default_model"]).stdout == "opus\n"
    monkeypatch.setenv("COUNSEL_DEFAULT_MODEL", "haiku")
    assert (
        "takes precedence over config.toml" in run(config.config, ["set", "default_model", "sonnet"]).stderr
    )
    monkeypatch.delenv("COUNSEL_DEFAULT_MODEL")
    assert "precedence" not in run(config.config, ["unset", "default_model"]).stderr
    missing = run(config.config, ["get", "aliases.fast"])
    assert "aliases.fast is not set." in str(missing.exception)


# ── counsel doctor ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("yes", "as_json", "is_terminal", "consent", "expected", "is_asked"),
    [
        (True, False, True, False, True, False),
        (True, True, False, False, True, False),
        (False, True, True, True, False, False),
        (False, False, False, True, False, False),
        (False, False, True, True, True, True),
        (False, False, True, False, False, True),
    ],
)
def test_who_is_asked_before_a_database_is_replaced(
    capsys: Output, monkeypatch: pytest.MonkeyPatch, yes: bool, as_json: bool, is_terminal: bool, consent: bool,
    expected: bool, is_asked: bool,
) -> None:  # fmt: skip
    answers: list[bool] = []

    def repair(_caller: object, confirm: Callable[[str], bool]) -> list[Finding]:
        answers.append(confirm("Replace it?"))
        return []

    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        asked.append(question)
        return consent

    monkeypatch.setattr("counsel.doctor.repair.repair", repair)
    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
    doctor._repair(Caller("test"), yes=yes, as_json=as_json)
    assert (answers, asked) == ([expected], ["Replace it?"] if is_asked else [])
    assert said(capsys) == (["The database was not changed."] if is_asked and not consent else [])


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["one two /a/path-that-is/longer-than/the-line three"]),
        (30, ["one two", "/a/path-that-is/longer-than/the-line", "three"]),
        (5, ["one two", "/a/path-that-is/longer-than/the-line", "three"]),
        (200, ["one two /a/path-that-is/longer-than/the-line three"]),
    ],
)
def test_a_path_is_never_broken(monkeypatch: pytest.MonkeyPatch, width: int | None, lines: list[str]) -> None:
    monkeypatch.setattr(output, "width", lambda: width)
    assert doctor._wrap("one two /a/path-that-is/longer-than/the-line three") == lines
    assert doctor._wrap("") == [""]


def test_findings_have_marks_and_are_counted(capsys: Output) -> None:
    doctor._print(
        [
            Finding("a", "ok", "fine"),
            Finding("a", "problem", "broken", "Mend it."),
            Finding("b", "warn", "odd"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "a", "  ✓ fine", "  ✗ broken", "    Mend it.", "b", "  ! odd", "", "problems: 1, warnings: 1",
    ]  # fmt: skip


# ── counsel skills, servers, daemon, ids ─────────────────────────────────────────────────────────────


def step(fate: Any, **fields: Any) -> Step:
    return Step(
        agents=("claude", "codex"), path=Path("/p"), fate=fate, kind="link", source=Path("/s"), **fields
    )


@pytest.mark.parametrize(
    ("name", "fate", "can_undo"),
    [
        ("1", "shared", True),
        ("1", "replaced", True),
        ("1", "removed", False),
        ("1", "already", False),
        ("", "shared", False),
    ],
)
def test_only_what_was_shared_can_be_undone(capsys: Output, name: str, fate: str, can_undo: bool) -> None:
    skills._report(
        Sharing("x", "user", (step("kept"), step(fate)), name, ("careful",)), dry_run=False, as_json=False
    )
    lines = said(capsys)
    assert "careful" in lines
    assert ("Undo with: counsel skills undo 1" in lines) is can_undo


def test_a_replaced_file_is_named_with_its_backup(capsys: Output) -> None:
    skills._report(Sharing("x", "user", (step("replaced", backup=Path("/b")),)), dry_run=False, as_json=False)
    assert said(capsys) == ["/p: the previous content is in /b"]


@pytest.mark.parametrize(
    ("fate", "dry_run", "text"),
    [
        ("share", True, "would link"),
        ("shared", False, "link made"),
        ("removed", True, "would be removed"),
        ("removed", False, "removed"),
        ("kept", True, "left alone"),
    ],
)
def test_what_becomes_of_a_skill(fate: str, dry_run: bool, text: str) -> None:
    assert skills._fate(step(fate), dry_run=dry_run) == text


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("a", "a"),
        ("a b", '"a b"'),
        ("", '""'),
        ("a,b", '"a,b"'),
        ("it's", '"it\'s"'),
        ('a"', '"a\\""'),
        ("a\n", '"a\\n"'),
        (5, "5"),
    ],
)
def test_a_value_that_reads_as_several_words_is_quoted(value: object, word: str) -> None:
    assert servers_output._word(value) == word


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "yes"), (False, "no"), (["a", "b c"], 'a "b c"'), ({"A": "1", "B": ""}, 'A=1, B=""'), (5, "5")],
)
def test_a_field_of_a_server(value: object, text: str) -> None:
    assert servers_output._plain(value) == text


def test_what_a_daemon_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert daemon._text(None) == "No daemon is running. It starts on demand."
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    state: Any = {
        "version": "1.2", "started_at": 1_000.0 - 125, "pid": 7, "socket": "/s",
        "clients": [{"client": "claude-code", "version": "3"}],
    }  # fmt: skip
    assert daemon._text(state).splitlines() == [
        "counsel 1.2 has been running for 2 min (pid 7)", "  /s", "  claude-code (counsel 3)"
    ]  # fmt: skip


def test_ids_with_the_same_beginning_are_listed_up_to_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    entries = [
        Entry(f"job_{number}", "A\n title" if number else None, 400.0, "completed", "c")
        for number in range(12)
    ]
    for count, more in ((10, []), (12, ["  … and 2 more"])):
        file = io.StringIO()
        Ambiguous("job_", "job", entries[:count]).show(file)
        lines = file.getvalue().splitlines()
        assert lines[:3] == [
            f"error: {count} jobs begin with 'job_'.",
            "  job_0  10 min ago",
            "  job_1  10 min ago  A title",
        ]
        assert lines[11:] == more
    assert ids.short("job_01234567-89ab-4000-8000-000000000000") == "01234567"
    assert ids.short("mine") == "mine"


# ── counsel chat ─────────────────────────────────────────────────────────────────────────────────────


class LoopStub:
    def __init__(self, *results: Any) -> None:
        self.results = list(results)

    def run(self, work: Any) -> Any:
        work.close()
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


class TypedMessages:
    """Messages that a person types; an exception is a key."""

    def __init__(self, *messages: Any, interactive: bool) -> None:
        self.messages, self.interactive = list(messages), interactive

    def read(self) -> str | None:
        message = self.messages.pop(0) if self.messages else None
        if isinstance(message, BaseException):
            raise message
        return message


def answered(cost: float | None = 0.25) -> ChatResult:
    metadata = AnswerMetadata(
        model="gpt-5",
        provider="openai",
        usage=Usage(input=1),
        cost_usd=cost,
        response_time_ms=5,
        finish_reason="stop",
    )
    return ChatResult(
        content="Hello", continuation=Continuation(id="mine"), metadata=metadata, job_id="job_1"
    )


def chatted(*messages: Any, results: Any = (), interactive: bool = False, model: str = "default") -> Any:
    loop: Any = LoopStub(*results)
    typed: Any = TypedMessages(*messages, interactive=interactive)
    engine: Any = None
    caller = Caller("test", cwd=Path.cwd(), settings=settings.load({"COUNSEL_HOME": "/nowhere"}))
    made = chat.Chat(loop, engine, caller, typed, model, None, plain=True)
    made.run()
    return made


def test_a_person_is_greeted_and_a_pipe_is_not(capsys: Output) -> None:
    chatted()
    assert said(capsys) == []
    chatted(interactive=True)
    assert said(capsys) == ["Chat. /help lists commands, Ctrl-D leaves.", ""]
    chatted(interactive=True, model="opus")
    assert said(capsys)[0] == "Chat with opus. /help lists commands, Ctrl-D leaves."


def test_a_chat_says_how_to_continue_once_there_was_an_answer(capsys: Output) -> None:
    chatted("hello", results=[answered()])
    assert said(capsys)[-1] == "Continue with: counsel chat -c mine"
    chatted("hello", "/new", "/exit", "never read", results=[answered()])
    assert "Continue with" not in capsys.readouterr().err
    chatted("hello", "/quit", results=[Stopped()])
    assert "Continue with" not in capsys.readouterr().err


def test_a_failure_is_printed_and_the_chat_goes_on(capsys: Output) -> None:
    made = chatted("one", "two", results=[NotFound("There is none."), answered()])
    assert "There is none." in capsys.readouterr().err
    assert len(made._results) == 1


@pytest.mark.parametrize(
    ("costs", "line"),
    [
        ([], "0 answers: $0"),
        ([0.25], "1 answer: $0.2500"),
        ([0.25, None], "2 answers: $0.2500+"),
        ([None], "1 answer: ?"),
    ],
)
def test_what_a_chat_has_cost(capsys: Output, costs: list[float | None], line: str) -> None:
    chatted(*["x"] * len(costs), "/cost", results=[answered(cost) for cost in costs])
    assert line in said(capsys)


def test_commands_of_a_chat(capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    made = chatted(
        "/model", "/model auto", "/model", "/file a.txt", "/file", "/file b.txt", "/file 'a", "/dance", "/help",
    )  # fmt: skip
    lines = said(capsys)
    assert lines[:5] == [
        "Model: the conversation's, else the default", "Model: auto", "Model: auto", "1 file with the next message",
        "0 files with the next message",
    ]  # fmt: skip
    assert "error: There is no file 'b.txt'." in lines
    assert "error: No closing quotation." in lines
    assert "There is no command /dance. /help lists them; // sends a message that starts with /." in lines
    assert "/exit          leave (or Ctrl-D)" in lines
    assert made._files == []


def test_blank_lines_and_ctrl_c_at_the_prompt_send_nothing(capsys: Output) -> None:
    made = chatted("", "  ", KeyboardInterrupt(), "//etc is a folder", results=[answered()])
    assert len(made._results) == 1


@pytest.mark.parametrize(
    ("typed", "messages"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("one\\\ntwo\n", ["one\ntwo"]),
        ("one\\\n", ["one"]),
        ('"""\none\n\ntwo\n"""\nthree\n', ["one\n\ntwo", "three"]),
        ('"""one\ntwo"""\n', ["one\ntwo"]),
        ('"""one"""\n', ["one"]),
        ('"""one\n', ["one"]),
        ("last", ["last"]),
        ("", []),
    ],
)
def test_messages_of_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, messages: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    reader = MessageInput(tmp_path / "history")
    assert list(iter(reader.read, None)) == messages
    assert not (tmp_path / "history").exists()


# ── what is printed ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", [20, 30])
def test_a_quote_fits_the_window(columns: int) -> None:
    quote = markdown.rows("> " + "word " * 20, columns)
    assert max(row.cells for row in quote) in range(columns - 5, columns + 1)
    nested = markdown.rows("> - " + "word " * 20, columns)
    assert max(row.cells for row in nested) <= columns


def test_flags_take_no_value() -> None:
    @click.command()
    @live_output.plain_option
    @live_output.stream_option
    def command(*, plain: bool, stream: bool) -> None:
        click.echo(f"{plain} {stream}")

    assert CliRunner().invoke(command, ["--plain"]).stdout == "True False\n"
    assert CliRunner().invoke(command, ["--stream"]).stdout == "False True\n"


def test_numbers_and_paths_are_not_coloured_by_rich() -> None:
    file = io.StringIO()
    for is_error in (True, False):
        console = output.console(stderr=is_error)
        assert console.stderr is is_error
        console._force_terminal, console.file = True, file
        console.print("5 files in /tmp")
    assert file.getvalue() == "5 files in /tmp\n" * 2
