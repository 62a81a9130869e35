"""`counsel completion`: in the shells themselves; completing reads files, and starts nothing."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.seeded import Seed, seed

pytestmark = pytest.mark.thorough  # left out of `make check`

TITLE = "Is it safe,\n\x1b[31mreally?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    seed(
        tmp_path / "home",
        Seed("7f3a1c2d", "9be01234", folder, TITLE, age=100),
        Seed("8f3a1c2d", "my-review", folder, "Another one", age=200),
    )
    (tmp_path / ".claude.json").write_text(
        '{"mcpServers": {"weather": {"command": "w"}, "docs:search": {"command": "d"}}}'
    )
    config = tmp_path / "home" / "config.toml"
    config.write_text('[panels]\narchitecture = ["gpt-5", "opus"]\n')
    skill = tmp_path / ".claude" / "skills" / "brewing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: brewing\ndescription: How to brew tea.\n---\nBoil.\n")
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """With a `counsel` on the PATH."""
    program = tmp_path / "bin" / "counsel"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m counsel "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "sk-test-000000000000000000000000",
        "LC_ALL": "C.UTF-8",
    }


WORDS = (
    ("counsel comp", {"completion"}),
    ("counsel jobs ", {"last", "7f3a1c2d", "8f3a1c2d"}),
    ("counsel jobs 7f", {"7f3a1c2d"}),
    ("counsel jobs job_7", {"job_7f3a1c2d-0000-4000-8000-000000000000"}),
    ("counsel cancel ", {"last"}),
    ("counsel conversations show ", {"last", "9be01234", "my-review"}),
    ("counsel conversations delete my-review 9be0", {"9be01234"}),
    ("counsel ask x -c my", {"my-review"}),
    ("counsel consensus x --continue conv_", {"conv_9be01234-0000-4000-8000-000000000000"}),
    ("counsel servers show wea", {"weather"}),
    ("counsel ask x --tool wea", {"weather"}),
    ("counsel skills show brew", {"brewing"}),
    ("counsel servers list --agent cod", {"codex"}),
    ("counsel ask -m gpt-5-mi", {"gpt-5-mini"}),
    ("counsel consensus -m gpt-5,@arch", {"gpt-5,@architecture"}),
    ("counsel setup --agent claude,cod", {"claude,codex"}),
    ("counsel completion z", {"zsh"}),
)


def test_bash_completes(env: dict[str, str], project: Path) -> None:
    lines = ['eval "$(counsel completion bash)"']
    for words, _ in WORDS:
        parts = " ".join(f"'{word}'" for word in words.split(" "))
        lines += [
            f"COMP_WORDS=({parts}); COMP_CWORD={words.count(' ')}; COMPREPLY=()",
            '_counsel_completion counsel; echo "== ${COMPREPLY[*]}"',
        ]
    result = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        env=env, cwd=project, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    candidates = [set(line.removeprefix("== ").split()) for line in result.stdout.splitlines()]
    assert candidates == [names for _, names in WORDS]


@pytest.mark.parametrize(
    ("line", "completion"),
    [
        ("counsel servers show docs:se", "arch"),
        ("counsel servers show docs:", "search"),
        ("counsel  servers   show do", "cs:search"),
        ("counsel ask x --tool=docs:se", "arch"),
        ("counsel ask -m gpt-5-mi", "ni"),
        ("counsel consensus -m @arch", "itecture"),
    ],
)
def test_bash_completes_on_its_command_line(
    env: dict[str, str], project: Path, line: str, completion: str
) -> None:
    """bash splits words at colons and equals signs before a completion sees them."""
    with on_a_terminal(["bash", "--norc", "--noprofile", "-i"], env, project) as master:
        os.write(
            master,
            b'bind \'set enable-bracketed-paste off\'; eval "$(counsel completion bash)"; echo re""ady\n',
        )
        until(master, b"ready", b"type here> ")
        os.write(master, f"{line}\t".encode())
        until(master, f"{line}{completion}".encode())


@contextmanager
def on_a_terminal(command: list[str], env: dict[str, str], project: Path) -> Iterator[int]:
    master, slave = os.openpty()
    shell = subprocess.Popen(
        command,
        env={**env, "TERM": "dumb", "PS1": "type here> "},
        cwd=project,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield master
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_with_titles(env: dict[str, str], project: Path) -> None:
    lines = ["counsel completion fish | source", *(f"complete -C '{words}'; echo ==" for words, _ in WORDS)]
    result = subprocess.run(
        ["fish", "--no-config", "-c", "\n".join(lines)],
        env=env, cwd=project, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    parts = result.stdout.split("==\n")
    assert [{line.split("\t")[0] for line in part.splitlines()} for part in parts[:-1]] == [
        names for _, names in WORDS
    ]
    assert "7f3a1c2d\tIs it safe, [31mreally?" in parts[1]
    assert "\x1b" not in result.stdout


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes_on_its_command_line(env: dict[str, str], project: Path) -> None:
    with on_a_terminal(["zsh", "-f", "-i"], env, project) as master:
        setup = 'unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; eval "$(counsel completion zsh)"; echo re""ady\n'
        os.write(master, setup.encode())
        until(master, b"ready", b"type here> ")  # before its prompt, zsh does not read keys
        os.write(
            master, b"echo counsel jobs 7f\x01\x04\x04\x04\x04\x04\x05\t"
        )  # without `echo `, at the end, complete
        until(master, b"3a1c2d")


def until(source: int, *parts: bytes, seconds: float = 60.0) -> None:
    """Read until these parts have arrived, in this order."""
    pattern = re.compile(b".*".join(map(re.escape, parts)), re.DOTALL)
    data, limit = b"", time.monotonic() + seconds
    while not pattern.search(data):
        assert time.monotonic() < limit, data
        if select.select([source], [], [], 0.5)[0]:
            data += os.read(source, 65536)


def test_each_script_says_how_to_install_it(env: dict[str, str], tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        result = subprocess.run(
            ["counsel", "completion", shell],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert f"counsel completion {shell}" in result.stdout.splitlines()[1]
        assert all(line.startswith("#") for line in result.stdout.splitlines()[:2])
    assert not (tmp_path / "home").exists()
    wrong = subprocess.run(
        ["counsel", "completion", "tcsh"], env=env, capture_output=True, check=False, timeout=60
    )
    assert wrong.returncode == 2


def imported_modules(env: dict[str, str], folder: Path, words: str) -> Iterator[str]:
    """The modules that a completion imports."""
    code = (
        "import sys\nfrom counsel import cli\ncli.run([])\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    mode = {"_COUNSEL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, **mode}, cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    yield from result.stderr.splitlines()


@pytest.mark.parametrize("words", [words for words, _ in WORDS])
def test_completing_starts_and_writes_nothing(
    env: dict[str, str], project: Path, tmp_path: Path, words: str
) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*") if "counsel.db-" not in path.name)
    modules = set(imported_modules(env, project, words))
    assert sorted(str(path) for path in tmp_path.rglob("*") if "counsel.db-" not in path.name) == before
    slow = {"aiohttp", "rich", "genai_prices", "counsel.engine.engine", "counsel.daemon.rpc_client"}
    assert not modules & slow


def test_completing_commands_imports_none_of_them(env: dict[str, str], project: Path) -> None:
    modules = {name for name in imported_modules(env, project, "counsel ") if name.startswith("counsel.cli.")}
    assert modules == {
        "counsel.cli.terminal",
        "counsel.cli.terminal.closed_window",
        "counsel.cli.terminal.output",
        "counsel.cli.terminal.tables",
    }


def test_nothing_is_completed_if_nothing_can_be_read(
    env: dict[str, str], project: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / "counsel.db").write_bytes(b"no database" * 1000)
    (tmp_path / ".claude.json").write_text("{broken")
    for words in ("counsel jobs 7f", "counsel servers show wea"):
        mode = {
            "_COUNSEL_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        result = subprocess.run(
            ["counsel"],
            env={**env, **mode},
            cwd=project,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert (result.stdout.strip(), result.stderr) == ("", "")
