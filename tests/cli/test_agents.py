"""`counsel agents` and `counsel images`, as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


def run(*argv: str, cwd: Path, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    base = {
        "HOME": str(home),
        "COUNSEL_HOME": str(home / "counsel"),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.defpath}",
    }
    return subprocess.run(
        [sys.executable, "-m", "counsel", *argv],
        cwd=cwd,
        env={**base, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def rows(home: Path, project: Path, **env: str) -> dict[str, Any]:
    result = run("agents", "--json", cwd=project, home=home, **env)
    assert result.returncode == 0, result.stderr
    return {row["agent"]: row for row in json.loads(result.stdout)["agents"]}


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_agents_of_an_empty_machine(home: Path, project: Path) -> None:
    result = rows(home, project)
    assert list(result) == ["claude", "codex", "gemini", "cursor", "opencode"]
    assert not any(row["installed"] or row["usable"] for row in result.values())
    assert all(row["install"] for row in result.values())


def test_agents_are_looked_at_and_not_started(home: Path, project: Path) -> None:
    start_log = home / "started"
    program(home / "bin" / "claude", f'echo "$@" >> {start_log}; echo "2.1.325 (Claude Code)"')
    (home / ".claude.json").write_text("{}")
    for _ in range(2):  # the second time the version is remembered
        row = rows(home, project, ANTHROPIC_API_KEY="k")["claude"]
        assert (row["installed"], row["version"], row["logged_in"]) == (True, "2.1.325", True)
        assert row["config_files"] == [str(home / ".claude.json")]
    assert start_log.read_text() == "--version\n"


def test_servers_and_skills_are_counted(home: Path, project: Path) -> None:
    server = {"type": "stdio", "command": "true", "args": [], "env": {}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"one": server, "two": server}}))
    skill = home / ".claude" / "skills" / "neat"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: neat\ndescription: Be neat.\n---\nBe neat.\n")
    result = rows(home, project)
    assert (result["claude"]["servers"], result["claude"]["skills"]) == (2, 1)
    assert (result["gemini"]["servers"], result["gemini"]["skills"]) == (0, 0)


def test_a_broken_config_file_hides_nothing(home: Path, project: Path) -> None:
    (home / ".claude.json").write_text("{ not json")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("= broken")
    assert list(rows(home, project)) == ["claude", "codex", "gemini", "cursor", "opencode"]


def test_a_program_that_hangs_does_not_hang_the_list(home: Path, project: Path) -> None:
    program(home / "bin" / "codex", "exec sleep 600")
    row = rows(home, project)["codex"]
    assert (row["installed"], row["version"], row["logged_in"]) == (True, None, False)


@pytest.mark.parametrize("verb", [(), ("list",)])
def test_agents_for_people(home: Path, project: Path, verb: tuple[str, ...]) -> None:
    program(home / "bin" / "claude", "echo 2.1.325")
    program(home / "bin" / "gemini", "echo 0.61.0")
    (home / ".claude.json").write_text("{}")
    result = run("agents", *verb, cwd=project, home=home, ANTHROPIC_API_KEY="k")
    table = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert table["claude"].split() == [
        *("claude", "2.1.325", "yes", "0", "0", "~/bin/claude", "~/.claude.json")
    ]
    assert "no: gemini" in table["gemini"]
    assert "npm install -g @openai/codex" in table["codex"]
    assert run("agents", "lst", cwd=project, home=home).returncode == 2


@pytest.fixture
def image_path(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "red.dat"  # the name says nothing about the content
    path.parent.mkdir()
    Image.new("RGB", (4, 3), "red").save(path, "PNG")
    return path


@pytest.mark.parametrize(
    "command", ["agents", "setup --dry-run", "ask hi", "servers list", "images add x.png"]
)
def test_a_folder_that_is_gone_is_reported(command: str, home: Path, project: Path) -> None:
    counsel = f'rmdir "{project}" && exec "{sys.executable}" -m counsel {command}'
    env = {"HOME": str(home), "COUNSEL_HOME": str(home / "counsel"), "PATH": os.defpath}
    result = subprocess.run(
        ["/bin/sh", "-c", counsel],
        cwd=project,
        env={**env, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "The current folder no longer exists." in result.stderr


def test_images_add(home: Path, project: Path, image_path: Path) -> None:
    result = run("images", "add", str(image_path), cwd=project, home=home)
    assert result.returncode == 0, result.stderr
    path = Path(result.stdout.strip())
    assert path.parent == project / ".counsel" / "assets"
    assert path.read_bytes() == image_path.read_bytes()
    again = run("images", "add", "--json", str(image_path), str(image_path), cwd=project, home=home)
    first, second = json.loads(again.stdout)["images"]
    assert first == second
    assert (first["path"], first["width"], first["height"], first["media_type"]) == (
        str(path),
        4,
        3,
        "image/png",
    )
    assert first["file"] == str(image_path)


def test_images_add_keeps_all_or_none(home: Path, project: Path, image_path: Path) -> None:
    result = run(
        "images", "add", str(image_path), str(image_path.parent / "gone.png"), cwd=project, home=home
    )
    assert result.returncode == 1
    assert "gone.png" in result.stderr
    assert not (project / ".counsel").exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"<svg onload='x()'/>", "INVALID_ARGUMENT"),
        (b"\x89PNG\r\n\x1a\n broken", "INVALID_ARGUMENT"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 200_000, "FILE_TOO_LARGE"),
    ],
)
def test_images_add_refuses(content: bytes, code: str, home: Path, project: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    result = run(
        *("images", "add", "--json", str(tmp_path / "bad.png")),
        cwd=project,
        home=home,
        COUNSEL_MAX_IMAGE_BYTES="100000",
    )
    assert result.returncode == 1
    assert json.loads(result.stdout)["code"] == code
    assert not (project / ".counsel").exists()
