"""Files and disks that refuse: a clear error, nothing lost, nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.user import User

NO_OWNER = 65534
AGENTS = ("claude", "codex", "gemini", "cursor")


def state(user: User) -> dict[str, bytes]:
    files = (
        path
        for path in user.home.rglob("*")
        if path.is_file() and "counsel" not in path.relative_to(user.home).parts
    )
    return {str(path): path.read_bytes() for path in files}


def prepare(user: User) -> dict[str, bytes]:
    user.counsel("add", "old", "--everywhere", "--", "c")
    return state(user)


@pytest.mark.parametrize("agent", AGENTS)
def test_one_read_only_file_stops_all(agent: str, user: User) -> None:
    before = prepare(user)
    user.file(agent).chmod(0o400)
    reply = user.json("add", "new", "--everywhere", "--", "c", code=1)
    assert reply["code"] == "FILE_NOT_ALLOWED"
    assert reply["file"] == str(user.file(agent))
    assert state(user) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_link_that_loops(agent: str, user: User) -> None:
    before = prepare(user)
    file = user.file(agent)
    del before[str(file)]
    file.unlink()
    file.symlink_to(file)
    reply = user.json("add", "new", "--everywhere", "--", "c", code=1)
    assert "loop" in json.dumps(reply)
    assert state(user) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_folder_in_the_files_place(agent: str, user: User) -> None:
    user.file(agent).mkdir(parents=True)
    reply = user.json("add", "new", "--everywhere", "--", "c", code=1)
    assert "is a folder" in json.dumps(reply)
    assert state(user) == {}


def test_a_file_of_a_hundred_megabytes_is_refused(user: User) -> None:
    file = user.write("gemini", "{}")
    with file.open("ab") as handle:
        handle.truncate(100 * 1024 * 1024)
    assert "FILE_TOO_LARGE" in json.dumps(user.json("add", "new", "-a", "gemini", "--", "c", code=1))
    assert file.stat().st_size == 100 * 1024 * 1024
    assert user.json("list")["problems"][0]["code"] == "FILE_TOO_LARGE"


def counsel(user: User, *args: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """`counsel servers …` in a process of its own, with a limit on the size of files."""

    def prepare_child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "counsel", "servers", *args]
    return subprocess.run(
        command, cwd=user.project, capture_output=True, text=True, check=False, preexec_fn=prepare_child
    )


def test_a_write_that_does_not_fit(user: User) -> None:
    """RLIMIT_FSIZE stops the write of the large file in the middle, like a full disk."""
    user.write("claude", json.dumps({"pad": "x" * 300_000}, indent=2))
    user.counsel("add", "old", "-a", "codex", "--", "c")
    before = state(user)
    process = counsel(user, "add", "new", "--everywhere", "--json", "--", "c", limit=100_000)
    assert process.returncode == 1, process.stderr
    document = json.loads(process.stdout)
    assert "Nothing was changed" in document["error"]
    assert state(user) == before
    assert not list(user.home.rglob("*.counsel-tmp"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_no_success(user: User) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "counsel", "servers", "list", "--json"],
            cwd=user.project,
            stdout=full,
            check=False,
            stderr=subprocess.PIPE,
        )
    assert process.returncode != 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 1 MB, if this machine allows mounting one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(
            "no file system may be mounted here; test_a_write_that_does_not_fit shows the same with a limit"
        )
    return folder


def test_a_full_disk(user: User, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(small_disk))
        file = small_disk / ".claude.json"
        file.write_text(json.dumps({"pad": "x" * 700_000}))
        before = file.read_bytes()
        reply = user.json("add", "new", "--everywhere", "--", "c", code=1)
        assert "disk is full" in reply["error"]
        assert file.read_bytes() == before
        assert sorted(path.name for path in small_disk.iterdir()) == [".claude.json"]
        assert state(user) == {}
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


@contextmanager
def another_user() -> Iterator[None]:
    os.setegid(NO_OWNER)
    os.seteuid(NO_OWNER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="root becomes another user for this; others cannot")
@pytest.mark.parametrize("read_only", ["folder", "file"])
def test_no_permission(read_only: str, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's home in which one file or folder belongs to root."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders cannot be entered by another user
        Path(folder).chmod(0o755)
        user.home, user.project = Path(folder, "home"), Path(folder, "project")
        user.counsel_home = user.home / "counsel"
        user.home.mkdir()
        user.project.mkdir()
        monkeypatch.setenv("HOME", str(user.home))
        monkeypatch.setenv("COUNSEL_HOME", str(user.counsel_home))
        monkeypatch.chdir(user.project)
        file = user.write("gemini", '{"theme": "x"}')
        for path in (user.home, user.project, *user.home.rglob("*")):
            os.chown(path, NO_OWNER, NO_OWNER)
        spoil = file if read_only == "file" else file.parent
        os.chown(spoil, 0, 0)
        spoil.chmod(0o644 if read_only == "file" else 0o755)
        with another_user():
            reply = user.json("add", "new", "--everywhere", "--", "c", code=1)
        assert reply["code"] == "FILE_NOT_ALLOWED"
        assert reply["file"] == str(file)
        assert state(user) == {str(file): b'{"theme": "x"}'}
        monkeypatch.chdir("/")
