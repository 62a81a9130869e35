"""People's commands on PostgreSQL: ids, `last`, completion, history, usage and the doctor."""
# ruff: noqa: F811 - fixtures are imported, and named by the tests

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from cli.test_ids import (  # noqa: F401 - collected again here
    counsel,
    project,
    seeds,
    test_ask_continues_the_newest_conversation_of_this_folder,
    test_cancel_last_means_what_runs_here,
    test_deleting_the_last_one_takes_this_folders,
    test_export_takes_a_beginning,
    test_nothing_is_changed_by_a_few_letters_or_none,
    vendors,
)
from counsel.cli import completers
from support.seeded import seed, seed_calls
from support.stored import usage

if TYPE_CHECKING:
    from cli.test_ids import Run
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.thorough]


@pytest.fixture(autouse=True)
def database(
    request: pytest.FixtureRequest,
    counsel: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """After `counsel`, which removes this machine's variables."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.migrated() as url:
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        yield url


def test_a_unique_beginning_is_enough_for_jobs_and_conversations(
    counsel: Run,
    project: Path,
    tmp_path: Path,
) -> None:
    seed(tmp_path / "home", *seeds(project))
    for name, answer in (
        ("7f3a1", "It is safe."),
        ("7F3A9", "The newest here."),
        ("last", "The newest here."),
    ):
        for command in (("jobs",), ("jobs", "--follow"), ("conversations", "show")):
            result = counsel(*command, name)
            assert (result.code, answer in result.out) == (0, True), (command, name, result)
    assert counsel("jobs", "7f3a").code == 2, "two begin so"
    assert counsel("jobs", "dddd").code == 1, "none begins so"
    assert not (tmp_path / "home" / "counsel.db").exists()


def test_a_command_finds_no_work_of_the_teams_people(
    counsel: Run, project: Path, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    seed(tmp_path / "home", *seeds(project))
    for table in ("jobs", "conversations"):
        postgres_server.execute(f"UPDATE counsel.{table} SET person = 'someone'", "counsel")
    assert completers.jobs(*parameter(), "7f3a") == []
    assert json.loads(counsel("conversations", "list", "--json").out)["conversations"] == []
    assert json.loads(counsel("jobs", "--json", "--standalone").out)["jobs"] == []
    assert counsel("conversations", "show", "9be01").code == 1


def test_the_shell_completes_ids_of_the_database(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project))
    values = {item.value for item in completers.jobs(*parameter(), "7f3a")}
    assert values == {"7f3a1c2d", "7f3a9999"}
    assert "9be01234" in {item.value for item in completers.conversations(*parameter(), "")}


def test_completion_gives_nothing_where_the_database_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for url in ("postgresql://nobody@127.0.0.1:1/none", "not a url"):
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        assert [item.value for item in completers.jobs(*parameter(), "7f")] == []


def parameter() -> tuple[click.Context, click.Parameter]:
    return click.Context(click.Command("jobs")), click.Argument(["job_id"])


def test_lists_search_and_usage_read_the_database(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project))
    assert len(json.loads(counsel("jobs", "--json").out)["jobs"]) == 4
    assert len(json.loads(counsel("conversations", "--json").out)["conversations"]) == 4
    matches = json.loads(counsel("conversations", "search", "newest", "--json").out)["conversations"]
    assert [match["id"] for match in matches] == [seeds(project)[1].conversation_id]
    seed_calls(tmp_path / "home", dataclasses.replace(usage("job_1"), at=time.time()))
    assert json.loads(counsel("usage", "--json").out)["total"]["calls"] == 1


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────


def findings(counsel: Run) -> dict[str, str]:
    document = json.loads(counsel("doctor", "--json").out)
    return {row["what"]: row["level"] for row in document["findings"] if row["area"] == "database"}


def test_the_doctor_looks_at_the_database_that_is_used(counsel: Run, tmp_path: Path) -> None:
    (tmp_path / "home" / "counsel.db").write_bytes(b"")
    ((text, level),) = findings(counsel).items()
    assert (level, "PostgreSQL" in text, "schema" in text) == ("ok", True, True)


def test_the_doctor_says_when_the_database_cannot_be_used(
    counsel: Run,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COUNSEL_DATABASE", "postgresql://someone:hush-hush@127.0.0.1:1/none")
    result = counsel("doctor", "--json")
    assert "hush" not in result.out + result.err
    ((text, level),) = findings(counsel).items()
    assert (level, "cannot be used" in text) == ("problem", True)
    with postgres_server.empty() as url:
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        ((text, level),) = findings(counsel).items()
    assert (level, "no counsel tables" in text) == ("problem", True)


def test_the_doctor_knows_a_budget_that_is_used_up(
    counsel: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed_calls(tmp_path / "home", dataclasses.replace(usage("job_1"), at=time.time(), cost=1.0))
    monkeypatch.setenv("COUNSEL_BUDGET_DAY", "0.0001")
    document = json.loads(counsel("doctor", "--json").out)
    assert [row["level"] for row in document["findings"] if row["area"] == "budgets"] == ["warn"]
