"""What reaches a terminal: tables that fit it, and no text that controls it."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from counsel.cli.terminal import output, tables

EVIL = "a\x1b]0;owned\x07b \x1b[31mc\x9b2J \u202egnp.exe"
COMMANDS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def on_a_terminal(script: str, *argv: str, columns: int = 80, env: Mapping[str, str] | None = None) -> str:
    """What a person sees: stdout and stderr of a process in a terminal of this width."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script, *argv],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "COLUMNS": str(columns), **(env or {})},
    ) as process:
        os.close(slave)
        data = b""
        while chunk := _read(master):
            data += chunk
        os.close(master)
    assert process.returncode == 0, data
    return data.decode()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # on Linux: the other side has closed
        return b""


@pytest.mark.parametrize(
    "call", ["answer(text)", "line(text)", "message(text)", "table(['x'], [[text]])", "document(text)"]
)
def test_no_text_from_others_controls_a_terminal(call: str) -> None:
    script = f"import sys; from counsel.cli import output; text = {EVIL!r}; output.{call}"
    text = on_a_terminal(script)
    assert not COMMANDS.search(text)
    assert "owned" in text


def test_an_answer_is_exact_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.answer(EVIL + "\r\n")
    assert capsys.readouterr().out == EVIL + "\r\n"


def test_escaping_does_not_change_what_a_document_means(capsys: pytest.CaptureFixture[str]) -> None:
    output.document({"title": EVIL})
    assert json.loads(capsys.readouterr().out) == {"title": EVIL}


def test_only_one_module_writes_to_stdout() -> None:
    """Code that prints without `output` prints untrusted text unsanitized."""
    folder = Path(output.__file__).parent
    past = re.compile(
        r"click\.(echo|secho)|(?<!\.)(?<!def )\bprint\(|sys\.stdout\.write\(|stdout\.writelines"
    )
    allowed_writers = {
        "output.py",
        "ask_service.py",
        "skills.py",
        "demo.py",
    }  # documents and shell lines of their own
    writers = {path.name for path in folder.glob("*.py") if past.search(path.read_text("utf-8"))}
    assert writers <= allowed_writers


@pytest.mark.parametrize(
    ("env", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_only_where_it_is_wanted(env: dict[str, str], colours: bool) -> None:
    script = "from counsel.cli import output; output.line('fine', colour='green')"
    assert ("\x1b[" in on_a_terminal(script, env={"NO_COLOR": "", "TERM": "xterm", **env})) is colours


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────

ID = "job_00000000-0000-0000-0000-000000000000"
ROW = (ID, "chat", "completed", "12.5 s", "gpt-5", "Is this regex safe against inputs of a hostile kind?")
COLUMNS = ("job", "tool", "status", "time", "models", "title")


def test_a_row_is_a_line_in_a_pipe() -> None:
    assert tables.lines(COLUMNS, [ROW], None)[1] == "  ".join(ROW).replace("gpt-5 ", "gpt-5  ")


@pytest.mark.parametrize("width", range(40, 160, 3))
def test_tables_fit_every_window_and_lose_nothing(width: int) -> None:
    lines = tables.lines(COLUMNS, [ROW, ROW], width)
    if width >= 50:  # below, the narrow columns alone are wider
        assert max(map(tables.cells, lines)) <= width
    assert sum(ID in line for line in lines) == 2
    assert sum("completed" in line for line in lines) == 2
    for word in ROW[-1].split():
        assert sum(line.split().count(word) for line in lines) == 2


def test_the_title_folds_and_the_state_does_not() -> None:
    lines = tables.lines(COLUMNS, [ROW], 100)
    assert lines[1].startswith(f"{ID}  chat  completed  12.5 s  gpt-5   Is this")
    assert lines[2].startswith(" " * 73)


LONG_ROWS = [
    (
        "a-server-with-a-really-long-name",
        "on",
        "stdio npx -y @modelcontextprotocol/server-filesystem /home/me",
        "differs: env",
    ),
    ("b", "", "http https://example.com/a/very/long/address/of/a/server/that/does/not/fit", ""),
    ("漢字" * 10, "off", "words that wrap between each other and not inside of any of them", "note " * 20),
]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_word_that_fits_on_a_line_is_broken(width: int) -> None:
    lines = tables.lines(("server", "claude", "what", "notes"), LONG_ROWS, width)
    assert max(map(tables.cells, lines)) <= max(width, 76)
    words = {word for line in lines for word in line.split()}
    for row in LONG_ROWS:
        for word in " ".join(row).split():
            assert word in words or tables.cells(word) > width - 10


def test_wide_and_combining_characters_take_their_places() -> None:
    assert [tables.cells(text) for text in ("ab", "漢字", "é", "e\u0301", "👍")] == [2, 4, 1, 1, 2]
    assert tables.fold("漢字漢字漢字漢字", 6) == ["漢字漢", "字漢字", "漢字"]
    assert tables.lines(["a", "b"], [["漢", "|"], ["xy", "|"]], 80) == ["A   B", "漢  |", "xy  |"]


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_terminal_that_is_not_utf8_loses_nothing() -> None:
    script = "import sys; from counsel.__main__ import main; from counsel import cli; from counsel.cli import output\n"
    script += "cli.run = lambda argv: output.answer('caf\\u00e9 \\u2026') or 0\nmain([])"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "caf\\xe9 \\u2026", "")


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(redirections: str) -> None:
    result = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "counsel", "models", "--all"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
