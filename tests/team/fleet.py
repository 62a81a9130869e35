"""Real servers and workers of a team on one temporary PostgreSQL, each with a COUNSEL_HOME of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

TOKEN = "a-token-for-the-team"
STARTS = 120.0  # seconds for a process on a busy machine


class Member:
    """One `counsel serve` or `counsel worker`, which can be killed and started again."""

    def __init__(self, name: str, kind: str, folder: Path, env: Mapping[str, str], program: str) -> None:
        self.name = name
        self.kind = kind
        self._home = folder / name
        self.env = env
        self._program = program
        self.process: asyncio.subprocess.Process | None = None
        self.port = free_port() if kind == "serve" else 0
        self.starts = 0
        self.pids: list[int] = []  # of all its processes
        self.config = ""  # its config.toml
        self.is_suspended = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        return (self._home / "stderr").read_text()

    async def start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        if self.config and not self.starts:
            (self._home / "home").mkdir(mode=0o700)
            (self._home / "home" / "config.toml").write_text(self.config)
        arguments = ["serve", "--port", str(self.port)] if self.kind == "serve" else ["worker"]
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "COUNSEL_HOME": str(self._home / "home"),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # to try another tree's sources
        }
        with (self._home / "stderr").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(self._program, "-P", "-m", "counsel", *arguments),
                env={**variables, "COUNSEL_TOKEN": TOKEN, **self.env},
                cwd=self._home,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1
        self.pids.append(self.process.pid)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        """Wait until a server listens; it may be killed and started again during that time. A worker has no port."""
        async with asyncio.timeout(STARTS):
            while self.kind == "serve":
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/health") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.1)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        self.is_suspended = number == signal.SIGSTOP

    async def kill(self) -> None:
        assert self.process is not None
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        """Stop it with SIGTERM, or kill it if that takes too long. Returns the exit code."""
        assert self.process is not None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                return await self.process.wait()
        await self.kill()
        return -9


class Fleet:
    def __init__(self, folder: Path, url: str, env: Mapping[str, str], seed: int = 0) -> None:
        self._folder = folder
        self.database = url
        self.env = env
        self.random = random.Random(seed)
        self.members: list[Member] = []
        self.session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {TOKEN}"},
            connector=aiohttp.TCPConnector(
                limit=0
            ),  # aiohttp's default of 100 would make further followers wait
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(member.stop() for member in self.members))
        await self.session.close()

    def add(
        self, kind: str, name: str, *, database: str | None = None, program: str = sys.executable, **env: str
    ) -> Member:
        """`database`: its own address of the database, such as a proxy's."""
        address = database or self.database
        variables = {"COUNSEL_DATABASE": named(address, name)} if address else {}  # none: SQLite
        member = Member(name, kind, self._folder, {**self.env, **variables, **env}, program)
        self.members.append(member)
        return member

    async def start(self) -> None:
        for member in self.members:
            await member.start()
        await asyncio.gather(*(member.ready(self.session) for member in self.members))

    @property
    def programs(self) -> dict[int, str]:
        return {pid: member.name for member in self.members for pid in member.pids}

    def a_server(self, besides: Member | None = None) -> Member:
        servers = [member for member in self.members if member.kind == "serve" and member is not besides]
        awake = [member for member in servers if not member.is_suspended]
        return self.random.choice(awake or servers)


def named(url: str, name: str) -> str:
    """The database's address with an `application_name`, so that the database knows who writes."""
    return f"{url}{'&' if '?' in url else '?'}application_name={name}"


def free_port() -> int:
    """A port below the range of outgoing connections, one of which could take it while its server restarts."""
    while True:
        port = random.randint(18_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
