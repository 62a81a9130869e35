"""Ask any agent, through its `AgentDriver`.

A driver defines how its agent is started (`command`), how its output lines are read (`reader`), which settings it
supports and whether it is logged in. This module does the rest for all of them: the program, the environment, the
sandbox level, lost sessions, limits, partial text, failures.
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

from counsel.agents import environment, failures, prompt, sandbox, start_folder, trust
from counsel.agents.definitions import Agent, Workspace, locate, workspace_of
from counsel.agents.detect import Login
from counsel.agents.failures import LostSession
from counsel.agents.process import MAX_OUTPUT, Command, Exit, OutputTooLarge, Process
from counsel.caller import Caller
from counsel.errors import CounselError, NotFound, UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.paths import isdir
from counsel.text import counted
from counsel.types import Call, Event, Finished, Image, Json, Limits, Notice, Text, Withdrawn

_SESSION = re.compile(
    r"[A-Za-z0-9][\w-]{0,127}", re.ASCII
).fullmatch  # cannot be mistaken for an option on a command line
_PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds before a busy agent is started again


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One run of one agent, before it is turned into a command line."""

    agent: Agent
    program: Path
    call: Call
    caller: Caller
    limits: Limits
    model: str | None  # the agent's own name for a model; None: its own choice
    session: str | None  # None: a new one; the prompt then contains the earlier turns
    level: sandbox.Level
    env: Mapping[str, str] = field(repr=False)
    cwd: Path = Path()  # the project's folder, by its real path
    start: Path = Path()  # where it is started: in the project, or in an empty folder if that is not trusted
    deadline: float = 0.0  # on the loop's clock, for all attempts of this call

    @property
    def history(self) -> bool:
        return self.session is None

    @property
    def prompt(self) -> str:
        text = prompt.compose(self.call, history=self.history)
        return text if self.trusted else f"{prompt.project_note(self.cwd)}\n\n{text}"

    @property
    def trusted(self) -> bool:
        return self.start == self.cwd

    @property
    def workspace(self) -> Workspace:
        return workspace_of(self.env, self.cwd)

    @property
    def other_folders(self) -> list[Path]:
        """Other folders that the agent must read: those of the files, and the project if it starts elsewhere."""
        real = [Path(os.path.realpath(path)).parent for path in self.call.files]
        folders = {folder for folder in real if not folder.is_relative_to(self.cwd)}
        return sorted(folders if self.trusted else {self.cwd, *folders})

    @property
    def images(self) -> tuple[Image, ...]:
        return prompt.images(self.call, history=self.history)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Variables whose values must not be shown: the agent's and counsel's."""
        return {**self.caller.env, **self.env, "CODEX_API_KEY": self.caller.settings.codex_api_key}

    def fail(self, message: str, status: int | None = None) -> CounselError:
        return failures.by_status(self.agent, status, failures.clean(message, self.secrets))


@dataclass(frozen=True, slots=True)
class Send:
    """A message from the reader to its agent."""

    message: Json = field(repr=False)


Step: TypeAlias = Event | Send


class Reader(Protocol):
    """Turns an agent's lines into events. `done`: the answer is complete, even if more lines follow.

    No I/O, except that `finish`, which is called in a thread, may read the agent's own files.
    Raises `CounselError` for a failure and `LostSession` when the session is gone.
    """

    done: bool

    def stderr_line(self, line: str) -> bool:  # noqa: ARG002 - some readers use it
        """A line of stderr. True if waiting is pointless: then the agent is ended."""
        return False

    def feed(self, line: Mapping[str, object]) -> list[Step]: ...
    def finish(self, exit_: Exit) -> list[Step]:
        """The last events after the process has exited. Raises the failure that the exit means."""


@dataclass(frozen=True, slots=True)
class AskMethod:
    """One way to ask an agent: how it is started and how its output is read."""

    command: Callable[[AgentRequest], Command]
    reader: Callable[[AgentRequest], Reader]


class MalformedLine(Exception):
    """The agent wrote a line that is JSON but does not fit its interface."""


class MethodUnsupported(Exception):
    """This release of the agent lacks the method that was tried; nothing has been asked yet."""


class Busy(Exception):
    """The agent could not start because another instance was starting; nothing has been asked yet."""


@dataclass(frozen=True, slots=True)
class AgentDriver:
    """What `answer` needs to know about one agent."""

    agent: Agent
    command: Callable[[AgentRequest], Command]
    reader: Callable[[AgentRequest], Reader]
    login: Callable[[Caller], Login]
    supported_settings: frozenset[str] = frozenset()  # the fields of `ModelSettings` that it supports
    env: Callable[[Caller], Mapping[str, str | None]] = lambda _: {}  # None: left out
    fallback: AskMethod | None = None  # for releases without the first method

    @property
    def methods(self) -> tuple[AskMethod, ...]:
        first = AskMethod(self.command, self.reader)
        return (first, self.fallback) if self.fallback else (first,)


async def answer(
    driver: AgentDriver, call: Call, caller: Caller, limits: Limits, model: str | None = None
) -> AsyncGenerator[Event]:
    """Ask the agent. Yields its events as they arrive, `Finished` last. A lost session is recreated once."""
    request = await asyncio.to_thread(_prepare, driver, call, caller, limits, model)  # agents' files are read
    request = replace(request, deadline=asyncio.get_running_loop().time() + limits.total)
    for name in _left_out(call, driver.supported_settings):
        message = f"{request.agent.label} does not support {name}: it was left out."
        yield Notice("left_out", message, {"setting": name})
    try:
        async with aclosing(_run(driver, request)) as events:
            async for event in events:
                yield event
    except LostSession:
        message = f"{request.agent.label} no longer has this conversation's session: the history was sent again as text."
        yield Notice("warning", message, {"session": "lost"})
        async with aclosing(_run(driver, replace(request, session=None))) as events:
            async for event in events:
                yield event


def _prepare(
    driver: AgentDriver, call: Call, caller: Caller, limits: Limits, model: str | None
) -> AgentRequest:
    cwd = Path(os.path.realpath(call.cwd or caller.cwd))  # agents store trust by real path
    if not isdir(cwd):
        raise NotFound(
            f"The working folder {cwd} does not exist.", hint="Change to an existing folder and try again."
        )
    env = {**environment.for_agent(caller, driver.agent.name), "PWD": str(cwd)}
    start = cwd
    if not start_folder.trusted(driver.agent.name, workspace_of(env, cwd)):
        if trust.moved_inside(
            driver.agent.name, workspace_of(env, cwd)
        ):  # otherwise the folder's files would count as the user's own settings
            del env[trust.FOLDER_VARIABLES[driver.agent.name]]
        start = start_folder.empty_folder(workspace_of(env, cwd), driver.agent.name)
        env = start_folder.environment(env, start, workspace_of(env, cwd))
    program = locate(driver.agent, env)
    if program is None:
        raise failures.not_installed(driver.agent)
    for name, value in driver.env(caller).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return AgentRequest(
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


_NAMES = {  # field of `ModelSettings` → its name in requests
    "temperature": "temperature",
    "effort": "reasoning_effort",
    "verbosity": "verbosity",
    "web_search": "use_websearch",
    "media_resolution": "media_resolution",
}
_EXACT = ("top_p", "top_k", "frequency_penalty", "presence_penalty")


def _left_out(call: Call, supported_settings: frozenset[str]) -> list[str]:
    model_settings = {name: getattr(call.model_settings, name) for name in _NAMES}
    left_out = [
        _NAMES[name]
        for name, value in model_settings.items()
        if value is not None and value is not False and name not in supported_settings  # 0.0 == False
    ]
    exact = call.exact
    if exact is None:
        return left_out
    values = {
        "max_tokens": call.max_output,
        "response_format": call.schema or exact.json_object or None,
        "thinking": exact.thinking_budget,
        **{name: getattr(exact, name) for name in _EXACT},
    }
    return [*left_out, *(name for name, value in values.items() if value is not None), *exact.left_out]


async def _run(driver: AgentDriver, request: AgentRequest) -> AsyncGenerator[Event]:
    methods, pauses = list(driver.methods), list(_PAUSES)
    while methods:
        try:
            async with aclosing(_ask_with(driver, methods[0], request)) as events:
                async for event in events:
                    yield event
        except MethodUnsupported:
            methods.pop(0)
        except Busy:
            if not pauses:
                break
            await asyncio.sleep(pauses.pop(0) * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, so that they do not collide again
        else:
            return
    raise failures.upstream(request.agent, "none of the methods that counsel knows could start it")


async def _ask_with(driver: AgentDriver, method: AskMethod, request: AgentRequest) -> AsyncGenerator[Event]:
    texts: list[str] = []
    withdrawals: list[Withdrawn] = []
    try:
        seconds_left = max(0.0, request.deadline - asyncio.get_running_loop().time())
        limits = replace(request.limits, total=seconds_left)
        command = await asyncio.to_thread(method.command, request)  # reads files, writes images
        for message in command.notes:
            yield Notice("warning", message)
        async with aclosing(_events(command, method.reader(request), limits)) as events:
            async for event in events:
                for output in _after_withdrawals(event, texts, withdrawals):
                    yield output
    except UpstreamError as error:
        if driver.login(request.caller)[0] is False:
            raise _with_partial(texts, failures.not_logged_in(request.agent, error.message)) from None
        raise _with_partial(texts, error) from None
    except MalformedLine as error:
        raise _with_partial(texts, failures.upstream(request.agent, str(error))) from error
    except TimeoutError:
        raise _with_partial(texts, failures.timed_out(request.agent, request.limits.total)) from None
    except OutputTooLarge:
        message = f"it wrote more than {MAX_OUTPUT // 1024 // 1024} MB and was stopped"
        raise _with_partial(texts, failures.upstream(request.agent, message)) from None
    except CounselError as error:
        raise _with_partial(texts, error) from None


def _after_withdrawals(event: Event, texts: list[str], withdrawals: list[Withdrawn]) -> list[Event]:
    """Withdrawn text counts until new text arrives: if none does, it remains the agent's answer."""
    if isinstance(event, Withdrawn):
        withdrawals.append(event)
        return []
    if not isinstance(event, Text | Finished):
        return [event]
    output: list[Event] = [*withdrawals, event]
    for withdrawal in withdrawals:
        texts[:] = ["".join(texts).removesuffix(withdrawal.text)]
    withdrawals.clear()
    if isinstance(event, Text):
        texts.append(event.delta)
    return output


async def _events(command: Command, reader: Reader, limits: Limits) -> AsyncGenerator[Event]:
    async with Process(command, limits, reader.stderr_line) as process, aclosing(process.lines()) as lines:
        async for line in lines:
            for step in _read(reader, line):
                if isinstance(step, Send):
                    await process.send(step.message)
                else:
                    yield step
            if reader.done:
                break
        exit_ = await process.wait()
        for step in await asyncio.to_thread(reader.finish, exit_):  # it may read the agent's own files
            if not isinstance(step, Send):
                yield step


def _read(reader: Reader, line: Mapping[str, object]) -> list[Step]:
    try:
        return reader.feed(line)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        kind = line.get("type") or line.get("method")
        raise MalformedLine(f"it wrote a line that counsel cannot read ({str(kind)[:60]})") from error


def _with_partial(texts: list[str], error: CounselError) -> CounselError:
    if texts and "partial" not in error.fields:
        error.fields["partial"] = "".join(texts)
    return error


def finished_or_fail(request: AgentRequest, finished: Finished | None, exit_: Exit) -> list[Step]:
    """The usual end of a reader: the final event, or a failure. Invalid lines are counted, never shown."""
    if finished is not None:
        return [finished]
    if exit_.code == 127:
        stderr = failures.clean(exit_.stderr, request.secrets)
        raise failures.not_startable(request.agent, stderr)
    reason = (
        f"it was killed by signal {-exit_.code}" if exit_.code < 0 else f"it exited with code {exit_.code}"
    )
    bad_lines = (
        f" after {counted(exit_.garbage, 'line that was not JSON', 'lines that were not JSON')}"
        if exit_.garbage
        else ""
    )
    tail = failures.last_lines(exit_.stderr)
    raise request.fail(f"{reason}{bad_lines} before its answer was complete{': ' + tail if tail else ''}")
