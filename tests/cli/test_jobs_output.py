"""`counsel jobs` and `conversations` as a person sees them, and as a program reads them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from counsel.cli.terminal import tables, times
from fake import FakeProcess
from support.pty_screen import Screen, in_terminal
from support.seeded import Seed, seed

pytestmark = pytest.mark.thorough  # left out of `make check`: takes long

LONG = "Is this regular expression safe for inputs of any length, and what about Unicode?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    seed(
        tmp_path / "home",
        Seed(
            "7f3a1c2d",
            "9be01234",
            folder,
            LONG,
            age=130,
            model="claude-sonnet-4-5-20250929",
            provider="anthropic",
        ),
        Seed("8f3a1c2d", "review", folder, "Short", age=7300, cost=0.00001),
        Seed(
            "9f3a1c2d",
            "9be05678",
            folder,
            "標題很長" * 20,
            age=3 * 86_400,
            model="codex",
            provider="codex",
            cost=None,
        ),
    )
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = str(tmp_path / "home")
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COUNSEL_HOME": home, "TZ": "EAST-5"}


def rows(screen: Screen) -> dict[str, str]:
    return {line.split()[0]: line for line in screen.lines if line}


@pytest.mark.parametrize("columns", [80, 140])
def test_jobs_are_one_line_each(env: dict[str, str], project: Path, columns: int) -> None:
    screen = in_terminal("jobs", "--standalone", env=env, cwd=project, columns=columns)
    assert screen.code == 0
    assert len(screen.lines) == 4
    assert max(map(tables.cells, screen.lines)) <= columns
    assert screen.lines[0].split() == ["JOB", "WHEN", "STATUS", "TOOK", "MODEL", "COST", "TITLE"]
    lines = rows(screen)
    model = "claude-sonnet-4-5 " if columns == 80 else "anthropic/claude-sonnet-4-5-20250929 "
    assert "2 min ago" in lines["7f3a1c2d"]
    assert model in lines["7f3a1c2d"]
    assert "$0.0042" in lines["7f3a1c2d"]
    assert re.search(r"2 h ago\s+done\s+.*<\$0.0001\s+Short$", lines["8f3a1c2d"])
    assert re.search(r"3 days ago\s+done\s+.*codex\s+\?", lines["9f3a1c2d"])
    title = lines["7f3a1c2d"].partition("$0.0042")[2].strip()
    assert title == LONG or LONG.startswith(f"{title.removesuffix('…')} "), "cut between words"


@pytest.mark.parametrize("columns", [80, 140])
def test_conversations_are_one_line_each(env: dict[str, str], project: Path, columns: int) -> None:
    screen = in_terminal("conversations", env=env, cwd=project, columns=columns)
    assert len(screen.lines) == 4
    assert max(map(tables.cells, screen.lines)) <= columns
    assert set(rows(screen)) == {"CONVERSATION", "9be01234", "review", "9be05678"}


def test_a_pipe_gets_complete_ids(env: dict[str, str], project: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "counsel", "jobs", "--standalone"],
        env=env, cwd=project, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "job_7f3a1c2d-0000-4000-8000-000000000000" in result.stdout
    assert LONG in result.stdout


def test_a_job_shows_its_id_local_time_and_answer(env: dict[str, str], project: Path) -> None:
    screen = in_terminal("jobs", "7f3a", "--standalone", env=env, cwd=project)
    assert screen.code == 0
    lines = rows(screen)
    assert lines["job"].endswith("job_7f3a1c2d-0000-4000-8000-000000000000")
    assert lines["model"].endswith("anthropic/claude-sonnet-4-5-20250929")
    assert lines["conversation"].endswith("conv_9be01234-0000-4000-8000-000000000000")
    assert "PROCESSING" not in screen.text
    assert "COMPLETED" not in screen.text
    document = subprocess.run(
        [sys.executable, "-m", "counsel", "jobs", "7f3a", "--standalone", "--json"],
        env=env, cwd=project, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    job = json.loads(document.stdout)
    moment = times.seconds(job["started_at"])
    assert job["started_at"].endswith("Z")
    local = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment + 5 * 3600))
    assert local in lines["started"]
    assert screen.lines[-1] == job["content"] == "yes"


def test_documents_are_flat_and_id_is_the_jobs(
    env: dict[str, str], project: Path, fake_process: FakeProcess
) -> None:
    env |= {"OPENAI_API_KEY": "sk-test-000000000000000000000000", "OPENAI_BASE_URL": fake_process.v1}

    def counsel(*arguments: str, code: int = 0) -> Any:
        result = subprocess.run(
            [sys.executable, "-m", "counsel", *arguments, "--standalone", "--json"],
            env=env, cwd=project, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (code, "") or code, result.stderr
        for word in ("check_status", "continuation_id", "use_websearch", "status_line", "PROCESSING"):
            assert word not in result.stdout
        return json.loads(result.stdout)

    question = counsel("ask", "hello", "-m", "gpt-5")
    assert question["id"] == question["job_id"]
    assert question["conversation"] == question["continuation"]["id"]
    assert (question["model"], question["provider"]) == ("gpt-5", "openai")
    assert question["cost_usd"] == question["metadata"]["cost_usd"]
    job = counsel("jobs", question["id"])
    assert (job["id"], job["conversation"], job["status"]) == (
        question["id"],
        question["conversation"],
        "completed",
    )
    assert {name: job[name] for name in question} == question, "the same, and more"
    (row,) = [entry for entry in counsel("jobs")["jobs"] if entry["id"] == question["id"]]
    assert (row["model"], row["cost_usd"]) == ("gpt-5", question["cost_usd"])
    consensus = counsel("consensus", "which?", "-m", "gpt-5", "-m", "gpt-5-mini")
    assert (consensus["id"], consensus["status"]) == (consensus["job_id"], "consensus_complete")
    job = counsel("jobs", consensus["id"])
    assert (job["status"], job["verdict"], job["content"]) == (
        "completed",
        "consensus_complete",
        consensus["content"],
    )
    cancellation = counsel("cancel", consensus["id"])
    assert (cancellation["id"], cancellation["status"]) == (consensus["id"], "completed")
    fake_process.script(status=401)
    failure = counsel("ask", "x", "-m", "gpt-5", code=1)
    job = counsel("jobs", failure["id"])
    assert (job["id"], job["status"], job["code"]) == (failure["id"], "failed", "AUTHENTICATION_FAILED")
    assert job["error"] == failure["error"]


@pytest.mark.parametrize("way", [(), ("--standalone",)], ids=["daemon", "standalone"])
def test_one_model_of_a_consensus_is_stopped(
    env: dict[str, str], project: Path, fake_process: FakeProcess, way: tuple[str, ...]
) -> None:
    env |= {"OPENAI_API_KEY": "sk-test-000000000000000000000000", "OPENAI_BASE_URL": fake_process.v1}

    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "counsel", *arguments, *way]

    def counsel(*arguments: str) -> str:
        result = subprocess.run(
            command(*arguments), env=env, cwd=project, capture_output=True, text=True, check=True, timeout=60
        )
        return result.stdout + result.stderr

    fake_process.script(model="o3", hang_after=1)
    process = subprocess.Popen(
        command("consensus", "which?", "-m", "gpt-5", "-m", "o3", "--json"),
        env=env, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        fake_process.wait_for(model="o3", deltas=1)
        (job,) = [
            row["id"]
            for row in json.loads(counsel("jobs", "--json"))["jobs"]
            if row["status"] == "processing"
        ]
        assert counsel("cancel", job, "--member", "o3") == f"Stopped o3 of {job}; the others continue.\n"
        result = json.loads(process.communicate(timeout=60)[0])
    finally:
        process.kill()
        process.wait()
        if not way:
            subprocess.run(
                [sys.executable, "-m", "counsel", "daemon", "stop"], env=env, check=True, timeout=60
            )
    assert [(row["model"], row["code"]) for row in result["phases"]["failed"]] == [("o3", "CANCELLED")]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (-30, "just now"),
        (12, "12 s ago"),
        (119, "1 min ago"),
        (7_199, "1 h ago"),
        (86_400, "1 day ago"),
        (10 * 86_400, "10 days ago"),
    ],
)
def test_times_in_words(seconds: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    assert times.ago(2_000_000_000.0 - seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.84, "0.8 s"), (42.4, "42 s"), (185, "185 s"), (2_520, "42 min"), (19_800, "5.5 h")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert times.took(seconds) == text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 8, "short"),
        ("one two three", 9, "one two…"),
        ("one two three", 8, "one two…"),
        ("unbreakable", 6, "unbre…"),
        ("標題很長", 6, "標題…"),
    ],
)
def test_long_titles_end_between_words(text: str, width: int, expected: str) -> None:
    assert tables.ellipsized(text, width) == expected


@pytest.mark.parametrize("group", ["servers", "skills", "conversations"])
def test_a_group_lists_without_a_verb(env: dict[str, str], tmp_path: Path, group: str) -> None:
    def counsel(*arguments: str) -> tuple[int, str]:
        result = subprocess.run(
            [sys.executable, "-m", "counsel", group, *arguments],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return result.returncode, result.stdout

    assert counsel() == counsel("list")
    assert counsel("--json") == counsel("list", "--json")
    assert counsel()[0] == 0
    assert "Usage:" in counsel("--help")[1]
    assert counsel("frobnicate")[0] == 2
