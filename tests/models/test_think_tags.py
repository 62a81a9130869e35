"""Where the thinking of an answer ends whose beginning the server has written into the prompt."""

from __future__ import annotations

import pytest

from counsel.models.wires.think_tags import lone_end


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Hm.\n</think>\n\nBerlin.", ("Hm.\n", "Berlin.")),
        ("Hm.\r\n</think>\r\n\r\nBerlin.", ("Hm.\r\n", "Berlin.")),
        ("</think>\n\nBerlin.", ("", "Berlin.")),
        ("Hm.\n  </think>", ("Hm.\n", "")),
        ("```\ncode\n```\n</think>\nBerlin.", ("```\ncode\n```\n", "Berlin.")),
        ("Berlin.", None),
        ("The tag </think> ends it.", None),
        ("It ends with </think>\nand goes on.", None),
        ("Write <think>\nHm.\n</think>\nthen the answer.", None),
        ("```\n</think>\n```", None),
    ],
)
def test_a_lone_end_is_a_line_of_its_own_that_nothing_quotes(
    text: str, parts: tuple[str, str] | None
) -> None:
    assert lone_end(text) == parts
