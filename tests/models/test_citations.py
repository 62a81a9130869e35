"""Sources that an answer names, in whichever part of the stream they arrive."""

from __future__ import annotations

import json
from typing import Any

from counsel.models.wires.anthropic_reader import MessagesReader
from counsel.types import Notice


def sources(reader: MessagesReader, *messages: dict[str, Any]) -> list[tuple[str, str]]:
    events = [
        event for message in messages for event in reader.feed(str(message["type"]), json.dumps(message))
    ]
    return [(event.text, event.data["url"]) for event in events if isinstance(event, Notice)]


def citation(url: str) -> dict[str, str]:
    return {"type": "web_search_result_location", "url": url, "title": url.rpartition("/")[2]}


def test_sources_of_a_block_that_comes_whole_and_of_pieces_are_named_once_each() -> None:
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {
            "type": "text",
            "text": "",
            "citations": [citation("https://x/a"), citation("https://x/b")],
        },
    }
    piece = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "citations_delta", "citation": citation("https://x/c")},
    }
    again = {**piece, "delta": {"type": "citations_delta", "citation": citation("https://x/a")}}
    result = sources(MessagesReader(streams_tools=False), start, piece, again)
    assert result == [("a", "https://x/a"), ("b", "https://x/b"), ("c", "https://x/c")]
