"""One answer while it arrives: what followers see, what is kept, and its usage if it ends early."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.consult.fold import MOST_NOTICES, MOST_TOOLS, Fold
from counsel.engine.jobs.events import Live
from counsel.job_events import JobEvent, PartAdded, Restarted, ToolUsed, Waiting
from counsel.settings import Settings
from counsel.types import (
    Call,
    Event,
    Finished,
    Model,
    Notice,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolInput,
    ToolRan,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
    VendorBlock,
    Withdrawn,
)

MODEL = Model("gpt-5", "openai", "gpt-5")
CALL = Call((Turn("user", "hello"),), tokens=40)


def stand_in(**fields: object) -> Any:
    return SimpleNamespace(**fields)


class Answer:
    """A fold with its dependencies; `feed` passes events to it."""

    def __init__(
        self, *, tool: str = "chat", most: int = 1000, agent: bool = False, is_json: bool = False
    ) -> None:
        self.live = Live("job_1", ("gpt-5",))
        self.job = stand_in(
            id="job_1",
            tool=tool,
            caller=SimpleNamespace(settings=Settings(max_answer_bytes=most)),
            task=SimpleNamespace(asked_for=lambda name: name != "verbosity"),
        )
        self.route = stand_in(
            name="gpt-5",
            provider="openai",
            model=None if agent else MODEL,
            cost=lambda usage: usage.input / 10 + usage.output,
        )
        self.fold = Fold(self.job, self.live, "0", "answer", self.route, is_json=is_json)
        self.is_full = False

    def feed(self, *events: Event) -> Answer:
        for event in events:
            self.is_full = not self.fold.take(event)
        return self

    @property
    def events(self) -> list[JobEvent]:
        return [event for event in self.live.events if event.kind != "model_started"]

    @property
    def text(self) -> str:
        return self.live.slots["0"].text()

    def spent(self) -> Usage:
        return self.fold.spent(CALL)


# ── what an answer that ends early has used ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("events", "tokens"),
    [
        ([], (0, 0)),
        ([Text("x" * 8)], (40, 2)),
        ([Text("x" * 9)], (40, 3)),
        ([Text("éé")], (40, 2)),  # three quarters of a token for two bytes
        ([Thinking("x" * 4), Text("x" * 4)], (40, 2)),
        ([ToolInput("c", "look", "x" * 8)], (40, 2)),
    ],
)
def test_unreported_usage_is_estimated(events: list[Event], tokens: tuple[int, int]) -> None:
    used = Answer().feed(*events).spent()
    assert (used.input, used.output) == tokens
    assert used.estimated == bool(events)
    assert used.cost_usd == pytest.approx(tokens[0] / 10 + tokens[1])


def test_a_report_counts_and_only_what_came_after_it_is_estimated() -> None:
    answer = Answer().feed(Text("x" * 400), UsageReport(Usage(input=7, output=3)))
    assert answer.spent() == Usage(input=7, output=3, cost_usd=3.7)
    used = answer.feed(Text("x" * 8)).spent()
    assert (used.input, used.output, used.estimated) == (7, 5, True)


def test_a_vendors_own_price_wins() -> None:
    assert Answer().feed(UsageReport(Usage(input=7, output=3, cost_usd=0.5))).spent().cost_usd == 0.5


def test_an_agents_input_is_not_estimated() -> None:
    used = Answer(agent=True).feed(Text("x" * 8)).spent()
    assert (used.input, used.output, used.estimated) == (0, 2, True)


def test_the_input_of_a_call_that_was_not_counted_is_estimated() -> None:
    answer = Answer().feed(Text("x"))
    used = answer.fold.spent(Call((Turn("user", "x" * 400),)))
    assert 100 <= used.input <= 120


def test_a_finished_answer_has_the_reported_usage() -> None:
    answer = Answer().feed(
        UsageReport(Usage(input=7, output=3)), Text("x" * 8), Finished("stop", "gpt-5-2026", session="s")
    )
    assert answer.spent() == Usage(input=7, output=3, cost_usd=3.7)
    reply = answer.fold.reply(CALL)
    assert (reply.text, reply.finish_reason, reply.vendor_model, reply.session) == (
        "x" * 8,
        "stop",
        "gpt-5-2026",
        "s",
    )
    assert (reply.provider, reply.model, reply.usage) == ("openai", "gpt-5", answer.spent())


# ── the limit ────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_cut_at_the_limit_and_says_so() -> None:
    answer = Answer(most=10)
    assert answer.fold.push("12345678")
    assert not answer.fold.push("90é"), "whoever reads the events ends the answer there"
    answer.feed(Text("9é…"))
    assert answer.text == "123456789"
    assert answer.is_full
    answer.fold.cut_off()
    reply = answer.fold.reply(CALL)
    assert reply.finish_reason == "length"
    assert reply.notices[-1].is_incomplete
    assert reply.usage.estimated, "a vendor bills what it sent"


def test_an_answer_that_just_fits_the_limit_is_complete() -> None:
    answer = Answer(most=10)
    assert answer.fold.push("1234567890")
    assert not answer.is_full
    assert not answer.fold.push("1")


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────


def test_half_a_character_waits_for_its_other_half_or_the_end() -> None:
    answer = Answer().feed(Text("a\ud83d"))
    assert answer.text == "a"
    answer.feed(Text("\ude00b"), Text("\ud83d"))
    assert answer.text == "a\U0001f600b"
    answer.fold.end_text()
    assert answer.text == "a\U0001f600b\ufffd"


def test_withdrawn_text_makes_room_and_followers_learn_why() -> None:
    answer = Answer(most=10).feed(Text("1234"), Text("567890"), Withdrawn("567890", "It broke."))
    assert answer.text == "1234"
    (event,) = answer.events
    assert isinstance(event, Restarted)
    assert (event.model, event.next, event.error, event.offset) == ("gpt-5", "gpt-5", "It broke.", 4)
    answer.feed(Text("abcdef"))
    assert answer.text == "1234abcdef"
    assert not answer.is_full


def test_json_is_shown_as_plain_text_and_kept_as_json() -> None:
    answer = Answer(is_json=True).feed(Text('{"answer": "Th'), Text('ree", "confidence": 1}'))
    assert answer.fold.buffer.text() == '{"answer": "Three", "confidence": 1}'
    assert answer.text.startswith("Three")
    assert answer.fold.reply(CALL).is_json
    answer = Answer(is_json=True).feed(Text('{"answer": "Th'), Text("xx"), Withdrawn("xx", "It broke."))
    assert (answer.fold.buffer.text(), answer.text) == ('{"answer": "Th', "Th")


# ── a completion's parts ─────────────────────────────────────────────────────────────────────────────


def test_a_completion_has_its_parts_in_order_and_followers_get_them() -> None:
    block = VendorBlock("anthropic", {"type": "web_search_tool_result"})
    answer = Answer(tool="completion").feed(
        Thinking("hm"),
        Thought("anthropic", {"signature": "s"}),
        Text("Look: "),
        ToolInput("c1", "look", '{"a"'),
        ToolInput("c1", "look", ":1}"),
        ToolUse(ToolCall("c1", "look", {"a": 1})),
        block,
    )
    parts = answer.fold.reply(CALL).parts
    assert [part["type"] for part in parts] == ["thinking", "text", "tool_call", "vendor"]
    assert parts[0] == {
        "type": "thinking", "text": "hm", "wire": "anthropic", "item": {"signature": "s"}
    }  # fmt: skip
    kinds = [event.part["type"] for event in answer.events if isinstance(event, PartAdded)]
    assert kinds == ["thinking", "tool_call", "vendor"]
    slot = answer.live.slots["0"]
    assert slot.inputs == {"c1": 7}
    assert slot.has_calls is True


def test_thinking_alone_can_be_continued_by_another_answer() -> None:
    answer = Answer(tool="completion").feed(Thinking("hm"), Thought("anthropic", {"signature": "s"}))
    assert not answer.live.slots["0"].is_read
    assert answer.feed(ToolInput("c1", "look", "")).live.slots["0"].is_read


def test_followers_get_whole_characters_of_arguments() -> None:
    answer = Answer(tool="completion")
    answer.feed(
        ToolInput("c1", "look", '"\ud83d'), ToolInput("c2", "look", "é"), ToolInput("c1", "look", '\ude00"')
    )
    assert answer.live.slots["0"].inputs == {"c1": 3, "c2": 1}


def test_elsewhere_a_call_is_one_event_and_there_are_no_parts() -> None:
    answer = Answer().feed(
        ToolInput("c1", "look", "{"),
        ToolUse(ToolCall("c1", "look", {})),
        Thought("x", {}),
        VendorBlock("x", {"type": "y"}),
    )
    (event,) = answer.events
    assert isinstance(event, ToolUsed)
    assert (event.name, event.run) == ("look", None)
    reply = answer.feed(Finished(vendor={"id": "r"})).fold.reply(CALL)
    assert (reply.parts, reply.vendor) == ((), {})


# ── notices and tools ────────────────────────────────────────────────────────────────────────────────


def test_settings_that_were_left_out_are_named_once_if_somebody_asked_for_them() -> None:
    def left_out(name: str) -> Notice:
        return Notice("left_out", f"{name} was left out", {"setting": name})

    names = ("temperature", "verbosity", "temperature", "effort")
    reply = Answer().feed(*map(left_out, names)).fold.reply(CALL)
    assert reply.left_out == ("temperature", "effort")
    assert reply.notices == ()


def test_a_retry_is_shown_as_a_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "counsel.calls")
    answer = Answer().feed(
        Notice("retry", "Attempt 2 of 3", {"attempt": 2, "wait": 5.0, "reason": "rate limit"})
    )
    notice, event = answer.events
    assert notice.kind == "notice"
    assert isinstance(event, Waiting)
    assert event.wait is not None
    assert event.wait.reason == "retry"
    assert event.wait.text.startswith("the next attempt at ")
    assert event.wait.text.endswith(" (rate limit)")
    assert event.wait.at is not None
    assert event.wait.at - event.at == pytest.approx(5.0, abs=1.0)
    assert "will be tried again: attempt 2, wait 5.0, reason rate limit" in caplog.text
    plain = Answer().feed(Notice("retry", "Attempt 2 of 3", {"wait": 5.0})).events[-1]
    assert isinstance(plain, Waiting)
    assert plain.wait is not None
    assert plain.wait.text.endswith(" (it failed)")


def test_a_notice_to_a_completion_names_its_setting() -> None:
    notice = Notice("left_out", "It was left out.", {"setting": "temperature"})
    (event,) = Answer(tool="completion").feed(notice).events
    assert event.data["setting"] == "temperature"
    (event,) = Answer().feed(notice).events
    assert "setting" not in event.data


def test_notices_and_tools_are_limited_and_the_last_one_is_kept() -> None:
    answer = Answer().feed(*(Notice("source", str(number)) for number in range(MOST_NOTICES + 5)))
    answer.feed(*(ToolRan("files_read", "files", "read", 3, ok=True) for _ in range(MOST_TOOLS + 5)))
    answer.fold.cut_off()
    reply = answer.fold.reply(CALL)
    assert len(reply.notices) == MOST_NOTICES + 1
    assert reply.notices[-1].is_incomplete
    assert len(reply.tools) == MOST_TOOLS
    assert (reply.tools[0].server, reply.tools[0].tool, reply.tools[0].ms, reply.tools[0].ok) == (
        "files",
        "read",
        3,
        True,
    )
