"""Owners' locked files within one process: fast, unlike the tests with processes in `test_ownership.py`."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from counsel.engine.jobs import ownership, process_identity
from counsel.engine.jobs.ownership import NO_OWNER, TRIES, Ownership


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "owners"


@pytest.fixture
def us(folder: Path) -> Iterator[Ownership]:
    us = Ownership(folder)
    yield us
    us.release()


def name_of(process: process_identity.Process) -> str:
    return f"{process.name()}-abcdef"


def live_process() -> process_identity.Process:
    """A running process: our parent."""
    pid = os.getppid()
    return replace(process_identity.current(), pid=pid, start=process_identity.started(pid) or "")


def dead_process() -> process_identity.Process:
    child = subprocess.Popen(["true"])
    child.wait()
    return replace(process_identity.current(), pid=child.pid, start="5")


def lock_file(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_an_owner_has_a_private_locked_file_of_its_name(us: Ownership, folder: Path) -> None:
    assert [entry.name for entry in folder.iterdir()] == [us.name]
    assert stat.S_IMODE((folder / us.name).stat().st_mode) == 0o600
    assert ownership.is_free(us._folder / us.name) is False
    assert process_identity.parse(us.name.rpartition("-")[0]) == process_identity.current()


def test_an_owner_in_this_process_is_alive_until_it_releases(folder: Path, us: Ownership) -> None:
    second = Ownership(folder)
    assert us.state(second.name) == "alive"
    second.release()
    assert us.state(second.name) == "dead"
    assert not (folder / second.name).exists()
    second.release()  # twice is harmless


def test_a_job_without_an_owner_counts_as_dead(us: Ownership) -> None:
    assert us.state(NO_OWNER) == "dead"
    assert us.dead(NO_OWNER)


def test_without_its_file_an_owner_is_as_alive_as_its_process(us: Ownership) -> None:
    assert us.state(name_of(live_process())) == "alive"
    assert us.state(name_of(dead_process())) == "dead"
    assert us.state(name_of(replace(live_process(), machine="elsewhere"))) == "unknown"
    assert us.state("nonsense") == "unknown"
    assert not us.dead("nonsense")


def test_a_free_file_is_proof_of_death_only_where_the_process_does_not_run(
    us: Ownership, folder: Path
) -> None:
    for process, life in (
        (live_process(), "alive"),
        (dead_process(), "dead"),
        (replace(live_process(), machine="elsewhere"), "dead"),
    ):
        (folder / name_of(process)).touch()
        assert us.state(name_of(process)) == life
    (folder / "nonsense").touch()
    assert us.state("nonsense") == "dead"


def test_a_locked_file_is_proof_of_life(us: Ownership, folder: Path) -> None:
    lock = lock_file(folder / "nonsense")
    assert us.state("nonsense") == "alive"
    os.close(lock)
    assert us.state("nonsense") == "dead"


def test_a_link_in_place_of_the_file_proves_nothing(us: Ownership, folder: Path) -> None:
    (folder / "target").touch()
    (folder / "nonsense").symlink_to(folder / "target")
    assert us.state("nonsense") == "unknown"


def test_a_removed_file_is_recreated_after_a_while_and_not_at_once(us: Ownership, folder: Path) -> None:
    us.hold()
    (folder / us.name).unlink()
    for _ in range(TRIES - 1):
        us.hold()
        assert not (folder / us.name).exists()
    us.hold()
    assert ownership.is_free(us._folder / us.name) is False
    assert [entry.name for entry in folder.iterdir()] == [us.name]


def test_a_check_that_finds_the_file_resets_the_count(us: Ownership, folder: Path) -> None:
    away = folder.parent / "away"
    for _ in range(3):
        (folder / us.name).rename(away)
        for _ in range(TRIES - 1):
            us.hold()
        away.rename(folder / us.name)
        us.hold()
    assert ownership.is_free(us._folder / us.name) is False


def test_a_file_that_could_not_be_created_is_created_as_soon_as_possible(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "owners"
    folder.parent.mkdir()
    folder.write_text("in the way")
    us = Ownership(folder)
    assert us._lock is None
    folder.unlink()
    us.hold()
    assert ownership.is_free(us._folder / us.name) is False
    us.release()


def test_release_leaves_a_file_that_is_no_longer_ours(folder: Path) -> None:
    us = Ownership(folder)
    (folder / us.name).unlink()
    (folder / us.name).write_text("somebody's")
    us.release()
    assert (folder / us.name).read_text() == "somebody's"


def test_tidying_removes_only_dead_owners_without_jobs(us: Ownership, folder: Path) -> None:
    dead, job_owner, alive = (
        name_of(dead_process()),
        f"{dead_process().name()}-needed",
        name_of(live_process()),
    )
    for name in (dead, f".{dead}", job_owner, alive):
        (folder / name).touch()
    us.tidy({job_owner})
    assert {entry.name for entry in folder.iterdir()} == {us.name, job_owner, alive}


def test_tidying_where_there_is_no_folder_does_nothing(us: Ownership, folder: Path) -> None:
    (folder / us.name).unlink()
    folder.rmdir()
    us.tidy(set())
    assert us.name in ownership._LOCAL_OWNERS
