"""What all commands share: help, errors, exit codes, completion; in real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from counsel import __version__, cli
from counsel.cli import CommandRow, json_option
from counsel.errors import ModelNotFound


def counsel(*argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counsel", *argv]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )


@click.command()
@json_option
@click.option("--raise", "kind", default="")
def probe(*, as_json: bool, kind: str) -> None:
    """A command to fail with."""
    if kind == "counsel":
        raise ModelNotFound("No model is called 'x'.", hint="Did you mean 'y'?", nearest=["y"])
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "defect":
        raise ZeroDivisionError("by zero")


@pytest.fixture
def with_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "probe", CommandRow(f"{__name__}:probe", "Fails."))
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())


def _this_module() -> Any:
    module = type(sys)(__name__)
    vars(module)["probe"] = probe
    return module


def test_version_and_help_name_every_command_without_importing_one() -> None:
    assert __version__ in counsel("--version").stdout
    script = (
        "import sys; from counsel.cli import run, COMMANDS; run(['--help']);"
        "loaded = [r.target.split(':')[0] for r in COMMANDS.values() if r.target.split(':')[0] in sys.modules];"
        "assert not loaded, loaded; assert 'rich' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for name, row in cli.COMMANDS.items():
        assert f"  {name} " in result.stdout
        assert row.summary.split()[0] in result.stdout


def groups(
    command: click.Command, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    if isinstance(command, click.Group):
        yield names, command
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from groups(inner, (*names, name))


def test_no_line_of_a_list_of_commands_breaks_off() -> None:
    lists = dict(groups(cli.cli))
    assert {("people",), ("people", "keys"), ("servers",)} <= set(lists)
    cut_lines = [
        line
        for group in lists.values()
        for line in group.get_help(click.Context(group, terminal_width=80)).splitlines()[1:]
        if line.endswith("...")
    ]
    assert cut_lines == []


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_row_leads_to_a_command_with_help(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert isinstance(command, click.Command)
    assert command.help


def test_the_stdio_front_starts_without_click() -> None:
    script = (
        "import sys, types; front = types.ModuleType('counsel.front.main');"
        "front.main = lambda argv: print(argv, 'click' in sys.modules) or 7;"
        "sys.modules['counsel.front.main'] = front;"
        "from counsel.__main__ import main; main(['stdio', '--as', 'codex'])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.returncode) == ("['--as', 'codex'] False", 7), result.stderr


@pytest.mark.parametrize("argv", [["nonsense"], ["models", "--nonsense"]])
def test_bad_usage_is_exit_2_on_stderr(argv: list[str]) -> None:
    result = counsel(*argv)
    assert result.returncode == 2
    assert not result.stdout
    assert "nonsense" in result.stderr


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    assert "Did you mean 'models'?" in counsel("modles").stderr


@pytest.mark.usefixtures("with_probe")
def test_a_failure_is_a_message_on_stderr_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", "--raise", "counsel"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err == "error: No model is called 'x'.\n  Did you mean 'y'?\n"


@pytest.mark.usefixtures("with_probe")
def test_a_failure_with_json_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", "--json", "--raise", "counsel"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["code"] == "MODEL_NOT_FOUND"
    assert document["nearest"] == ["y"]


@pytest.mark.usefixtures("with_probe")
@pytest.mark.parametrize("args", [["--json", "--bogus"], ["--bogus", "--json"]])
def test_bad_usage_with_json_is_a_document_too(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", *args]) == 2
    assert json.loads(capsys.readouterr().out)["code"] == "INVALID_ARGUMENT"
    assert cli.run(["probe", "--bogus", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("with_probe")
def test_an_interrupt_is_exit_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", "--raise", "interrupt"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.usefixtures("with_probe")
def test_a_defect_is_a_message_and_exit_1_with_a_traceback_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["probe", "--json", "--raise", "defect"]) == 1
    streams = capsys.readouterr()
    assert json.loads(streams.out)["code"] == "INTERNAL"
    assert "ZeroDivisionError" in streams.err
    monkeypatch.setenv("LOG_LEVEL", "debug")
    with pytest.raises(ZeroDivisionError):
        cli.run(["probe", "--raise", "defect"])


def test_a_reader_that_has_gone_is_no_failure() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "counsel", "--help"]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "candidate"),
    [
        ("counsel ser", "servers"),
        ("counsel servers en", "enable"),
        ("counsel ask --eff", "--effort"),
        ("counsel ask -m gpt-5-m", "gpt-5-mini"),
        ("counsel consensus -m cod", "codex"),
        ("counsel setup --agent claude,co", "claude,codex"),
        ("counsel servers list --agent g", "gemini"),
        ("counsel skills share x --to codex,cu", "codex,cursor"),
        ("counsel skills list --scope pl", "plugin"),
    ],
)
def test_the_shell_completes(words: str, candidate: str) -> None:
    env = {"_COUNSEL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    result = counsel(env={**env, "OPENAI_API_KEY": "sk-test-0000000000000000"})
    assert f"plain,{candidate}" in result.stdout.split()
