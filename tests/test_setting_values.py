"""Valid values of settings: ranges, units, amounts of money, addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.settings import Settings

MiB = 1024 * 1024
RANGES: list[tuple[str, int, int, int | None]] = [  # default, least, most
    ("request_timeout_ms", 300000, 1, None),
    ("connect_timeout_ms", 10000, 1, None),
    ("first_event_timeout_ms", 240000, 1, None),
    ("idle_timeout_ms", 120000, 1, None),
    ("max_attempts", 3, 1, 3),
    ("panel_size", 3, 2, 20),
    ("max_concurrent", 256, 1, None),
    ("max_concurrent_per_provider", 64, 1, None),
    ("max_answer_bytes", 16 * MiB, 1024, 256 * MiB),
    ("max_prompt_bytes", 16 * MiB, 1024, 256 * MiB),
    ("cache_seconds", 0, 0, None),
    ("max_files", 100, 1, None),
    ("max_images", 20, 1, None),
    ("max_file_bytes", MiB, 1, None),
    ("max_pdf_bytes", 32 * MiB, 1, 256 * MiB),
    ("max_pdf_pages", 500, 1, 10000),
    ("max_image_bytes", 10 * MiB, 1, None),
    ("max_image_pixels", 50000000, 1, None),
    ("conversation_days", 30, 1, None),
    ("job_days", 3, 1, None),
    ("max_database_bytes", 4096 * MiB, 0, None),
    ("concurrency", 64, 0, None),
    ("drain_seconds", 30, 0, None),
    ("client_limit_seconds", 0, 0, None),
    ("model_limit_seconds", 300, 1, None),
    ("port", 3157, 0, 65535),
    ("ready_queue_seconds", 300, 0, None),
    ("probe_port", 0, 0, 65535),
    ("max_connections", 1000, 8, None),
    ("max_output_tokens", 25000, 1000, 200000),
    ("daemon_idle_seconds", 900, 1, None),
    ("audit_days", 400, 1, 3650),
    ("max_depth", 2, 1, 5),
]  # fmt: skip
ROWS = {row.name: row for row in settings.rows()}


def load(home: Path, config: str = "", **env: str) -> Settings:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    return settings.load({"COUNSEL_HOME": str(home), **env})


def test_every_number_has_a_range() -> None:
    assert {name for name, row in ROWS.items() if row.type == "int"} == {name for name, *_ in RANGES}


@pytest.mark.parametrize(("name", "default", "least", "most"), RANGES, ids=[row[0] for row in RANGES])
def test_numbers_outside_of_their_range_are_refused(
    tmp_path: Path, name: str, default: int, least: int, most: int | None
) -> None:
    variable = ROWS[name].metadata["env"]
    assert getattr(load(tmp_path), name) == default
    for value in filter(lambda value: value is not None, (least, most)):
        assert getattr(load(tmp_path, **{variable: str(value)}), name) == value
    span = f"at least {least}" if most is None else f"from {least} to {most}"
    for value in (least - 1, *([most + 1] if most is not None else [])):
        settings = load(tmp_path, **{variable: str(value)})
        assert getattr(settings, name) == default
        (problem,) = settings.problems
        assert f"{name} must be {span}" in problem


def test_switches_are_off_but_one() -> None:
    """Everything that may change files, store people's text or cost money is off by default."""
    assert [name for name, row in ROWS.items() if row.type == "bool" and row.default is True] == [
        "codex_skip_git_check"
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("700", 700),
        ("700b", 700),
        ("3k", 3 * 1024),
        ("3 KiB", 3 * 1024),
        ("500 MB", 500 * MiB),
        ("1.5g", 1536 * MiB),
        (" 2GiB ", 2048 * MiB),
        ("1T", MiB * MiB),
    ],
)
def test_sizes_have_units(tmp_path: Path, text: str, size: int) -> None:
    settings = load(tmp_path, COUNSEL_MAX_DATABASE_BYTES=text)
    assert settings.problems == ()
    assert settings.max_database_bytes == size


@pytest.mark.parametrize("text", ["many", "3 x", "k", "1..5g", "-1g", "true"])
def test_what_is_no_size_is_refused(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, COUNSEL_MAX_DATABASE_BYTES=text)
    assert len(settings.problems) == 1
    assert settings.max_database_bytes == 4096 * MiB


@pytest.mark.parametrize(
    ("text", "amount"),
    [("5", "5"), ("2.50", "2.5"), ("$5", "5"), (" 5 USD ", "5"), (".5", "0.5"), ("5.", "5"), ("7$", "7"), ("0", "0"),
     ("1e9", None), ("1000000000", "1000000000"), ("1000000001", None), ("-1", None), ("five", None), ("5 EUR", None)],
)  # fmt: skip
def test_amounts_of_money(tmp_path: Path, text: str, amount: str | None) -> None:
    settings = load(tmp_path, COUNSEL_BUDGET_DAY=text)
    if amount is None:  # without a limit, a typing mistake would cost money
        assert settings.budget_day == "0"
        assert "US dollars" in " ".join(settings.problems)
    else:
        assert (settings.budget_day, settings.problems) == (amount, ())


@pytest.mark.parametrize(("value", "amount"), [("5", 5.0), ("2.5", 2.5), ("true", 0.0), ("'$3'", 3.0)])
def test_a_providers_budget_of_the_file(tmp_path: Path, value: str, amount: float) -> None:
    settings = load(tmp_path, f"[budgets.OpenAI]\nday = {value}\n")
    (budget,) = settings.provider_budgets
    assert (budget.provider, budget.period, budget.usd) == ("openai", "day", amount)
    assert budget.source == f"{tmp_path / 'config.toml'}: budgets.OpenAI.day"
    assert bool(settings.problems) == (value == "true")


def test_a_providers_budget_of_the_environment_wins_and_keeps_the_name_of_the_file(tmp_path: Path) -> None:
    config = "[budgets.my-proxy]\nday = 5\nmonth = 50\n"
    settings = load(
        tmp_path,
        config,
        COUNSEL_BUDGET_DAY_MY_PROXY="7",
        COUNSEL_BUDGET_MONTH_XAI="9",
        COUNSEL_BUDGET_DAY_EMPTY="",
    )
    assert {(budget.provider, budget.period): budget.usd for budget in settings.provider_budgets} == {
        ("my-proxy", "day"): 7,
        ("my-proxy", "month"): 50,
        ("xai", "month"): 9,
    }
    assert "environment variable COUNSEL_BUDGET_MONTH_XAI" in [
        budget.source for budget in settings.provider_budgets
    ]


def test_a_budget_of_another_period_is_named(tmp_path: Path) -> None:
    settings = load(tmp_path, "[budgets.xai]\nday = 1\nyear = 5\n[budgets]\nopenai = 3\n")
    assert settings.provider_budgets == ()
    assert any("day, month or both" in problem for problem in load(
        tmp_path, "[budgets.xai]\nday = 1\nyear = 5\n"
    ).problems)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://Counsel.example/", "https://counsel.example"),
        (" http://10.0.0.1:8080 ", "http://10.0.0.1:8080"),
        ("https://[::1]:8", "https://[::1]:8"),
        ("https://counsel.example/path", ""),
        ("counsel.example", ""),
        ("ftp://counsel.example", ""),
        ("https://user@counsel.example", ""),
    ],
)
def test_an_address_has_no_path(tmp_path: Path, text: str, address: str) -> None:
    settings = load(tmp_path, COUNSEL_PUBLIC_URL=text)
    assert settings.public_url == address
    assert bool(settings.problems) == (not address)


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ("max_attempts = true", "max_attempts", 3),
        ("max_attempts = 2.5", "max_attempts", 3),
        ("log_level = 'DEBUG'", "log_level", "debug"),
        ("log_level = 'loud'", "log_level", "info"),
        ("default_effort = ''", "default_effort", ""),
        ("host = '  ::1 '", "host", "::1"),
        ("host = 3", "host", "127.0.0.1"),
        ("traces = 'Yes '", "traces", True),
        ("traces = 1", "traces", False),
        ("cors_origins = ['a', 'b']", "cors_origins", ("a", "b")),
        ("cors_origins = 'a, b,'", "cors_origins", ("a", "b")),
        ("cors_origins = ['a', 3]", "cors_origins", ()),
        ("budget_month = 2.5", "budget_month", "2.5"),
    ],
)
def test_values_of_the_file(tmp_path: Path, config: str, name: str, value: Any) -> None:
    assert getattr(load(tmp_path, config + "\n"), name) == value
