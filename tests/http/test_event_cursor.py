"""Resuming a job's events, cut at every place: nothing is missing, nothing comes twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

import pytest

from counsel.engine.jobs.events import Live
from counsel.errors import InvalidArgument, TimedOut
from counsel.http.api.event_cursor import Cursor, resumed
from counsel.job_events import JobDone, JobEvent, ModelStarted, Restarted, TextAdded, TextFold


async def stream(events: Iterable[JobEvent]) -> AsyncGenerator[JobEvent]:
    for event in events:
        yield event


async def read(events: Iterable[JobEvent], cursor: str = "0") -> list[tuple[str, JobEvent]]:
    return [entry async for entry in resumed(stream(events), Cursor.parse("after", cursor))]


def consensus_events() -> tuple[list[JobEvent], list[JobEvent], list[JobEvent]]:
    """A consensus with a retry, a failure and two phases: its events for a live client, in the store, and for a
    late client."""
    live, events, stored_events = Live("job", ("a", "b")), list[JobEvent](), list[JobEvent]()

    class Listener:
        put = staticmethod(events.append)

    live._listeners.add(Listener())  # type: ignore[arg-type]
    live.started("consensus", ("a", "b"), "job", "conv")
    live.begin("0", "initial")
    live.begin("1", "initial")
    for slot, text in (("0", "one "), ("1", "eins "), ("0", "two "), ("0", "bad ")):
        live.text(slot, text)
    stored_events += live.unwritten()
    live.restart("0", "retried", "lost", model="a", after="a", keep=8)
    live.text("0", "three \U0001f986 ")
    live.thinking("1", "hm")
    live.text("1", "zwei ")
    stored_events += live.unwritten()
    live.finish("0", "p", 1, 10)
    live.fail("1", TimedOut("late"))
    live.phase("refined")
    live.begin("0", "refined")
    live.text("0", "better ")
    stored_events += live.unwritten()
    live.text("0", "than before")
    late = live._so_far()
    return events, stored_events, late


def texts(events: Iterable[JobEvent]) -> dict[str, str]:
    fold = TextFold()
    for event in events:
        fold.add(event)
    return {slot: buffer.text() for slot, buffer in fold.texts.items()}


def assert_only_appends(events: Iterable[JobEvent]) -> None:
    """Fail if a text does not continue the text before it."""
    fold = TextFold()
    for event in events:
        if isinstance(event, TextAdded):
            assert event.offset == len(fold.of(event.slot).text())
        fold.add(event)


def test_the_texts_of_a_judge_and_of_a_third_round_have_a_place_in_a_cursor() -> None:
    cursor = Cursor(17)
    for slot, phase in (("0", "refined2"), ("judge", "verdict")):
        cursor.advance(TextAdded(17, 1.0, slot, "word", 0, phase))
    again = Cursor.parse("job", str(cursor))
    assert again.seq == 17
    assert {slot: (text.phase, text.length) for slot, text in again.texts.items()} == {
        "0": ("refined2", 4),
        "judge": ("verdict", 4),
    }


async def test_a_live_stream_is_resumed_at_every_event() -> None:
    events, _, _ = consensus_events()
    entries = await read(events)
    assert [event for _, event in entries] == events
    for position, (cursor, _) in enumerate(entries, 1):
        rest = [event for _, event in await read(events, cursor)]
        expected = [event for event in events[position:] if event.kind != "thinking"]
        assert [event for event in rest if event.kind not in {"thinking", "text"}] == [
            event for event in expected if event.kind != "text"
        ]
        both = [*events[:position], *rest]
        assert_only_appends(both)
        assert texts(both) == texts(events)


@pytest.mark.parametrize("source", ["stored", "late"])
async def test_a_client_of_a_live_stream_continues_with_stored_and_late_events(source: str) -> None:
    events, stored_events, late = consensus_events()
    again = stored_events if source == "stored" else late
    for position, (cursor, _) in enumerate(await read(events), 1):
        both = [*events[:position], *(event for _, event in await read(again, cursor))]
        expected = texts(events)
        if source == "stored":  # text that was not written yet comes later, if the job continues
            expected["0"] = max(texts(stored_events)["0"], texts(events[:position]).get("0", ""), key=len)
            if position < len(events) - 1:
                expected["0"] = texts(stored_events)["0"]
        assert texts(both) == expected, position
        seqs = [event.seq for event in both if event.kind not in {"text", "thinking"}]
        assert seqs == sorted(set(seqs)), position


async def test_another_text_under_the_same_name_is_sent_as_a_whole() -> None:
    """The events of a job that ended at once are not stored, only its answer."""
    first = TextAdded(1, 0.0, "0", "abandoned", 0, "answer")
    ((cursor, _),) = await read([first])
    end = JobDone(2, 0.0, "", "completed")
    for text in ("the real answer", "real"):
        answer = TextAdded(1, 0.0, "0", text, 0, "answer")
        rest = [event for _, event in await read([answer, end], cursor)]
        assert texts([first, *rest]) == {"0": text}
    longer = TextAdded(1, 0.0, "0", "abandoned, or not", 0, "answer")
    (_, event), _ = await read([longer, end], cursor)
    assert (event.data["text"], event.data["offset"]) == (", or not", 9)


async def test_a_job_that_is_replayed_from_its_start_repeats_nothing() -> None:
    """Another process took it over while a client followed."""
    events, stored_events, _ = consensus_events()
    both = [event for _, event in await read([*events, *stored_events])]
    assert texts(both) == texts(events)
    assert [event for event in both if event.kind not in {"text", "thinking"}] == [
        event for event in events if event.kind not in {"text", "thinking"}
    ]


async def test_a_cut_text_is_continued_after_the_cut() -> None:
    events: list[JobEvent] = [
        TextAdded(1, 0.0, "0", "keep drop", 0, "answer"),
        Restarted(2, 0.0, "0", "m", "answer", "retried", "x", "m", 5),
        TextAdded(2, 0.0, "0", "new", 5, "answer"),
    ]
    for position in range(1, 4):
        cursor = (await read(events))[position - 1][0]
        both = [*events[:position], *(event for _, event in await read(events, cursor))]
        assert texts(both) == {"0": "keep new"}


@pytest.mark.parametrize(
    "value", ["", "a", "-1", "01", "1~0", "1~0.answer.1", "1~0.A.1.", "1~0.a.1.xyz", "9" * 19]
)
def test_an_invalid_cursor_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match="after must be the id of an event"):
        Cursor.parse("after", value)


def test_a_cursor_counts_the_texts_of_each_phase_on_its_own() -> None:
    cursor = Cursor(3)
    for phase, words, offset in (("initial", "one ", 0), ("initial", "two", 4), ("refined", "new", 0)):
        cursor.advance(TextAdded(4, 1.0, "0", words, offset, phase))
        text = cursor.texts["0"]
        assert (text.phase, text.length) == (phase, offset + len(words))
    assert cursor.seq == 3, "a text has no number of its own"
    assert cursor.texts["0"].begins("new words")
    assert not cursor.texts["0"].begins("old")


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ("0", True),
        ("17", True),
        (str(2**62), True),
        (str(2**62 + 1), False),
        ("017", False),
        ("-1", False),
        ("", False),
        ("1~0.answer.4.00000000", True),
        ("1~0.answer.4.", True),
        ("1~0.answer.4.0", False),
        ("1~0.answer.12345678901.", False),
        (f"1{'~0.answer.4.' * 334}", False),
    ],
)
def test_which_cursors_are_valid(value: str, is_valid: bool) -> None:
    if is_valid:
        assert str(Cursor.parse("after", value)).partition("~")[0] == value.partition("~")[0]
        return
    with pytest.raises(InvalidArgument, match="after must be the id of an event"):
        Cursor.parse("after", value)


def test_a_model_that_has_said_nothing_has_no_place_in_a_cursor() -> None:
    cursor = Cursor()
    cursor.advance(ModelStarted(3, 0.0, "0", "gpt-5", "initial"))
    assert str(cursor) == "3"
    cursor.advance(TextAdded(0, 0.0, "0", "ab", 0, "initial"))
    cursor.advance(TextAdded(0, 0.0, "0", "c", 2, "initial"))
    assert str(cursor) == "3~0.initial.3.352441c2", "the checksum of all of it"
