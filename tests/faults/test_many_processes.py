"""A daemon, `counsel serve` and other engines on one home, killed at random, while turns arrive through all of them.

Every job ends once, no finished call is repeated, and the turns of a conversation stay in order, even if owners' files
are removed and when a process that looks for orphans has no file descriptor left. COUNSEL_STRESS_SECONDS makes it
longer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
from collections import Counter, defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.daemon.rpc_client import RemoteEngine, connect
from counsel.errors import Internal
from counsel.requests import ChatRequest
from fake import FakeProcess
from support.stdio_client import daemon_pid

pytestmark = pytest.mark.thorough  # left out of `make check`

WORKER = Path(__file__).with_name("turns_worker.py")
SECONDS = float(os.environ.get("COUNSEL_STRESS_SECONDS", "25"))
CONVERSATIONS = 6
PROMPT = re.compile(r"conversation (\d+) turn (\d+)\.")


@dataclass
class Kill:
    """`finished`: prompts stored as ended after the kill. `before` and `after`: how many requests the fake had seen."""

    before: int
    after: int
    finished: set[str]


@dataclass
class Setup:
    """One home, the processes that run on it, and the kills and turns so far."""

    home: Path
    fake: FakeProcess
    env: dict[str, str]
    random: random.Random
    kills: list[Kill] = field(default_factory=list)
    submitted: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # turns, by conversation

    def ask(self, sql: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.home / "counsel.db", timeout=60)) as db:
            return db.execute(sql, values).fetchall()

    def is_written(self, prompt: str) -> bool:
        return bool(self.ask("SELECT 1 FROM jobs WHERE json_extract(task, '$.prompt') = ?", prompt))

    def finished(self) -> set[str]:
        rows = self.ask("SELECT json_extract(task, '$.prompt') FROM jobs WHERE status != 'processing'")
        return {row[0] for row in rows}


class Worker:
    def __init__(self, setup: Setup, *arguments: str) -> None:
        self._setup = setup
        self._arguments = arguments
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        async with self._turn:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(WORKER), *self._arguments),
                env=self._setup.env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert self.process.stdout
            assert await self.process.stdout.readline() == b"ready\n"

    async def submit(self, conversation: str, prompt: str) -> None:
        async with self._turn:
            turn = {"conversation": conversation, "prompt": prompt, "key": prompt}
            assert self.process.stdin
            assert self.process.stdout
            with suppress(ConnectionError):
                self.process.stdin.write(json.dumps(turn).encode() + b"\n")
                await self.process.stdin.drain()
                await self.process.stdout.readline()  # empty when it was killed: the caller sees that

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.communicate()


class Serve:
    def __init__(self, setup: Setup, session: aiohttp.ClientSession) -> None:
        self._setup = setup
        self._session = session

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "counsel", "serve", "--port", "0"),
            env=self._setup.env,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr
        output = ""
        while not (result := re.search(r"(http://\S+/mcp)", output)):
            line = await self.process.stderr.readline()
            assert line, output
            output += line.decode()
        self._draining = asyncio.create_task(self.process.stderr.read())
        self._url = result[1]
        token = (self._setup.home / "token").read_text()
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        about = {"name": "t", "version": "1"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        async with self._post("initialize", opening) as response:
            self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]

    def _post(self, method: str, params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._session.post(self._url, json=message, headers=self._headers)

    async def submit(self, conversation: str, prompt: str) -> None:
        arguments = {"prompt": prompt, "model": "gpt-5", "continuation_id": conversation, "async": True}
        with suppress(aiohttp.ClientError, ConnectionError):
            async with self._post("tools/call", {"name": "chat", "arguments": arguments}) as response:
                await response.read()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()
        await self._draining

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            await self.kill()


class Daemon:
    """The daemon that a program's client starts whenever there is none."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._engine: RemoteEngine | None = None

    async def start(self) -> None:
        self._caller = Caller("program", cwd=self._setup.home, settings=settings.load(self._setup.env))
        self._engine = self._engine or await connect(
            self._caller
        )  # later ones are started by the next question

    async def submit(self, conversation: str, prompt: str) -> None:
        assert self._engine
        request = ChatRequest(prompt=prompt, model="gpt-5", continuation_id=conversation)
        with suppress(Internal):  # a daemon that is killed during its start is reported, not started again
            await self._engine.submit(request, self._caller, background=True, key=prompt)

    async def kill(self) -> None:
        if pid := daemon_pid(self._setup.home):
            os.kill(pid, signal.SIGKILL)

    async def stop(self) -> None:
        if self._engine:
            with suppress(Exception):
                await self._engine.daemon_stop()
            await self._engine.close()


async def ask_turns(setup: Setup, number: int, servers: list[Any], until: float) -> None:
    """Submit turns of one conversation, each through a random process; the next may come during the last answer."""
    choices = random.Random(number)
    while asyncio.get_running_loop().time() < until:
        turn = setup.submitted[number]
        prompt = f"conversation {number} turn {turn}."
        while not await asyncio.to_thread(setup.is_written, prompt):
            await choices.choice(servers).submit(f"conversation-{number}", prompt)
        setup.submitted[number] += 1
        await asyncio.sleep(choices.uniform(0, 1.5))


async def kill_at_random(setup: Setup, servers: list[Any], until: float) -> None:
    while asyncio.get_running_loop().time() < until:
        await asyncio.sleep(setup.random.uniform(0.2, 1.5))
        if setup.random.random() < 0.4:
            shutil.rmtree(setup.home / "run" / "owners", ignore_errors=True)
            continue
        server = setup.random.choice(servers)
        before = await asyncio.to_thread(lambda: len(setup.fake.calls))
        await server.kill()
        prompts = await asyncio.to_thread(setup.finished)
        setup.kills.append(Kill(before, await asyncio.to_thread(lambda: len(setup.fake.calls)), prompts))
        await server.start()


async def run(setup: Setup) -> None:
    async with aiohttp.ClientSession() as session:
        starved_worker = Worker(setup, "starve")
        servers: list[Worker | Serve | Daemon] = [
            Worker(setup),
            Worker(setup),
            Serve(setup, session),
            Daemon(setup),
        ]
        everyone = [*servers, starved_worker]
        try:
            for server in everyone:
                await server.start()
            until = asyncio.get_running_loop().time() + SECONDS
            conversations = [ask_turns(setup, number, servers, until) for number in range(CONVERSATIONS)]
            async with asyncio.timeout(SECONDS + 60):
                await asyncio.gather(*conversations, kill_at_random(setup, servers, until))
            async with asyncio.timeout(120):
                while setup.ask("SELECT 1 FROM jobs WHERE status = 'processing'"):
                    await asyncio.sleep(0.2)
        finally:
            await asyncio.gather(*(server.stop() for server in everyone), return_exceptions=True)


def check_ends(setup: Setup) -> None:
    """Every turn is one job, which completed, and appears once in its conversation, in order."""
    statuses = Counter(row[0] for row in setup.ask("SELECT status FROM jobs"))
    assert statuses == {"completed": sum(setup.submitted.values())}
    for number, turns in setup.submitted.items():
        rows = setup.ask(
            "SELECT text FROM messages WHERE conversation = ? AND role = 'user' ORDER BY n",
            f"conversation-{number}",
        )
        assert [row[0] for row in rows] == [f"conversation {number} turn {turn}." for turn in range(turns)]


def check_order(calls: list[dict[str, Any]]) -> None:
    """The model of a turn is sent every earlier one with its answer."""
    for call in calls:
        body, (number, turn) = json.dumps(call["body"]), map(int, PROMPT.findall(call["text"])[-1])
        for earlier in range(turn):
            assert f"gpt-5 says: conversation {number} turn {earlier}." in body, (number, turn, earlier)
        assert f"conversation {number} turn {turn + 1}." not in body


def check_not_repeated(setup: Setup, calls: list[dict[str, Any]]) -> None:
    """A call is repeated only if a process was killed since, and never if its end was stored."""
    positions: dict[str, list[int]] = defaultdict(list)
    for index, call in enumerate(calls):
        positions[f"conversation {'{} turn {}'.format(*PROMPT.findall(call['text'])[-1])}."].append(index)
    for prompt, at in positions.items():
        for first, second in itertools.pairwise(at):
            assert any(kill.before <= second and kill.after > first for kill in setup.kills), prompt
    for kill in setup.kills:
        again = {prompt for prompt, at in positions.items() if at[-1] >= kill.after} & kill.finished
        assert not again, f"finished, but repeated: {again}"


@pytest.mark.slow
async def test_turns_through_many_processes_that_die_are_answered_once_and_in_order(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    fake_process.script(latency=0.4, times=None)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(home),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_process.v1,
    }
    setup = Setup(home, fake_process, env, random.Random(10))
    await run(setup)
    calls = fake_process.calls
    assert len(setup.kills) > 3
    check_ends(setup)
    check_order(calls)
    check_not_repeated(setup, calls)
