"""Commands, options and Python names in the examples of the documentation exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from counsel.cli import cli

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "use").glob("*.md"))]


def shown_commands(text: str) -> list[list[str]]:
    """The arguments of each `counsel …` in the shell examples of a page, including those after a pipe."""
    commands = []
    for block in FENCE.findall(text):
        for line in block.splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
            lexer.whitespace_split = True
            words = list(lexer)
            for start in [index for index, word in enumerate(words) if word == "counsel"]:
                if start == 0 or words[start - 1] in {"|", "&&", "$"}:
                    rest = words[start + 1 :]
                    ends = [index for index, word in enumerate(rest) if set(word) <= set("|;&")]
                    commands.append(rest[: ends[0]] if ends else rest)
    return commands


def problem_with(arguments: list[str]) -> str | None:
    """Why `counsel` would not accept these arguments; None if it would."""
    command: click.Command = cli
    context = click.Context(cli)
    words = iter(arguments)
    while isinstance(command, click.Group):
        name = next(words, None)
        if name is None or name.startswith("-"):
            break
        subcommand = command.get_command(context, name)
        if subcommand is None:
            return None if command.invoke_without_command else f"no command {name}"
        command = subcommand
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        if word == "--":
            break
        if word.startswith("-") and len(word) > 1 and word.split("=")[0] not in options:
            return f"no option {word}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_a_page_shows_exist(page: Path) -> None:
    commands = [
        command for command in shown_commands(page.read_text(encoding="utf-8")) if command[:1] != ["stdio"]
    ]
    assert [(command, wrong) for command in commands if (wrong := problem_with(command))] == []


def test_a_command_or_an_option_that_does_not_exist_is_found() -> None:
    page = "```sh\ngit diff | counsel ask 'x' --efort high   # why\ncounsel frobnicate && counsel servers lst\n```\n"
    assert [problem_with(command) for command in shown_commands(page)] == [
        "no option --efort",
        "no command frobnicate",
        "no command lst",
    ]


def test_most_pages_show_a_command() -> None:
    counts = [len(shown_commands(page.read_text(encoding="utf-8"))) for page in PAGES]
    assert sum(counts) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_that_a_python_example_imports_exist(page: Path) -> None:
    if page.name == "v1-clients.md":
        return  # its examples have environments of their own, in which tests/http/test_v1_client_docs.py runs them
    for block in re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        tree = compile(block, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
