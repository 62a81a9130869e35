"""How option values are parsed, and what a person sees while a command waits."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import click
import pytest

from counsel.cli.questions import ask_options
from counsel.cli.questions.ask_options import QuestionCommand
from counsel.cli.servers import options as servers_options
from counsel.cli.terminal import name_lists, progress
from counsel.cli.terminal.live_region import EMPTY, LiveRegion, row
from counsel.cli.terminal.numbers import Number
from counsel.errors import InvalidArgument

CONTEXT, PARAMETER = click.Context(click.Command("x")), click.Option(["--agent"])
NAMES = ("claude", "codex", "cursor")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ((), ()),
        (("claude",), ("claude",)),
        (("claude, codex", "cursor"), ("claude", "codex", "cursor")),
        (("codex,claude", "codex,"), ("codex", "claude")),
    ],
)
def test_names_are_split_and_named_once(value: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert name_lists.parser(NAMES)(CONTEXT, PARAMETER, value) == names


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (("claude,emacs",), "'emacs' is not one of"),
        (("",), "the value is empty"),
        ((" , ",), "the value is empty"),
    ],
)
def test_an_unknown_or_empty_name_is_refused(value: tuple[str, ...], words: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(words)):
        name_lists.parser(NAMES)(CONTEXT, PARAMETER, value)


def test_the_name_after_the_last_comma_is_completed() -> None:
    complete = name_lists.completer(NAMES)
    assert complete(CONTEXT, PARAMETER, "c") == ["claude", "codex", "cursor"]
    assert complete(CONTEXT, PARAMETER, "claude,co") == ["claude,codex"]
    assert complete(CONTEXT, PARAMETER, "x") == []


# ── servers ──


def test_pairs_of_variables_and_headers() -> None:
    environment = servers_options._pairs("=", "NAME=value")
    assert environment(CONTEXT, PARAMETER, ("A=b=c", " B = d ")) == {"A": "b=c", "B": " d "}
    headers = servers_options._pairs(":", "'Name: value'")
    assert headers(CONTEXT, PARAMETER, ("X: a:b ",)) == {"X": "a:b"}
    for wrong in ("A", "=x", " =x"):
        with pytest.raises(click.BadParameter, match="expected NAME=value") as refusal:
            environment(CONTEXT, PARAMETER, (wrong + "secret",) if wrong == "A" else (wrong,))
        assert "secret" not in refusal.value.message


def test_which_agents_are_meant() -> None:
    assert servers_options.chosen_agents((), everywhere=False) is None
    assert servers_options.chosen_agents(("codex",), everywhere=False) == ("codex",)
    assert "vscode" in (servers_options.chosen_agents((), everywhere=True) or ())
    with pytest.raises(click.UsageError):
        servers_options.chosen_agents(("codex",), everywhere=True)


def test_an_agent_with_its_scope() -> None:
    assert servers_options.agent_and_scope(" codex ", None) == ("codex", None)
    assert servers_options.agent_and_scope("codex", "user") == ("codex", "user")
    assert servers_options.agent_and_scope("claude:local", "user") == ("claude", "local")
    for wrong in ("emacs", "codex:moon", ":user"):
        with pytest.raises(click.UsageError):
            servers_options.agent_and_scope(wrong, None)


def test_a_new_server_is_a_command_or_an_address() -> None:
    for name, values in (
        (None, {"url": "x"}),
        ("", {"url": "x"}),
        ("a", {}),
        ("a", {"url": "x", "command": "y"}),
    ):
        with pytest.raises(click.UsageError):
            servers_options.from_flags(name, values, literal=False)
    assert servers_options.from_flags("a", {"command": "run"}, literal=False).command == "run"
    assert (
        servers_options.from_flags("a", {"url": "https://a.example/mcp"}, literal=False).transport == "http"
    )


def test_flags_in_use_become_fields() -> None:
    flags: dict[str, Any] = {
        "command": ("run", "-x"),
        "env": {},
        "cwd": None,
        "include_tools": (),
        "timeout": 0.5,
    }
    assert servers_options.fields_of(flags) == {"command": "run", "args": ("-x",), "timeout": 0.5}
    assert servers_options.fields_of({"command": ()}) == {}


def test_a_pasted_text_has_a_limit_and_is_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_options, "MOST_PASTED", 5)
    assert servers_options.read(io.StringIO("12345")) == "12345"
    with pytest.raises(InvalidArgument, match="more than 5 characters"):
        servers_options.read(io.StringIO("123456"))
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        servers_options.read(io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))


# ── questions ──


def parsed(*args: str) -> dict[str, Any]:
    @click.command(cls=QuestionCommand)
    @ask_options.options
    @click.argument("prompt", required=False)
    def ask(**values: Any) -> None: ...

    context = ask.make_context("ask", list(args))
    return context.params


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.py", "b.py", "c.png"):
        (tmp_path / name).write_text("x")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.py").write_text("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "files", "images", "prompt"),
    [
        (("-f", "a.py", "Why?"), ("a.py",), (), "Why?"),
        (("-f", "a.py", "b.py", "Why?"), ("a.py", "b.py"), (), "Why?"),
        (("--file", "a.py", "b.py", "Why?"), ("a.py", "b.py"), (), "Why?"),
        (("--file=a.py", "b.py", "Why?"), ("a.py", "b.py"), (), "Why?"),
        (("-i", "c.png", "a.py", "Why?"), (), ("c.png", "a.py"), "Why?"),
        (("-f", "a.py", "-i", "c.png", "Why?"), ("a.py",), ("c.png",), "Why?"),
        (("-f", "a.py", "--web", "Why?"), ("a.py",), (), "Why?"),
        (("-f", "a.py", "--", "b.py"), ("a.py",), (), "b.py"),
        (("-f", "gone.py", "Why?"), ("gone.py",), (), "Why?"),
        (("b.py", "-f", "a.py"), ("a.py",), (), "b.py"),
        (("--cwd", "inner", "-f", "d.py", "d.py", "Why?"), ("d.py", "d.py"), (), "Why?"),
        (("-f", "d.py", "a.py", "--cwd", "inner"), ("d.py",), (), "a.py"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_several_paths_may_follow_one_option(
    args: tuple[str, ...], files: tuple[str, ...], images: tuple[str, ...], prompt: str
) -> None:
    values = parsed(*args)
    assert (values["files"], values["images"], values["prompt"]) == (files, images, prompt)


@pytest.mark.parametrize(
    ("args", "conversation", "prompt"),
    [
        (("-c", "abc", "Why?"), "abc", "Why?"),
        (("-c", "And why is that?"), "last", "And why is that?"),
        (("-c",), "last", None),
        (("-c", "abc"), "abc", None),
        (("Why?", "-c"), "last", "Why?"),
        (("Why?",), None, "Why?"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_text_that_cannot_name_a_conversation_is_the_question(
    args: tuple[str, ...], conversation: str | None, prompt: str | None
) -> None:
    values = parsed(*args)
    assert (values["continuation_id"], values["prompt"]) == (conversation, prompt)


def test_models_are_named_with_commas_or_several_times() -> None:
    several = ask_options.several_models
    assert several(CONTEXT, PARAMETER, ("a, b", "c")) == ("a", "b", "c")
    assert several(CONTEXT, PARAMETER, ("a", "a")) == ("a", "a")
    assert several(CONTEXT, PARAMETER, ()) == ("auto",)
    assert ask_options.one_model(CONTEXT, PARAMETER, "a, b") == "a, b"
    for wrong in ("a,", ""):
        with pytest.raises(click.BadParameter):
            several(CONTEXT, PARAMETER, (wrong,))
        with pytest.raises(click.BadParameter):
            ask_options.one_model(CONTEXT, PARAMETER, wrong)


# ── while a model is asked ──


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "1 s"), (1.4, "1 s"), (1.6, "2 s"), (119.4, "119 s"), (119.6, "2 min"), (200, "3 min")],
)
def test_how_long_a_model_thought(seconds: float, expected: str) -> None:
    assert progress.thought_for(seconds) == f"thought for {expected}"


def test_a_terminal_without_a_cursor_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = progress.LineProgress()
    for model in ("gpt", "gpt", "opus"):
        lines.wait_for(model)
    lines.end_thinking(5.0)
    lines.think("hm", 10.0)
    lines.think("hm", 11.0)
    lines.end_thinking(13.0)
    lines.end_thinking(14.0)
    lines.note("a notice")
    assert capsys.readouterr().err.splitlines() == [
        "waiting for gpt …",
        "waiting for opus …",
        "thinking …",
        "thought for 3 s",
        "a notice",
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("counsel.cli.terminal.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "window", lambda: (20, 10))
    return now


def test_live_rows_show_the_awaited_model_and_its_thinking(clock: list[float]) -> None:
    live = progress.LiveProgress(io.StringIO())
    assert live.status() == []
    live.wait_for("gpt\x1b[2J")
    assert live.status() == []
    clock[0] += 1
    (waiting,) = live.status()
    assert "waiting for gpt" in waiting.text
    assert waiting.text.endswith("… 1 s\x1b[0m")
    assert "\x1b[2J" not in waiting.text
    live.think("one two three four five six " * 10, 101.0)
    rows = live.status()
    assert rows[0] == row("thinking …", "2")
    assert len(rows) == 7
    assert max(line.cells for line in rows) <= 20
    live.forget()
    assert live.status() == []


def test_thinking_ends_as_one_line(clock: list[float]) -> None:
    stream = io.StringIO()
    live = progress.LiveProgress(stream)
    live.wait_for("gpt")
    clock[0] += 5
    live.end_thinking(105.0)
    assert (live.status(), stream.getvalue()) == ([], "")
    live.think("hm", 105.0)
    live.end_thinking(109.0)
    assert "thought for 4 s" in stream.getvalue()
    live.think("again", 110.0)
    assert [line.text for line in live.status()][1:] == ["\x1b[2m  again\x1b[0m"]


class Window:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
        self.size = (columns, lines)
        monkeypatch.setattr("counsel.cli.terminal.live_region.window", lambda: self.size)


def test_only_what_changed_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    Window(monkeypatch, 20, 3)
    stream = io.StringIO()
    region = LiveRegion(stream)

    def draw(*arguments: Any) -> str:
        stream.seek(0)
        stream.truncate()
        region.draw(*arguments)
        return stream.getvalue().replace("\x1b[?2026h", "").replace("\x1b[?2026l", "").replace("\x1b", "ESC")

    assert draw([], [row("a"), row("b")]) == "\raESC[K\nbESC[KESC[J"
    assert draw([], [row("a"), row("b")]) == ""
    assert draw([], [row("a"), row("c")]) == "\rcESC[KESC[J"
    assert draw([row("a")], [row("c")]) == ""
    assert draw([row("x")], [row("c")]) == "\rxESC[K\ncESC[KESC[J"
    assert draw([], [row(str(number)) for number in range(5)]) == "\r2ESC[K\n3ESC[K\n4ESC[KESC[J"
    assert draw([], []) == "\rESC[2AESC[KESC[J"
    wide = row("w" * 21)
    assert draw([], [wide]) == f"\rESC[J{'w' * 21}ESC[J"
    stream.seek(0)
    stream.truncate()
    region.clear()
    assert stream.getvalue()
    stream.seek(0)
    stream.truncate()
    region.clear()
    assert (stream.getvalue(), region._rows) == ("", [EMPTY])


# ── numbers ──


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_a_number_is_finite(value: str) -> None:
    """click accepts NaN in every range; the daemon cannot read it, and the command waited forever."""
    with pytest.raises(click.BadParameter):
        Number(min=0).convert(value, PARAMETER, CONTEXT)
    with pytest.raises(click.BadParameter):
        Number(0, 1).convert(value, PARAMETER, CONTEXT)
    assert Number(min=0).convert("1e9", PARAMETER, CONTEXT) == 1e9
