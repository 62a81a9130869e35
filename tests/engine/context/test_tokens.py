from __future__ import annotations

from typing import Any

import pytest

from counsel.engine.context import tokens
from counsel.errors import ContextLengthExceeded
from counsel.types import Call, Image, Model, ModelSettings, ToolCall, ToolResult, ToolSpec, Turn

MODEL = Model("m", "openai", "m", context=1_000)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("The quick brown fox jumps over the lazy dog. " * 20, 200, 240),  # cl100k: 200
        ("Съешь же ещё этих мягких французских булок. " * 10, 150, 330),
        ("今天天气很好,我们去公园散步吧。" * 10, 150, 220),
        ("🦊🚀🎉" * 10, 50, 60),
        ("\ud800", 1, 3),
    ],
)
def test_estimates_are_close_and_on_the_high_side(text: str, least: int, most: int) -> None:
    assert least <= tokens.estimate(text) <= most


def test_a_call_counts_all_its_parts() -> None:
    plain = Call(turns=(Turn("user", "x" * 400),))
    base = tokens.estimate_call(plain, MODEL)
    assert base == 104
    more = Call(
        system="y" * 400,
        turns=(
            Turn("user", "x" * 400, images=(Image("image/png", b""),)),
            Turn("assistant", tool_calls=(ToolCall("1", "grep", {"pattern": "z" * 400}),)),
            Turn("tool", tool_results=(ToolResult("1", "grep", "w" * 400),)),
        ),
        tools=(ToolSpec("grep", "d" * 400, {}),),
    )
    arguments = tokens.estimate('{"pattern": "' + "z" * 400 + '"}')
    name, schema = 1, tokens.estimate("grep" + "d" * 400 + "{}")
    assert tokens.estimate_call(more, MODEL) == 100 + schema + (104 + 1_600) + (4 + name + arguments) + 104


@pytest.mark.parametrize(
    ("text", "expected"), [("abcd", 1), ("abcde", 2), ("ж", 1), ("жжжж", 3), ("好" * 4, 5), ("🦊" * 4, 7)]
)
def test_estimates_count_characters_and_the_bytes_beyond_one(text: str, expected: int) -> None:
    assert tokens.estimate(text) == expected


@pytest.mark.parametrize(
    ("vendor", "size", "expected"),
    [
        ("anthropic", (750, 1000), 1001),
        ("anthropic", (4000, 4000), 1600),
        ("google", (300, 300), 258),
        ("google", (384, 384), 258),
        ("google", (385, 385), 258),
        ("google", (1000, 700), 516),
        ("google", (768, 1536), 516),
        ("google", (769, 1537), 1548),
        ("google", (4000, 4000), 2240),
        ("openai", (512, 512), 256),
        ("openai", (513, 100), 425),
        ("openai", (1024, 768), 768),
        ("openai", (2048, 4096), 1792),
        ("anthropic", (10, 10), 1),
        ("mistral", (320, 320), 100),
        ("mistral", (321, 320), 110),
        ("mistral", (0, 320), 1600),
        ("mistral", (320, 0), 1600),
        ("mistral", (4000, 4000), 1792),
    ],
)
def test_images_count_as_their_vendor_counts(vendor: str, size: Any, expected: int) -> None:
    image = Image("image/png", b"", width=size[0], height=size[1])
    assert tokens.estimate_image(image, Model("m", vendor, "m")) == expected


def test_a_call_that_fits_passes_with_its_estimate() -> None:
    assert tokens.check_window(Call(turns=(Turn("user", "x" * 3_984),)), MODEL) == 1_000


def test_a_call_that_does_not_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(ContextLengthExceeded) as excinfo:
        tokens.check_window(Call(turns=(Turn("user", "x" * 3_988),)), MODEL)
    assert (excinfo.value.max_tokens, excinfo.value.provided_tokens) == (1_000, 1_001)
    assert "larger context" in (excinfo.value.hint or "")


@pytest.mark.parametrize(
    ("provider", "size", "estimate"),
    [
        ("google", (384, 384), 258),
        ("google", (385, 100), 258),
        ("google", (769, 768), 516),
        ("google", (1000, 1600), 1548),
        ("google", (9000, 9000), 2240),
        ("anthropic", (750, 100), 101),
        ("anthropic", (9000, 9000), 1600),
        ("openai", (512, 512), 256),
        ("openai", (520, 100), 425),
        ("openai", (4096, 1024), 1792),
        ("mistral", (64, 33), 4),
        ("mistral", (9000, 9000), 1792),
        ("mistral", (0, 0), 1600),
    ],
)
def test_an_image_counts_as_its_vendor_counts_it(provider: str, size: tuple[int, int], estimate: int) -> None:
    image = Image("image/png", b"", width=size[0], height=size[1])
    assert tokens.estimate_image(image, Model("m", provider, "m")) == estimate


def test_what_a_budget_is_reserved_for() -> None:
    def at_most(text: str = "", **fields: Any) -> int:
        searching = fields.pop("searching", True)
        call = Call(
            (Turn("user", text),),
            model_settings=ModelSettings(web_search=fields.pop("search", False)),
            **fields,
        )
        return tokens.at_most(call, Model("m", "openai", "m", web_search=searching))

    plain = tokens.estimate_call(Call((Turn("user", ""),)), MODEL)
    assert at_most() == plain * 3 // 2 + 1_000
    assert at_most(search=True) == at_most() + 30_000, "search results are input, too"
    assert at_most(search=True, searching=False) == at_most()
    prose = "words of prose " * 400
    assert at_most(prose) == (plain + tokens.estimate(prose)) * 3 // 2 + 1_000
    digits = "1" * 2_400
    assert at_most(digits) == (plain + 600) * 3 // 2 + 700 + 1_000, "a token for 1.5 characters"


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ("1" * 2_401, 701),  # every character counts, also the first
        ("1" * 5_000, 1_459),  # a second chunk counts, too
        ("1" * 4_096 + "words of prose " * 100, 1_195),
        ("words of prose " * 300 + "1" * 4_096, 1_313),  # chunks are taken as they come
        ("a" * 11 + "\n", 0),  # a line break for every 12 characters
        ("a" * 12 + "\n", 4),
        (("a" * 11 + " ") * 100, 0),
        ("é" * 2_400, 0),  # its bytes are counted already
        ("", 0),
    ],
)
def test_dense_text_needs_more_tokens_than_prose(text: str, extra: int) -> None:
    assert tokens._extra_tokens(text) == extra


def test_everything_that_a_vendor_gets_counts_for_a_budget() -> None:
    dense = "1" * 2_400
    model = Model("m", "openai", "m")

    def at_most(**fields: Any) -> int:
        return tokens.at_most(Call(**{"turns": (Turn("user", ""),), **fields}), model)

    plain = at_most()
    assert at_most(system=dense) == plain + 600 * 3 // 2 + 700
    result = Turn("tool", tool_results=(ToolResult("1", "grep", dense),))
    assert at_most(turns=(Turn("user", ""), result)) >= plain + 600 * 3 // 2 + 700
    native = Turn("assistant", native={"wire": "x", "text": dense})
    assert at_most(turns=(Turn("user", ""), native)) >= plain + 600 * 3 // 2 + 700
    tools = (ToolSpec("grep", "", {"x": dense}),)
    assert at_most(tools=tools) >= plain + 600 * 3 // 2 + 700
