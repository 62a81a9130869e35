"""A COUNSEL_HOME that cannot be created: every command says so and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counsel import paths, run_paths, settings

HOMES = {
    "file": "is a file, not a folder",
    "below a file": "is a file, not a folder",
    "dangling link": "is a link to something that does not exist",
    "relative": "it must be an absolute path",
    "unknown user": "there is no user nobody-has-this-name",
    "long name": "it cannot be opened (File name too long)",
    "long path": "it cannot be opened (File name too long)",
    "/proc": "no folder can be made in /proc",
}


def home(kind: str, tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    return {
        "file": f"{tmp_path}/file",
        "below a file": f"{tmp_path}/file/a/b",
        "dangling link": f"{tmp_path}/link",
        "relative": "some/folder",
        "unknown user": "~nobody-has-this-name/counsel",
        "long name": f"{tmp_path}/{'x' * 300}",
        "long path": f"{tmp_path}/{'x/' * 2500}",
        "/proc": "/proc/counsel/home",
    }[kind]


def counsel(tmp_path: Path, home: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COUNSEL_HOME": home}
    command = [sys.executable, "-m", "counsel", *arguments]
    return subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60, input=stdin
    )


@pytest.mark.parametrize("kind", HOMES)
def test_the_problem_is_named_in_one_sentence_and_nothing_is_created(tmp_path: Path, kind: str) -> None:
    problem = run_paths.home_problem({"HOME": "/h", "COUNSEL_HOME": home(kind, tmp_path)})
    assert problem.startswith("COUNSEL_HOME is ")
    assert HOMES[kind] in problem
    assert len(problem) < 400
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_a_folder_whose_parent_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    problem = run_paths.home_problem({"COUNSEL_HOME": f"{tmp_path}/a/b"})
    assert f"no folder can be made in {tmp_path}." in problem


@pytest.mark.parametrize("value", ["", "${COUNSEL_HOME}"])
def test_an_empty_or_unexpanded_variable_means_the_default(tmp_path: Path, value: str) -> None:
    env = {"HOME": str(tmp_path), "COUNSEL_HOME": value}
    assert run_paths.home_problem(env) == ""
    assert settings.default_home(env) == tmp_path / ".local/share/counsel"


def test_folders_that_exist_or_can_be_made_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "a" / "b", tmp_path / "link", tmp_path / "link" / "c"):
        assert run_paths.home_problem({"COUNSEL_HOME": str(path)}) == ""


def test_the_default_folder_is_used_as_far_as_it_can_be(tmp_path: Path) -> None:
    """The launcher passes it to the daemon."""
    (tmp_path / ".local").write_text("")
    default = str(tmp_path / ".local/share/counsel")
    assert run_paths.home_problem({"HOME": str(tmp_path), "COUNSEL_HOME": default}) == ""


def test_making_a_folder_ends_where_none_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        paths.private_folder("/proc/counsel/home")
    with pytest.raises(OSError, match="too long"):
        paths.private_folder(f"{tmp_path}/{'y/' * 3_000}")


def test_a_folder_may_be_deeper_than_pythons_stack(tmp_path: Path) -> None:
    deep = tmp_path / ("x/" * 1_500)
    paths.private_folder(deep)
    assert deep.is_dir()
    for folder in (deep, *deep.parents)[:1_500]:  # pytest could not delete them
        folder.rmdir()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "models",
        "jobs",
        "ask hi",
        "consensus hi",
        "conversations list",
        "usage",
        "agents",
        "servers list",
        "skills list",
        "setup --dry-run",
        "daemon status",
        "demo",
        "serve --port 0",
        "serve --transport stdio",
    ],
)
def test_every_command_fails_with_what_to_do(tmp_path: Path, command: str) -> None:
    process = counsel(tmp_path, home("/proc", tmp_path), *command.split())
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.splitlines() == [
        "error: COUNSEL_HOME is /proc/counsel/home: it does not exist, and no folder can be made in /proc.",
        "  Set COUNSEL_HOME to a folder that you can write to, or unset it to use the default.",
    ]


def test_programs_get_it_as_json_and_help_is_still_shown(tmp_path: Path) -> None:
    process = counsel(tmp_path, home("file", tmp_path), "models", "--json")
    assert json.loads(process.stdout)["code"] == "CONFIG_INVALID"
    assert counsel(tmp_path, str(tmp_path / "file"), "models", "--help").returncode == 0


@pytest.mark.parametrize("options", [[], ["--standalone"]])
def test_an_mcp_client_gets_it_as_the_answer_to_its_handshake(tmp_path: Path, options: list[str]) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    lines = ["no json", json.dumps({"jsonrpc": "2.0", "method": "notifications/x"}), json.dumps(request)]
    process = counsel(
        tmp_path, home("dangling link", tmp_path), "stdio", *options, stdin="\n".join(lines) + "\n"
    )
    assert process.returncode == 1
    answer = json.loads(process.stdout)
    assert (answer["id"], "COUNSEL_HOME" in answer["error"]["message"]) == (1, True)
    assert "unset it" in answer["error"]["message"]
    assert "COUNSEL_HOME" in process.stderr


def test_the_daemon_does_not_start_and_says_why(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COUNSEL_HOME": home("file", tmp_path)}
    command = [sys.executable, "-m", "counsel.daemon.main", "--foreground"]
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 1
    assert process.stderr.startswith("COUNSEL_HOME is ")
    assert "unset it" in process.stderr


def test_doctor_shows_it_as_a_problem(tmp_path: Path) -> None:
    for kind in ("file", "dangling link", "/proc", "relative", "long path"):
        (tmp_path / kind.strip("/")).mkdir()
        process = counsel(tmp_path, home(kind, tmp_path / kind.strip("/")), "doctor", "--json")
        assert process.returncode == 1, kind
        problems = [row for row in json.loads(process.stdout)["findings"] if row["level"] == "problem"]
        assert [row["area"] for row in problems] == ["home"], problems
        assert "unset it" in problems[0]["todo"]
