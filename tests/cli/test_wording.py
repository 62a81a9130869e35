"""The command line speaks of its own commands and options, not of the agents' tools and arguments."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from counsel.cli import documents, fail
from counsel.cli.questions import ask_options
from counsel.cli.terminal import wording
from counsel.errors import Conflict, NotFound
from counsel.results import AnswerMetadata, ChatResult, Continuation
from counsel.types import Usage

SOURCE = Path(__file__).resolve().parents[2] / "src" / "counsel"
TOOLS = re.compile(
    r"\b(check_status|cancel_job|continuation_id|use_websearch|job_id|reasoning_effort|models_status)\b"
)
# These speak to agents and programs, or only name arguments.
OTHERS = ("mcp", "front", "askmodel", "http")
STATEMENTS = (
    "cli/terminal/wording.py",
    "engine/store/postgres/queue.py",
)  # the words themselves; procrastinate's columns


def prose() -> Iterator[tuple[str, str]]:
    """Strings with more than one word in modules whose errors the command line may print."""
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in OTHERS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in documentation
            ):
                yield str(path.relative_to(SOURCE)), node.value


def test_no_text_of_the_engine_names_a_tool_or_its_arguments_on_the_command_line() -> None:
    strings = [
        (path, text)
        for path, text in prose()
        if " " in text.strip() and TOOLS.search(text) and path not in STATEMENTS
    ]
    assert len(strings) > 4, "the engine's own hints for agents"
    assert [(path, text) for path, text in strings if TOOLS.search(wording.in_cli_words(text))] == []


@pytest.mark.parametrize(
    "hint",
    [
        "It may be mistyped or expired; check_status without an id (or `counsel jobs`) lists the newest.",
        "Name the one that you mean by its job_id.",
    ],
)
def test_an_error_uses_the_commands_words(hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (True, False):
        fail(Conflict("Two jobs run.", hint=hint), as_json=as_json)
        streams = capsys.readouterr()
        assert not TOOLS.search(streams.out + streams.err)


def test_what_a_user_wrote_stays_as_it_is() -> None:
    text = "check_status.py: there is no such file; `continuation_id` is not a model."
    assert wording.in_cli_words(text) == text


def test_an_error_names_its_job_and_its_conversation() -> None:
    error = NotFound("Gone.", job_id="job_1", continuation_id="conv_1")
    document = documents.error(error)
    assert (document["id"], document["job_id"], document["conversation"]) == ("job_1", "job_1", "conv_1")
    assert "continuation_id" not in json.dumps(document)


def test_settings_that_were_left_out_are_named_like_options(capsys: pytest.CaptureFixture[str]) -> None:
    metadata = AnswerMetadata(
        model="m",
        provider="p",
        usage=Usage(),
        cost_usd=None,
        response_time_ms=1,
        finish_reason="stop",
        settings_left_out=("use_websearch", "reasoning_effort", "temperature"),
    )
    result = ChatResult(content="x", continuation=Continuation(id="c"), metadata=metadata, job_id="j")
    ask_options.notes(result)
    assert "m does not take --web, --effort, --temperature: left out." in capsys.readouterr().err
