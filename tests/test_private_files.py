"""COUNSEL_HOME and everything in it is private to the user, whichever interface created it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from counsel import paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_missing_folder_gets_the_mode(tmp_path: Path) -> None:
    paths.private_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3
    paths.private_folder(tmp_path / "a")


def test_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(OSError, match="a"):
        paths.private_folder(tmp_path / "a")
    with pytest.raises(OSError, match="a"):
        paths.private_folder(tmp_path / "a" / "b")


def test_a_process_with_keys_leaves_no_core_file_and_may_open_many() -> None:
    script = (
        "import resource as r; from counsel.daemon.process_limits import prepare_process; _, hard = r.getrlimit(r.RLIMIT_NOFILE)\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, hard)); prepare_process()\n"
        "assert r.getrlimit(r.RLIMIT_CORE)[0] == 0; assert r.getrlimit(r.RLIMIT_NOFILE)[0] == min(8192, hard)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "command",
    [
        "jobs --standalone",
        "conversations list",
        "servers add x --agent claude -- npx",
        "doctor",
        "stdio",
        "daemon status",
    ],
)
def test_no_command_leaves_anything_open_to_others(command: str, tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COUNSEL_HOME": str(home)}
    program = [sys.executable, "-m", "counsel"]
    subprocess.run(
        [*program, *command.split()], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    subprocess.run(
        [*program, "daemon", "stop"], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if home.exists():
        open_ = [str(path) for path in (home, *home.rglob("*")) if path.exists() and mode(path) & 0o077]
        assert open_ == []
