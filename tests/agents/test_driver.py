"""What `driver.answer` does for every agent, tested with one that prints the lines of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.agents import driver, process
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import (
    AgentDriver,
    AgentRequest,
    AskMethod,
    Busy,
    MethodUnsupported,
    Send,
    Step,
    finished_or_fail,
)
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.caller import Caller, local_caller
from counsel.errors import (
    AgentUnavailable,
    AuthenticationFailed,
    CounselError,
    NotFound,
    TimedOut,
    UpstreamError,
)
from counsel.types import (
    Call,
    Event,
    Finished,
    Limits,
    ModelSettings,
    Notice,
    Text,
    Thinking,
    Turn,
    Withdrawn,
)

SIGNS: dict[str, type[Exception]] = {
    "busy": Busy,
    "lost": LostSession,
    "unsupported": MethodUnsupported,
    "odd": LookupError,
}


class Reader(driver.Reader):
    """Reads lines such as `{"text": …}`; the last one is `{"end": true}`."""

    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._finished: Finished | None = None

    def feed(self, line: Any) -> list[Step]:
        kind, value = next(iter(line.items()))
        if kind in SIGNS:
            raise SIGNS[kind]
        if kind == "fail":
            raise self.request.fail(value)
        if kind == "end":
            self.done = True
            self._finished = Finished("stop", session=self.request.session)
            return []
        make: dict[str, Callable[[str], Step]] = {
            "text": Text,
            "think": Thinking,
            "withdraw": lambda text: Withdrawn(text, "lost"),
            "send": lambda text: Send({"text": text}),
        }
        return [make[kind](value)]

    def finish(self, exit_: Exit) -> list[Step]:
        return finished_or_fail(self.request, self._finished, exit_)


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    program = tmp_path / "bin" / "cursor-agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": str(program.parent), "COUNSEL_HOME": str(tmp_path / "counsel")}
    return local_caller("cli", env, tmp_path)


def prints(*lines: Any, then: str = "", notes: tuple[str, ...] = ()) -> Callable[[AgentRequest], Command]:
    """A command whose process prints these lines; `then` is the rest of its script."""
    text = "".join(f"{json.dumps(line) if isinstance(line, dict) else line}\n" for line in lines)

    def command(request: AgentRequest) -> Command:
        script = f"cat <<'EOF'\n{text}EOF\n{then}"
        return Command(
            ("/bin/sh", "-c", script), request.cwd, {"PATH": "/usr/bin:/bin"}, dialog=True, notes=notes
        )

    return command


def agent(command: Callable[[AgentRequest], Command], **more: Any) -> AgentDriver:
    return AgentDriver(
        **{
            "agent": AGENTS["cursor"],
            "command": command,
            "reader": Reader,
            "login": lambda _: (True, ""),
            **more,
        }
    )


async def ask(
    agent_driver: AgentDriver, caller: Caller, limits: Limits | None = None, **call: Any
) -> tuple[list[Event], CounselError | None]:
    events: list[Event] = []
    try:
        async for event in driver.answer(
            agent_driver, replace(Call((Turn("user", "look"),)), **call), caller, limits or Limits(total=60)
        ):
            events.append(event)
    except CounselError as error:
        return events, error
    return events, None


async def test_an_answer_is_its_events_and_ends_when_the_reader_is_done(caller: Caller) -> None:
    command = prints({"think": "hm"}, "no json", {"text": "Ber"}, {"text": "lin."}, {"end": True}, {"odd": 1})
    events, error = await ask(agent(command), caller, session="s1")
    assert (events, error) == (
        [Thinking("hm"), Text("Ber"), Text("lin."), Finished("stop", session="s1")],
        None,
    )


async def test_what_the_reader_sends_reaches_the_agent(caller: Caller) -> None:
    command = prints({"send": "Bonn?"}, then='read line; echo "$line"; echo \'{"end": true}\'')
    events, error = await ask(agent(command), caller)
    assert (events[0], error) == (Text("Bonn?"), None)


async def test_notes_of_a_command_are_warnings(caller: Caller) -> None:
    events, _ = await ask(agent(prints({"end": True}, notes=("left out",))), caller)
    assert events[0] == Notice("warning", "left out")


async def test_settings_that_an_agent_does_not_know_are_named(caller: Caller) -> None:
    model_settings = ModelSettings(temperature=0.0, effort="low", web_search=False)
    events, _ = await ask(
        agent(prints({"end": True}), supported_settings=frozenset({"effort"})),
        caller,
        model_settings=model_settings,
    )
    assert events[0] == Notice(
        "left_out", "Cursor does not support temperature: it was left out.", {"setting": "temperature"}
    )


async def test_a_missing_folder_is_named(caller: Caller, tmp_path: Path) -> None:
    _, error = await ask(agent(prints()), caller, cwd=tmp_path / "gone")
    assert isinstance(error, NotFound)
    assert str(tmp_path / "gone") in error.message


async def test_an_agent_that_is_not_installed_is_named_with_its_command(
    caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "cursor-agent").unlink()
    _, error = await ask(agent(prints()), caller)
    assert isinstance(error, AgentUnavailable)
    assert "`cursor-agent` is not on the PATH" in error.message


async def test_variables_of_an_agent_are_added_and_taken_away(caller: Caller) -> None:
    requests: list[AgentRequest] = []

    def command(request: AgentRequest) -> Command:
        requests.append(request)
        return prints({"end": True})(request)

    settings: dict[str, str | None] = {"ADDED": "1", "NO_COLOR": None, "ABSENT": None}
    await ask(agent(command, env=lambda _: settings), caller)
    env = requests[0].env
    assert env["ADDED"] == "1"
    assert not {"NO_COLOR", "ABSENT"} & set(env)


@pytest.mark.parametrize(
    ("name", "kept"), [("abc_1-2", True), ("--yolo", False), ("a b", False), ("", False)]
)
async def test_a_session_that_could_be_an_option_is_not_passed_on(
    caller: Caller, name: str, kept: bool
) -> None:
    events, _ = await ask(agent(prints({"end": True})), caller, session=name)
    assert events == [Finished("stop", session=name if kept else None)]


async def test_a_lost_session_is_reported_and_the_question_asked_again_without_it(caller: Caller) -> None:
    def command(request: AgentRequest) -> Command:
        lines = [{"lost": True}] if request.session else [{"text": "again"}, {"end": True}]
        return prints(*lines)(request)

    events, error = await ask(agent(command), caller, session="s1")
    assert error is None
    assert isinstance(events[0], Notice)
    assert events[0].data == {"session": "lost"}
    assert events[1:] == [Text("again"), Finished("stop", session=None)]


async def test_a_busy_agent_is_started_again_as_often_as_there_are_pauses(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_PAUSES", (0.0, 0.0))
    starts: list[str] = []

    def command(request: AgentRequest) -> Command:
        starts.append("start")
        return prints({"busy": True} if len(starts) < 3 else {"end": True})(request)

    assert (await ask(agent(command), caller))[1] is None
    assert len(starts) == 3
    starts.clear()
    monkeypatch.setattr(driver, "_PAUSES", (0.0,))
    _, error = await ask(agent(command), caller)
    assert isinstance(error, UpstreamError)
    assert len(starts) == 2


async def test_an_older_release_is_asked_by_the_fallback_method(caller: Caller) -> None:
    fallback = AskMethod(prints({"text": "other"}, {"end": True}), Reader)
    events, error = await ask(agent(prints({"unsupported": True}), fallback=fallback), caller)
    assert (events[0], error) == (Text("other"), None)
    _, error = await ask(agent(prints({"unsupported": True})), caller)
    assert isinstance(error, UpstreamError)
    assert "none of the methods" in error.message


@pytest.mark.parametrize(
    ("login", "kind"), [(True, UpstreamError), (None, UpstreamError), (False, AuthenticationFailed)]
)
async def test_a_failure_without_a_login_is_reported_as_a_missing_login_and_keeps_the_text(
    caller: Caller, login: bool | None, kind: type[CounselError]
) -> None:
    command = prints({"text": "half"}, {"fail": "it broke"})
    events, error = await ask(agent(command, login=lambda _: (login, "")), caller)
    assert events == [Text("half")]
    assert type(error) is kind
    assert "it broke" in error.message
    assert error.fields["partial"] == "half"


async def test_a_line_that_cannot_be_read_is_named_by_its_kind(caller: Caller) -> None:
    command = prints({"text": "half"}, {"odd": 1, "type": "news"})
    _, error = await ask(agent(command), caller)
    assert isinstance(error, UpstreamError)
    assert error.message == "Cursor failed: it wrote a line that counsel cannot read (news)"
    assert error.fields["partial"] == "half"


async def test_too_much_output_ends_the_answer(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_OUTPUT", 1000)
    _, error = await ask(agent(prints({"think": "x" * 2000}, then="sleep 60")), caller)
    assert isinstance(error, UpstreamError)
    assert "it wrote more than 64 MB and was stopped" in error.message
    assert "partial" not in error.fields


async def test_a_timeout_ends_the_answer_and_keeps_the_text(caller: Caller) -> None:
    command = prints({"text": "half"}, then="exec sleep 60")
    events, error = await ask(agent(command), caller, Limits(total=1.5))
    assert isinstance(error, TimedOut)
    assert "did not finish within 1.5 s" in error.message
    assert error.fields.get("partial", "") == "".join(
        event.delta for event in events if isinstance(event, Text)
    )


async def test_withdrawn_text_counts_until_other_text_comes(caller: Caller) -> None:
    lines: list[dict[str, object]] = [{"text": "Ham"}, {"withdraw": "Ham"}, {"think": "hm"}]
    events, error = await ask(agent(prints(*lines, {"text": "Ber"}, {"fail": "x"})), caller)
    assert events == [Text("Ham"), Thinking("hm"), Withdrawn("Ham", "lost"), Text("Ber")]
    assert error is not None
    assert error.fields["partial"] == "Ber"
    events, error = await ask(agent(prints(*lines, {"fail": "x"})), caller)
    assert events == [Text("Ham"), Thinking("hm")]
    assert error is not None
    assert error.fields["partial"] == "Ham"
    events, _ = await ask(agent(prints(*lines, {"end": True})), caller)
    assert events[2:] == [Withdrawn("Ham", "lost"), Finished("stop")]


async def test_a_program_that_cannot_be_started_is_to_be_reinstalled(caller: Caller, tmp_path: Path) -> None:
    def command(request: AgentRequest) -> Command:
        return Command((str(tmp_path / "gone"),), request.cwd, {})

    _, error = await ask(agent(command), caller)
    assert isinstance(error, AgentUnavailable)
    assert "could not be started" in error.message
