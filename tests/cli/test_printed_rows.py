"""The lines that commands print for given data."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from counsel import cli
from counsel.cli import conversations, daemon
from counsel.cli.questions import consensus_board, review
from counsel.cli.questions.ask_options import quiet
from counsel.cli.servers import output as servers_output
from counsel.cli.setup import command as setup
from counsel.cli.terminal import output
from counsel.cli.terminal.live_output import LiveAnswer
from counsel.doctor import files
from counsel.engine.consult.review.source import Change
from counsel.errors import CounselError, InvalidArgument
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent


def row(**fields: Any) -> dict[str, Any]:
    arguments = {
        "id": "conv_1",
        "updated_at": "2024-11-16T12:03:04.000Z",
        "messages": 4,
        "model": "gpt-5",
        "tool": "chat",
        "title": "Tides",
    }
    return {**arguments, **fields}


def test_conversations_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows: Any = [
        row(),
        row(id="conv_2", model=None, tool="consensus", title=None),
        row(id="conv_3", found="… high water …"),
    ]
    conversations._print({"conversations": rows}, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [word.lower() for word in lines[0]] == ["conversation", "updated", "messages", "model", "title"]
    assert ["conv_1", "2024-11-16", "4", "gpt-5", "Tides"] in lines
    assert ["conv_2", "2024-11-16", "4", "consensus"] in lines
    assert ["conv_3", "2024-11-16", "4", "gpt-5", "…", "high", "water", "…"] in lines


def test_an_empty_list_of_conversations_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    conversations._print({"conversations": []}, as_json=False)
    streams = capsys.readouterr()
    assert "No conversations." in streams.out + streams.err


async def test_stopping_without_a_daemon_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    assert await daemon._stop() is False


def test_the_databases_size_is_its_own_and_its_logs(tmp_path: Path) -> None:
    path = tmp_path / "counsel.db"
    path.write_bytes(b"x" * 1_234)
    (tmp_path / "counsel.db-wal").write_bytes(b"x" * 56_789)
    (tmp_path / "counsel.db-shm").write_bytes(b"x" * 7)
    (finding,) = files.size_and_copies(path, 0)
    words = str(finding)
    assert "1,234 bytes, log 56,789 bytes, no limit" in words
    (limit_finding,) = files.size_and_copies(path, 5_000)
    assert "at most 5,000" in str(limit_finding)


async def events(*rows: tuple[str, dict[str, Any]]) -> AsyncGenerator[JobEvent]:
    for number, (kind, data) in enumerate(rows, 1):
        yield event_from(number, 0.0, kind, "0", data)


async def test_waits_and_notices_that_matter_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = LiveAnswer(stream=True)
    await answer.follow(
        events(
            ("waiting", {"for": "turn", "text": "its turn"}),
            ("waiting", {}),
            ("notice", {"kind_of": "retry", "text": "it is tried again"}),
            ("notice", {"kind_of": "source", "text": "a page"}),
            ("text", {"text": "Hel", "offset": 0, "phase": "answer"}),
            ("text", {"text": "lo", "offset": 3, "phase": "answer"}),
        )
    )
    answer.finish("Hello")
    streams = capsys.readouterr()
    assert streams.out == "Hello\n"
    assert "… waiting for its turn" in streams.err
    assert "… it is tried again" in streams.err
    assert "a page" not in streams.err


async def test_a_consensus_without_a_terminal_prints_one_line_per_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[JobEvent] = [
        event_from(1, 0.0, "waiting", "", {"for": "turn", "text": "its turn"}),
        event_from(2, 0.0, "waiting", "", {}),
        event_from(3, 0.0, "waiting", "0", {"for": "turn", "text": "a slot of its own"}),
    ]

    class Followed:
        async def follow(self, job_id: str) -> AsyncGenerator[JobEvent]:
            assert job_id == "job_1"
            for row in rows:
                yield row

    engine: Any = Followed()
    await consensus_board.watch(engine, "job_1")
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("… waiting for its turn") == 1
    assert not [line for line in lines if line.startswith("… waiting for a slot")]


@pytest.mark.parametrize("target", ["-", "file"])
def test_sarif_is_indented_for_people_and_ends_its_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    result = review._empty_review(Change("nothing", "", None, (), ()))
    capsys.readouterr()
    file = tmp_path / "out.sarif"
    name = "-" if target == "-" else str(file)
    review._print(result, {"sarif": name, "as_json": False, "github": False})
    text = capsys.readouterr().out if target == "-" else file.read_text()
    assert text.startswith('{\n  "')
    assert text.endswith("\n}\n")


@pytest.mark.parametrize(
    ("action", "error", "message", "changes", "dry_run", "words"),
    [
        ("added", None, "", True, False, "registered in /f"),
        ("added", None, "", True, True, "would be registered in /f"),
        ("updated", None, "It connects.", True, False, "updated in /f. It connects."),
        ("unchanged", None, "", False, True, "already registered in /f"),
        ("removed", None, "", True, True, "would be removed from /f"),
        ("absent", None, "", False, False, "no counsel entry in /f"),
        ("not installed", None, "Get it there.", False, False, "not installed. Get it there."),
        ("refused", InvalidArgument("It is no JSON."), "", False, False, "not changed. It is no JSON."),
    ],
)
def test_what_became_of_an_agents_entry(
    action: str, error: CounselError | None, message: str, changes: bool, dry_run: bool, words: str
) -> None:
    step: Any = SimpleNamespace(action=action, error=error, message=message, changes=changes, path=Path("/f"))
    assert setup._outcome(step, dry_run=dry_run) == words


STATE = {
    "version": "1.2", "pid": 7, "socket": "/run/s", "started_at": 0.0,
    "clients": [{"client": "claude", "version": "1.1"}],
}  # fmt: skip


@pytest.mark.parametrize("state", [STATE, None])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_daemons_state_is_text_or_json(
    monkeypatch: pytest.MonkeyPatch, state: dict[str, Any] | None, as_json: bool
) -> None:
    async def status() -> Any:
        return state

    monkeypatch.setattr(daemon, "_status", status)
    monkeypatch.setattr("counsel.cli.daemon.time.time", lambda: 125.0)
    text = CliRunner().invoke(daemon.status, ["--json"] if as_json else []).stdout
    if as_json:
        assert json.loads(text) == (state or {"running": False})
    elif state:
        assert text == "counsel 1.2 has been running for 2 min (pid 7)\n  /run/s\n  claude (counsel 1.1)\n"
    else:
        assert text == "No daemon is running. It starts on demand.\n"


@pytest.mark.parametrize(("was_running", "words"), [(True, "has stopped"), (False, "No daemon is running")])
def test_stopping_a_daemon_says_whether_there_was_one(
    monkeypatch: pytest.MonkeyPatch, was_running: bool, words: str
) -> None:
    async def stop() -> bool:
        return was_running

    monkeypatch.setattr(daemon, "_stop", stop)
    assert words in CliRunner().invoke(daemon.stop, []).stdout
    assert json.loads(CliRunner().invoke(daemon.stop, ["--json"]).stdout) == {"stopped": was_running}


def test_quiet_silences_options_before_it() -> None:
    def warn(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        output.message(f"It is {value}.")

    option = click.option("--old", callback=warn)

    def command(old: str | None) -> None:
        del old

    whole = click.command()(option(quiet(command)))
    try:
        loud = CliRunner().invoke(whole, ["--old", "x"], catch_exceptions=False)
        assert loud.stderr == "It is x.\n"
        assert CliRunner().invoke(whole, ["--old", "x", "-q"], catch_exceptions=False).stderr == ""
    finally:
        output.set_quiet(False)


def server_row(agent: str, word: str, **fields: Any) -> Any:
    known: dict[str, Any] = {"shadowed_by": None, "waits_for": None, "drift": ()}
    entry = {"url": None, "command": f"run-{agent}", "args": ["-x"], "transport": "stdio"}
    return SimpleNamespace(
        agent=agent, state=word, as_dict=lambda *, reveal: {**entry, "reveal": reveal}, **{**known, **fields}
    )


def test_of_servers_with_one_name_the_one_that_runs_is_shown() -> None:
    shadowed = server_row("claude", "shadowed", shadowed_by="local")
    waiting = server_row("codex", "trust", waits_for="trust")
    active = server_row("gemini", "enabled", drift=("args", "env"))
    columns = ["claude", "codex", "gemini"]
    cells = ["notes", "shadowed", "untrusted", "enabled"]
    assert servers_output._row("notes", [shadowed, waiting, active], columns, reveal=False) == [
        *cells, "stdio run-gemini -x", "differs: args, env; claude: shadowed by local"
    ]  # fmt: skip
    assert servers_output._row("notes", [shadowed, waiting], columns, reveal=False) == [
        *cells[:3], "", "stdio run-codex -x", "claude: shadowed by local"
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", [["--limit", "nope", "--json"], ["--json", "--limit", "nope"]])
def test_with_json_a_wrong_option_is_json_too_wherever_it_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["jobs", *arguments]) == 2
    document = json.loads(capsys.readouterr().out)
    assert "nope" in document["error"]
