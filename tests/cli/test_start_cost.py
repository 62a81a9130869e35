"""Commands that start nothing stay under 150 ms of CPU: they import nothing heavy, and cost less than a yardstick.

The yardstick imports modules of the standard library and costs about 190 ms. It does the same kind of work, so a busy
machine slows down both, and it leaves a margin; `python -m bench.commands` measures exactly, on an idle machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from counsel.agents.definitions import ASKABLE
from counsel.engine.store import open_store
from support import stored
from support.user import FILES, VARIABLES

ROUNDS = 15  # a round that another process disturbs says nothing; the cheapest one counts
YARDSTICK = (
    "import asyncio, ctypes, decimal, email.mime.multipart, http.server, logging.config, multiprocessing.pool, pydoc, "
    "sqlite3, tarfile, unittest.mock, urllib.request, xml.dom.minidom, xmlrpc.client, zipfile"
)
COMMANDS = (
    "--version",
    "--help",
    "agents",
    "agents --json",
    "completion bash",
    "config list",
    "config get default_model",
    "conversations",
    "conversations --json",
    "doctor",
    "doctor --json",
    "keys list",
    "models",
    "models --json",
    "servers",
    "servers --json",
    "skills",
    "skills --json",
    "usage",
    "usage --json",
)
# Each takes 5 to 150 ms.
HEAVY = (
    "aiohttp",
    "asyncio",
    "email",
    "importlib.metadata",
    "logging.handlers",
    "markdown_it",
    "mcp",
    "msgspec",
    "PIL",
    "pygments",
    "pypdf",
    "rich",
    "ssl",
    "starlette",
)
pytestmark = [pytest.mark.xdist_group("start-cost"), pytest.mark.slow]


@dataclass
class Person:
    """Someone who has used counsel for a while, with every agent installed."""

    env: dict[str, str]
    project: Path
    yardstick: float = field(default=float("inf"))  # the cheapest so far

    def cpu(self, *command: str) -> float:
        """Seconds of CPU, with those of the processes that it started and waited for."""
        with subprocess.Popen(
            command,
            env=self.env,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr
            errors = process.stderr.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, errors
        return usage.ru_utime + usage.ru_stime

    def counsel(self, arguments: str) -> float:
        return self.cpu(sys.executable, "-P", "-m", "counsel", *arguments.split())


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    folder = tmp_path_factory.mktemp("person")
    home, project, programs = folder / "home", folder / "project", folder / "programs"
    for path in (home, project, programs):
        path.mkdir()
    counsel = (home / ".counsel").absolute()
    counsel.mkdir(mode=0o700)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    env = {
        **{name: value for name, value in variables.items() if not name.endswith("_API_KEY")},
        "HOME": str(home),
        "COUNSEL_HOME": str(counsel),
        "OPENAI_API_KEY": "sk-" + "a" * 40,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),  # an installed program is compiled
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    for agent in ASKABLE.values():
        program = programs / agent.command
        program.write_text("#!/bin/sh\necho 1.2.3\n")
        program.chmod(0o755)
    _write_agents_files(home)
    asyncio.run(_store_conversations(counsel))
    owner = Person(env, project)
    owner.cpu(sys.executable, "-P", "-c", YARDSTICK)  # compiles its modules
    return owner


def _write_agents_files(home: Path) -> None:
    servers = {name: {"command": sys.executable, "args": ["-m", name]} for name in ("one", "two", "three")}
    for agent in ("claude", "gemini", "cursor"):
        path = home / FILES[agent]
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}))
    codex = home / FILES["codex"]
    codex.parent.mkdir()
    codex.write_text("".join(f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\n' for name in servers))
    skill = home / ".claude" / "skills" / "review" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: review\ndescription: Reviews a change.\n---\n")


async def _store_conversations(home: Path) -> None:
    store = open_store(home)
    for number in range(30):
        job = stored.new_job(f"conversation-{number}")
        await store.submit(job)
        await store.finish(stored.fence(job), stored.completed(job))
        await store.record_usage(stored.usage(job.id))
    await store.close()


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_that_starts_nothing_costs_little_cpu(person: Person, arguments: str) -> None:
    assert not _heavy_imports(person, arguments)  # which compiles modules; `agents` asks for versions once
    cheapest = float("inf")
    for _ in range(ROUNDS):
        person.yardstick = min(person.yardstick, person.cpu(sys.executable, "-P", "-c", YARDSTICK))
        cheapest = min(cheapest, person.counsel(arguments))
        if cheapest <= person.yardstick:
            return
    pytest.fail(
        f"counsel {arguments}: {cheapest * 1000:.0f} ms of CPU, more than the yardstick's {person.yardstick * 1000:.0f} ms. "
        "`python -X importtime -m counsel …` shows why."
    )


def _heavy_imports(person: Person, arguments: str) -> list[str]:
    code = (
        "import json, sys\n"
        "from counsel import cli\n"
        f"cli.run({arguments.split()!r})\n"
        f"sys.stderr.write(chr(10) + json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=person.env,
        cwd=person.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    names: list[str] = json.loads(result.stderr.splitlines()[-1])
    return names
