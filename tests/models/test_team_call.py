"""A call through a team's server after a reconnection: nothing is passed on twice, and a new answer replaces the
first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counsel import settings, team_login
from counsel.errors import ProviderUnavailable, UpstreamError
from counsel.models.catalog import Catalog
from counsel.models.connections import connection_pool
from counsel.models.team_call import Replay
from counsel.models.transport import Transport
from counsel.types import Call, Event, Finished, Limits, Text, Thinking, ToolCall, ToolUse, Turn, Withdrawn

END = Finished()
LOOK = ToolUse(ToolCall("1", "look", {}))


def replayed(*attempts: list[Event], may_withdraw: bool = True) -> list[Event]:
    replay = Replay(may_withdraw=may_withdraw)
    events: list[Event] = []
    for number, attempt in enumerate(attempts):
        if number:
            replay.restart()
        for event in attempt:
            events += replay.new_events([event])
    return events


def final_text(events: list[Event]) -> str:
    """The text that the caller has at the end."""
    text = ""
    for event in events:
        if isinstance(event, Text):
            text += event.delta
        elif isinstance(event, Withdrawn):
            text = text.removesuffix(event.text)
    return text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["one ", "two"], ["one two three", END]),
        (["one ", "two"], ["o", "ne", " two", " three", END]),
        (["one two three"], ["one two three", END]),
        ([], ["one two three", END]),
        ([Thinking("Hm. ")], [Thinking("Hm. So."), "one two three", END]),
        (["one ", LOOK], ["one two three", LOOK, END]),
    ],
)
def test_nothing_is_passed_on_twice(first: list[Any], second: list[Any]) -> None:
    def events(pieces: list[Any]) -> list[Event]:
        return [Text(piece) if isinstance(piece, str) else piece for piece in pieces]

    output = replayed(events(first), events(second))
    assert final_text(output) == "one two three"
    assert not [event for event in output if isinstance(event, Withdrawn)]
    assert sum(event == LOOK for event in output) == (LOOK in second)
    thinking = "".join(event.delta for event in output if isinstance(event, Thinking))
    assert thinking in {"", "Hm. So."}
    assert output[-1] is END


@pytest.mark.parametrize("second", ["another answer", "one", "one twofold"])
def test_another_answer_replaces_the_first(second: str) -> None:
    first: list[Event] = [Text("one "), Text("two three")]
    again: list[Event] = [Text(second[:4]), Text(second[4:]), END]
    assert final_text(replayed(first, again)) == second
    with pytest.raises(UpstreamError, match="restarted"):
        replayed(first, again, may_withdraw=False)


def test_a_third_attempt_skips_what_both_earlier_ones_sent() -> None:
    assert (
        final_text(replayed([Text("one ")], [Text("one "), Text("two ")], [Text("one two three"), END]))
        == "one two three"
    )


async def test_a_connection_that_hangs_is_given_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    async def hang(host: str, port: int) -> None:
        attempts.append(f"{host}:{port}")
        await asyncio.Event().wait()

    monkeypatch.setattr(connection_pool, "open_socket", hang)
    document = {"counsel": "1", "models": [], "providers": []}
    team_login.write(tmp_path, "http://127.0.0.1:9", "csl_" + "x" * 40, document)
    (tmp_path / team_login.MODELS_FILE).unlink()
    target = Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path)})).resolve("gpt-5")
    transport = Transport()
    limits = Limits(total=60.0, connect=0.05)
    with pytest.raises(ProviderUnavailable, match="team server") as excinfo:
        _ = [
            event
            async for event in transport.stream(
                Call((Turn("user", "x"),), key="k"), target.model, target.endpoint, limits
            )
        ]
    assert excinfo.value.fields["unreachable"]
    assert attempts == ["127.0.0.1:9"], "and there is nothing to end at the server"
    await transport.close()
