"""A queue of events for a slow reader merges texts and loses none."""

from __future__ import annotations

import asyncio
from typing import Any

from counsel.engine.jobs import event_queue
from counsel.engine.jobs.event_queue import EventQueue, merged
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent


def event(kind: str, slot: str = "0", seq: int = 1, **data: Any) -> JobEvent:
    return event_from(seq, 0.0, kind, slot, data)


def text(words: str, offset: int, slot: str = "0", seq: int = 1) -> JobEvent:
    return event("text", slot, seq, text=words, offset=offset)


def summaries(items: list[Any]) -> list[tuple[str, str, Any, Any]]:
    return [(item.kind, item.slot, item.data.get("text"), item.data.get("offset")) for item in items]


def test_consecutive_texts_of_a_slot_become_one_with_the_number_of_the_first() -> None:
    items = merged([text("ab", 0, seq=3), text("cd", 2, seq=4), text("e", 4, seq=5)])
    assert items == [text("abcde", 0, seq=3)]


def test_slots_stay_separate_although_their_events_alternate() -> None:
    items = merged([text("a", 0), text("x", 0, "1"), text("b", 1), text("y", 1, "1")])
    assert summaries(items) == [("text", "0", "ab", 0), ("text", "1", "xy", 0)]


def test_a_gap_begins_a_new_piece() -> None:
    items = merged([text("ab", 0), text("new", 0), text("er", 3)])
    assert summaries(items) == [("text", "0", "ab", 0), ("text", "0", "newer", 0)]


def test_other_events_of_a_slot_end_its_text_and_leave_another_slots_open() -> None:
    items = merged(
        [text("a", 0), text("x", 0, "1"), event("notice", text="n"), text("b", 1), text("y", 1, "1")]
    )
    assert summaries(items) == [
        ("text", "0", "a", 0), ("text", "1", "xy", 0), ("notice", "0", "n", None), ("text", "0", "b", 1),
    ]  # fmt: skip


def test_an_event_of_the_job_ends_every_slots_text() -> None:
    items = merged([text("a", 0), text("x", 0, "1"), event("waiting", ""), text("b", 1), text("y", 1, "1")])
    assert [item.data.get("text") for item in items] == ["a", "x", None, "b", "y"]


def test_thinking_is_joined_and_items_that_are_not_events_stay() -> None:
    """A part ends the thinking: its signature belongs to what came before it."""
    part = event("part", part={"type": "thinking"})
    thoughts = [event("thinking", text=word) for word in ("h", "m", "so")]
    items = merged([thoughts[0], thoughts[1], part, thoughts[2], text("a", 0), text("b", 1), None])
    assert [item and item.data.get("text") for item in items] == ["hm", None, "so", "ab", None]


def test_pieces_are_joined_only_up_to_a_limit() -> None:
    size = 1 << 15
    items = merged([text("x" * size, size * n) for n in range(6)])
    assert [len(item.data["text"]) for item in items] == [3 * size, 3 * size]


async def test_a_queue_keeps_the_order_and_waits_for_news() -> None:
    queue = EventQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    for number in range(3):
        queue.put(number)
    assert [await waiting, await queue.get(), await queue.get()] == [0, 1, 2]
    assert len(queue) == 0


def test_a_queue_is_merged_when_many_wait_and_not_before() -> None:
    queue = EventQueue()
    for number in range(event_queue.MANY):
        queue.put(text("x", number))
    assert len(queue) == event_queue.MANY
    queue.put(text("x", event_queue.MANY))
    assert len(queue) == 1


def test_a_queue_that_cannot_be_merged_is_not_scanned_at_every_put(monkeypatch: Any) -> None:
    passes = 0

    def counted(items: Any) -> list[Any]:
        nonlocal passes
        passes += 1
        return list(items)

    monkeypatch.setattr(event_queue, "merged", counted)
    queue = EventQueue()
    for number in range(5 * event_queue.MANY):
        queue.put(number)
    assert len(queue) == 5 * event_queue.MANY
    assert passes == 3


def call(words: str, offset: int, name: str = "c1", slot: str = "0") -> JobEvent:
    return event("tool_input", slot, id=name, name="look", text=words, offset=offset)


def test_arguments_of_one_call_are_joined_until_something_else_comes() -> None:
    items = merged([call("{", 0), call('"a"', 1), call("[", 0, "c2"), call("]", 1, "c2"), call(":1}", 4)])
    assert [(item.id, item.text, item.offset) for item in items] == [
        ("c1", '{"a"', 0), ("c2", "[]", 0), ("c1", ":1}", 4)
    ]  # fmt: skip
    part = event("part", part={"type": "tool_call"})
    items = merged([call("{", 0), call("}", 1), part, call("{", 0, "c1", "1"), call("x", 1, "c1", "0")])
    assert [(item.slot, item.data.get("text")) for item in items] == [
        ("0", "{}"), ("0", None), ("1", "{"), ("0", "x")
    ]  # fmt: skip


def test_arguments_end_the_text_before_them() -> None:
    items = merged([text("a", 0), call("{", 0), text("b", 1), call("}", 1)])
    assert [item.data["text"] for item in items] == ["a", "{", "b", "}"]
