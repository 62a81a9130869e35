"""Tokens and costs as people read them: unknown is `?`, tiny is readable, `+` is explained."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from counsel import amounts, answer_notes
from counsel.cli.questions import ask_options
from counsel.engine.store import open_store
from counsel.engine.store.records import UsageRecord
from counsel.mcp import render
from counsel.results import AnswerMetadata, ChatResult, ConsensusResult, Continuation, Totals
from counsel.results.consensus import ConsensusSettings
from counsel.types import Usage
from support.pty_screen import in_terminal
from support.user import User


@pytest.mark.parametrize(
    ("usd", "complete", "expected"),
    [
        (None, True, "?"),
        (None, False, "?"),
        (0.0, True, "$0"),
        (0.0, False, "?"),
        (0.000004, True, "<$0.0001"),
        (0.0042, True, "$0.0042"),
        (0.5, False, "$0.5000+"),
        (12.3, True, "$12.30"),
        (1234.5, False, "$1,234.50+"),
    ],
)
def test_how_costs_are_written(usd: float | None, complete: bool, expected: str) -> None:
    assert amounts.dollars(usd, complete=complete) == expected


@pytest.mark.parametrize(
    ("provider", "name", "expected"),
    [
        ("openai", "gpt-5", "openai/gpt-5"),
        ("openai", "openai/gpt-7-preview", "openai/gpt-7-preview"),
        ("codex", "codex", "codex"),
        ("codex", "codex:gpt-5", "codex:gpt-5"),
        ("", "gpt-5", "gpt-5"),
        ("openrouter", "openai/gpt-5", "openrouter/openai/gpt-5"),
    ],
)
def test_a_model_has_its_provider_once(provider: str, name: str, expected: str) -> None:
    assert amounts.model(provider, name) == expected


def answer(usage: Usage, cost: float | None) -> ChatResult:
    metadata = AnswerMetadata(
        model="gpt-5",
        provider="openai",
        usage=usage,
        cost_usd=cost,
        response_time_ms=1200,
        finish_reason="stop",
    )
    return ChatResult(
        content="yes", continuation=Continuation(id="conv_1"), metadata=metadata, job_id="job_1"
    )


def test_usage_warns_of_a_wrong_setting_once(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNSEL_BUDGET_DAY", "five")
    user.command = "usage"
    user.counsel()
    assert user.err.count("warning: environment variable COUNSEL_BUDGET_DAY") == 1


@pytest.mark.parametrize("cost", [None, 0.0])
def test_an_answer_without_usage_has_unknown_tokens_and_cost(cost: float | None) -> None:
    result = answer(Usage(), cost)
    assert ask_options.footer(result).startswith("openai/gpt-5 · ? tokens · cost ? · 1.2 s")
    assert "openai/gpt-5 · ? tokens · cost ? · 1.2 s" in render.text(result)


def test_an_answer_says_what_it_cost() -> None:
    assert "12 → 3 tokens · <$0.0001" in ask_options.footer(answer(Usage(input=12, output=3), 0.00001))
    assert "~12 → ~3 tokens · $0 ·" in ask_options.footer(
        answer(Usage(input=12, output=3, estimated=True), 0.0)
    )


def test_the_footer_of_a_consensus_explains_its_plus() -> None:
    totals = Totals.of([Usage(input=5, output=5, cost_usd=0.01), Usage(input=5, output=5)])
    result = ConsensusResult(
        status="consensus_complete",
        models_consulted=2,
        initial=(),
        refined=(),
        failed=(),
        continuation=Continuation(id="consensus_1"),
        settings=ConsensusSettings(enable_cross_feedback=True, temperature=0.2, models_requested=("a", "b")),
        metadata=totals,
        job_id="job_1",
    )
    assert "$0.0100+ · +: at least, some prices are not known" in answer_notes.footer(result, "-c")


# ── `counsel usage` ──────────────────────────────────────────────────────────────────────────────────


def call(
    provider: str, model: str, tokens: int, cost: float | None, code: str = "", **fields: Any
) -> UsageRecord:
    at = fields.get("at", time.time() - 60)
    return UsageRecord(at, "job", "chat", provider, model, "cli", 900, code, tokens, tokens, 0, 0, 0, cost)


CALLS = (
    call("openai", "openai/gpt-7-preview", 1_000, None),
    call("openai", "gpt-5", 100, 0.000002),
    call("codex", "codex", 0, None),
    call("anthropic", "claude-sonnet-4-5-20250929", 2_000_000, 12.5),
    call("anthropic", "claude-sonnet-4-5-20250929", 0, None),
    call("xai", "grok-4", 0, 0.0, "TIMEOUT"),
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COUNSEL_HOME": str(home), "TZ": "UTC"}


def record(home: Path, *calls: UsageRecord) -> None:
    async def write() -> None:
        store = open_store(home)
        for usage in calls:
            await store.record_usage(usage)
        await store.close()

    asyncio.run(write())


@pytest.mark.parametrize("columns", [80, 140])
def test_usage_fits_the_terminal_and_explains_its_marks(
    env: dict[str, str], tmp_path: Path, columns: int
) -> None:
    record(tmp_path / "home", *CALLS)
    screen = in_terminal("usage", env=env, cwd=tmp_path, columns=columns)
    assert screen.code == 0
    assert max(map(len, screen.lines)) <= columns
    rows = {line.split()[0]: line.split()[1:] for line in screen.lines}
    assert len(rows["openai/gpt-7-preview"]) > 5, "one line"
    assert "openai/openai" not in screen.text
    assert "$0.0000" not in screen.text
    assert "<$0.0001" in rows["openai/gpt-5"]
    assert rows["codex"].count("?") == 3  # in, out, cost
    assert "$12.50+" in rows["anthropic/claude-sonnet-4-5-20250929"]
    assert rows["anthropic/claude-sonnet-4-5-20250929"].count("2M+" if columns == 80 else "2,000,000+") == 2
    assert "the price of 3 calls is unknown and not in the sum" in screen.text
    assert "2 calls did not report tokens" in screen.text


def test_days_are_local_for_people_and_utc_in_json(env: dict[str, str], tmp_path: Path) -> None:
    now = time.time()
    late = now - now % 86_400 - 1  # a second before midnight, UTC
    record(tmp_path / "home", call("openai", "gpt-5", 1, 0.1, at=late))
    day, tomorrow = (time.strftime("%Y-%m-%d", time.gmtime(at)) for at in (late, late + 2))
    command = [sys.executable, "-m", "counsel", "usage", "--by", "day", "--since", "3d"]
    env["TZ"] = "EAST-5"  # five hours ahead
    people = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout
    document = subprocess.run(
        [*command, "--json"], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert people.splitlines()[1].startswith(tomorrow)
    assert f'"day": "{day}"' in document.stdout


def test_usage_shows_what_is_left_of_each_budget(env: dict[str, str], tmp_path: Path) -> None:
    now = time.time()
    record(tmp_path / "home", call("openai", "gpt-5", 1, 1.5, at=now), call("xai", "grok-4", 1, 1.0, at=now))
    env |= {"COUNSEL_BUDGET_DAY": "2", "COUNSEL_BUDGET_MONTH_OPENAI": "10"}
    screen = in_terminal("usage", env=env, cwd=tmp_path, columns=80)
    rows = {line.split()[0]: line.split() for line in screen.lines if line.split()}
    assert rows["day"][1:5] == ["$2.00", "$2.50", "$0", "$0"]
    assert rows["month:openai"][1:5] == ["$10.00", "$1.50", "$0", "$8.50"]
    assert "no budget counts them" in screen.text
    assert max(map(len, screen.lines)) <= 80
    command = [sys.executable, "-m", "counsel", "usage", "--json"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    day, month = json.loads(result.stdout)["budgets"]
    assert (day["budget"], day["left_usd"], month["provider"], month["left_usd"]) == ("day", 0, "openai", 8.5)
    assert day["until"].endswith("T00:00:00+00:00")


def test_doctor_names_a_budget_that_is_used_up(env: dict[str, str], tmp_path: Path) -> None:
    record(tmp_path / "home", call("openai", "gpt-5", 1, 1.5, at=time.time()))
    env |= {"COUNSEL_BUDGET_DAY": "1", "COUNSEL_BUDGET_MONTH": "100", "COUNSEL_BUDGET_DAY_OPENIA": "1"}
    command = [sys.executable, "-m", "counsel", "doctor", "--json"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    findings = json.loads(result.stdout)["findings"]
    (used_up,) = [row for row in findings if row["area"] == "budgets" and "used up" in row["what"]]
    assert used_up["level"] == "warn"
    assert "the day's budget of $1.00 is used up: $1.50 spent" in used_up["what"]
    assert "raise COUNSEL_BUDGET_DAY" in used_up["todo"]
    assert any("there is no provider 'openia'" in row["what"] for row in findings)
