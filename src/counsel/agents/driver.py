"""How any agent is asked: one flow over each room's command line and reader.

A room says how its agent is started (`command`), how its lines are read (`reader`), which settings it takes and
whether it is logged in. Everything else happens here, once: finding the program, the environment, the level,
sessions that are lost, limits, partial text, honest failures.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from counsel.agents import detect, environment, failures, prompt, sandbox, start_folder, trust
from counsel.agents.definitions import Agent, Workspace, locate, workspace_of
from counsel.agents.detect import Installed
from counsel.agents.failures import LostSession
from counsel.agents.process import MAX_OUTPUT, Command, Exit, OutputTooLarge, Process
from counsel.caller import Caller
from counsel.errors import CounselError, NotFound, UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.paths import isdir
from counsel.types import Call, Event, Finished, Image, Json, Knobs, Limits, Notice, Text, Withdrawn

_SESSION = re.compile(r"[A-Za-z0-9][\w-]{0,127}", re.ASCII).fullmatch  # never an option on a command line
_PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds before an agent that was busy is started again


@dataclass(frozen=True, slots=True)
class Ask:
    """One run of one agent, ready to be put into its own words."""

    agent: Agent
    program: Path
    call: Call
    caller: Caller
    limits: Limits
    model: str | None  # the agent's own name for a model; None: its own choice
    session: str | None  # None: a new one, and the prompt holds the earlier turns
    level: sandbox.Level
    env: Mapping[str, str] = field(repr=False)
    cwd: Path = Path()  # the project's folder, by its real path
    start: Path = Path()  # where the agent is started: there, or in an empty folder when nobody trusts it
    deadline: float = 0.0  # on the loop's clock: one for all tries of this call

    @property
    def history(self) -> bool:
        return self.session is None

    @property
    def prompt(self) -> str:
        words = prompt.compose(self.call, history=self.history)
        return words if self.trusted else f"{prompt.elsewhere(self.cwd)}\n\n{words}"

    @property
    def trusted(self) -> bool:
        return self.start == self.cwd

    @property
    def workspace(self) -> Workspace:
        return workspace_of(self.env, self.cwd)

    @property
    def other_folders(self) -> list[Path]:
        """Further folders that the agent must be able to read: those of the files, and the project if it starts elsewhere."""
        real = [Path(os.path.realpath(path)).parent for path in self.call.files]
        needed = {folder for folder in real if not folder.is_relative_to(self.cwd)}
        return sorted(needed if self.trusted else {self.cwd, *needed})

    @property
    def images(self) -> tuple[Image, ...]:
        return prompt.images(self.call, history=self.history)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Whose values must not be repeated: what the agent got, and what only counsel knows."""
        return {**self.caller.env, **self.env, "CODEX_API_KEY": self.caller.settings.codex_api_key}

    def fail(self, words: str, status: int | None = None) -> CounselError:
        return failures.by_status(self.agent, status, failures.clean(words, self.secrets))


@dataclass(frozen=True, slots=True)
class Send:
    """What a reader answers its agent."""

    message: Json = field(repr=False)


Step: TypeAlias = Event | Send


class Reader(Protocol):
    """A fold over an agent's lines. `done`: the answer is complete, whatever still follows.

    No I/O inside, but `finish`, which is called in a thread, may look at the agent's own files.
    Raises `CounselError` for a failure and `LostSession` when the session is gone.
    """

    done: bool

    def heard(self, line: str) -> bool:  # noqa: ARG002
        """A line of stderr. True: there is nothing to wait for, the agent is ended."""
        return False

    def feed(self, line: Json) -> list[Step]: ...
    def finish(self, ended: Exit) -> list[Step]:
        """The process has ended: the last events, or the failure that its end means."""


@dataclass(frozen=True, slots=True)
class AskMethod:
    """One way to ask an agent: how it is started and how it is read."""

    command: Callable[[Ask], Command]
    reader: Callable[[Ask], Reader]


class MalformedLine(Exception):
    """A line of the agent's is JSON, but not of a shape that its interface has."""


class MethodUnsupported(Exception):
    """This release of the agent does not offer the way that was tried; nothing was asked yet."""


class Busy(Exception):
    """The agent could not start just now, because another one was starting; nothing was asked yet."""


@dataclass(frozen=True, slots=True)
class AgentDriver:
    """One agent, as the flow needs it."""

    agent: Agent
    command: Callable[[Ask], Command]
    reader: Callable[[Ask], Reader]
    login: Callable[[Caller], tuple[bool | None, str]]  # logged in?, and how or why not
    takes: frozenset[str] = frozenset()  # the fields of `Knobs` that it can be told
    env: Callable[[Caller], Mapping[str, str | None]] = lambda _: {}  # None: left out
    fallback: AskMethod | None = None  # for releases that do not speak the first way

    @property
    def methods(self) -> tuple[AskMethod, ...]:
        first = AskMethod(self.command, self.reader)
        return (first, self.fallback) if self.fallback else (first,)

    def probe(self, caller: Caller) -> Installed:
        return detect.describe(self.agent, caller, self.login(caller))


async def answer(
    driver: AgentDriver, call: Call, caller: Caller, limits: Limits, model: str | None = None
) -> AsyncGenerator[Event]:
    """Ask the agent: its events as they come, `Finished` last. A session that is gone is made again once."""
    ask = await asyncio.to_thread(_prepare, driver, call, caller, limits, model)  # agents' files are read
    ask = replace(ask, deadline=asyncio.get_running_loop().time() + limits.total)
    if left_out := _left_out(call.knobs, driver.takes):
        words = f"{ask.agent.label} cannot be told: {', '.join(left_out)}."
        yield Notice("left_out", words, {"settings": left_out})
    try:
        async with aclosing(_run(driver, ask)) as events:
            async for event in events:
                yield event
    except LostSession:
        words = f"{ask.agent.label} no longer had this conversation's session: the history was sent again as text."
        yield Notice("warning", words, {"session": "lost"})
        async with aclosing(_run(driver, replace(ask, session=None))) as events:
            async for event in events:
                yield event


def _prepare(driver: AgentDriver, call: Call, caller: Caller, limits: Limits, model: str | None) -> Ask:
    cwd = Path(
        os.path.realpath(call.cwd or caller.cwd)
    )  # as the agent itself sees it: trust goes by real paths
    if not isdir(cwd):
        raise NotFound(f"The working folder {cwd} does not exist.", hint="Start from an existing folder.")
    env = {**environment.of(caller, driver.agent.name), "PWD": str(cwd)}
    start = cwd
    if not start_folder.trusted(driver.agent.name, workspace_of(env, cwd)):
        if trust.moved_inside(
            driver.agent.name, workspace_of(env, cwd)
        ):  # the folder's files as the user's own settings
            del env[trust.MOVED[driver.agent.name]]
        start = start_folder.empty(workspace_of(env, cwd), driver.agent.name)
        env = start_folder.environment(env, start, workspace_of(env, cwd))
    program = locate(driver.agent, env)
    if program is None:
        raise failures.not_installed(driver.agent)
    for name, value in driver.env(caller).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return Ask(
        agent=driver.agent,
        program=program,
        call=call,
        caller=caller,
        limits=limits,
        model=model,
        session=call.session if _SESSION(call.session or "") else None,
        level=sandbox.level(driver.agent.name, caller.settings),
        env=env,
        cwd=cwd,
        start=start,
    )


def _left_out(knobs: Knobs, takes: frozenset[str]) -> list[str]:
    asked = ("temperature", "effort", "verbosity", "web_search", "media_resolution")
    return [name for name in asked if getattr(knobs, name) not in {None, False} and name not in takes]


async def _run(driver: AgentDriver, ask: Ask) -> AsyncGenerator[Event]:
    methods, pauses = list(driver.methods), list(_PAUSES)
    while methods:
        try:
            async with aclosing(_ask_by(driver, methods[0], ask)) as events:
                async for event in events:
                    yield event
        except MethodUnsupported:
            methods.pop(0)
        except Busy:
            if not pauses:
                break
            await asyncio.sleep(pauses.pop(0) * random.uniform(0.5, 1.5))  # noqa: S311 - to part those that met
        else:
            return
    raise failures.upstream(ask.agent, "it could not be started in any way that counsel knows")


async def _ask_by(driver: AgentDriver, method: AskMethod, ask: Ask) -> AsyncGenerator[Event]:
    said: list[str] = []
    voids: list[Withdrawn] = []
    try:
        left = max(0.0, ask.deadline - asyncio.get_running_loop().time())
        limits = replace(ask.limits, total=left)
        command = await asyncio.to_thread(method.command, ask)  # files are read, pictures written
        for words in command.notes:
            yield Notice("warning", words)
        async with aclosing(_events(command, method.reader(ask), limits)) as events:
            async for event in events:
                for known in _heard(event, said, voids):
                    yield known
    except UpstreamError as error:
        if driver.login(ask.caller)[0] is False:
            raise _with(said, failures.not_logged_in(ask.agent, error.message)) from None
        raise _with(said, error) from None
    except MalformedLine as error:
        raise _with(said, failures.upstream(ask.agent, str(error))) from error
    except TimeoutError:
        raise _with(said, failures.late(ask.agent, ask.limits.total)) from None
    except OutputTooLarge:
        words = f"it wrote more than {MAX_OUTPUT // 1024 // 1024} MB and was ended"
        raise _with(said, failures.upstream(ask.agent, words)) from None
    except CounselError as error:
        raise _with(said, error) from None


def _heard(event: Event, said: list[str], voids: list[Withdrawn]) -> list[Event]:
    """Words that are taken back count until they are said anew: if they never are, they are what had arrived."""
    if isinstance(event, Withdrawn):
        voids.append(event)
        return []
    if not isinstance(event, Text | Finished):
        return [event]
    known: list[Event] = [*voids, event]
    for void in voids:
        said[:] = ["".join(said).removesuffix(void.text)]
    voids.clear()
    if isinstance(event, Text):
        said.append(event.delta)
    return known


async def _events(command: Command, reader: Reader, limits: Limits) -> AsyncGenerator[Event]:
    async with Process(command, limits, reader.heard) as process, aclosing(process.lines()) as lines:
        async for line in lines:
            for step in _read(reader, line):
                if isinstance(step, Send):
                    await process.send(step.message)
                else:
                    yield step
            if reader.done:
                break
        ended = await process.ended()
        for step in await asyncio.to_thread(reader.finish, ended):  # it may look at what the agent wrote down
            if not isinstance(step, Send):
                yield step


def _read(reader: Reader, line: Json) -> list[Step]:
    try:
        return reader.feed(line)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        kind = line.get("type") or line.get("method")
        raise MalformedLine(f"it wrote a line that counsel cannot read ({str(kind)[:60]})") from error


def _with(said: list[str], error: CounselError) -> CounselError:
    if said and "partial" not in error.fields:
        error.fields["partial"] = "".join(said)
    return error


def finished_or_fail(ask: Ask, finished: Finished | None, ended: Exit) -> list[Step]:
    """The usual end of a reader: a proper end, or an exit that explains itself. Garbage is named, never shown."""
    if finished is not None:
        return [finished]
    if ended.code == 127:
        words = failures.clean(ended.stderr, ask.secrets)
        raise failures.not_startable(ask.agent, words)
    how = (
        f"it was ended by signal {-ended.code}" if ended.code < 0 else f"it ended with exit code {ended.code}"
    )
    garbage = f" after {ended.garbage} lines that were not JSON" if ended.garbage else ""
    tail = failures.last_words(ended.stderr)
    raise ask.fail(f"{how}{garbage} before its answer was complete{': ' + tail if tail else ''}")
