"""The commands of docs/use/tutorial.md run as shown, with the real Claude Code and the fake vendors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fake import FakeProcess
from support.stdio_client import SHORT_LIVED, daemon_pid

PAGE = Path(__file__).resolve().parents[1] / "docs" / "use" / "tutorial.md"
BLOCK = re.compile(r"(?:<!-- (not run|input): (.*?) -->\n)?^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
KEY = "sk-your-key"


class Block(NamedTuple):
    commands: str
    stdin: str
    is_run: bool


def blocks(text: str) -> list[Block]:
    return [
        Block(commands, f"{note}\n" if kind == "input" else "", kind != "not run")
        for kind, note, commands in BLOCK.findall(text)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (home := tmp_path / "home").mkdir()
    yield home
    if (pid := daemon_pid(home / ".local" / "share" / "counsel")) is not None:
        os.kill(pid, signal.SIGKILL)


def test_blocks_are_read_with_what_the_page_says_of_them() -> None:
    page = "<!-- not run: why -->\n```sh\npip install .\n```\n<!-- input: key -->\n```sh\na\n```\n\n```sh\nb\nc\n```\n"
    assert blocks(page) == [("pip install .\n", "", False), ("a\n", "key\n", True), ("b\nc\n", "", True)]


@pytest.mark.client
@pytest.mark.slow
def test_the_tutorial_works_as_written(
    home: Path, tmp_path: Path, fake_process: FakeProcess, real_client: Callable[[str], str]
) -> None:
    (project := tmp_path / "project").mkdir()
    question = "is calc.py correct?"
    fake_process.script(
        vendor="anthropic",
        tool_calls=[
            {
                "name": "mcp__counsel__consensus",
                "arguments": {"prompt": question, "models": ["gpt-latest", "gpt-5-mini"]},
            }
        ],
        text="Both say that it subtracts.",
        times=None,
    )
    env = {
        "HOME": str(home),
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), str(Path(real_client("claude")).parent), os.environ["PATH"]]
        ),
        **SHORT_LIVED,
        "OPENAI_BASE_URL": fake_process.v1,
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": fake_process.url,
        "DISABLE_TELEMETRY": "1",
    }
    output = ""
    for block in (block for block in blocks(PAGE.read_text(encoding="utf-8")) if block.is_run):
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.commands],
            input=block.stdin,
            env=env,
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=180,
        )
        assert process.returncode == 0, f"{block.commands}\n{process.stdout}"
        output += process.stdout
    assert "says: And list.sort()?" in output
    assert "Both say that it subtracts." in output
    assert KEY not in output
    requests = fake_process.wait_for(path="/v1/responses", contains=question, state="finished", count=2)
    assert len({request["model"] for request in requests}) == 2
