"""What a model reads from a tool's result, and which tools it is offered under which names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from counsel.engine.tools import connections, loop
from counsel.types import Finished, Notice, Text, ToolCall, Usage, UsageReport


def result(*blocks: Any, structured: Any = None) -> CallToolResult:
    return CallToolResult(content=list(blocks), structured_content=structured)


def test_every_kind_of_block_is_text_for_a_model() -> None:
    text = connections.as_text(
        result(
            TextContent(type="text", text="High water: 04:10"),
            EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="a page")),
            EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///b", blob="AA==")),
            ResourceLink(type="resource_link", name="tides", uri="file:///tides"),
            ImageContent(type="image", data="AA==", mime_type="image/png"),
        )
    )
    assert text.split("\n") == [
        "High water: 04:10",
        "a page",
        "[file:///b: binary, not passed on]",
        "tides: file:///tides",
        "[image image/png: not passed on]",
    ]


def test_structured_content_is_read_only_where_there_is_no_text() -> None:
    assert connections.as_text(result(structured={"at": "über"})) == '{"at": "über"}'
    assert connections.as_text(result(TextContent(type="text", text=""), structured={"a": 1})) == '{"a": 1}'
    assert (
        connections.as_text(result(TextContent(type="text", text="output"), structured={"a": 1})) == "output"
    )
    assert connections.as_text(result()) == ""


def test_a_long_result_is_cut_and_says_so() -> None:
    most = connections.MOST_TEXT
    assert connections.bounded("x" * most) == "x" * most
    assert connections.bounded("x" * (most + 1)) == "x" * most + "\n[cut: 40,000 of 40,001 characters]"


# ── which tools ──────────────────────────────────────────────────────────────────────────────────────


def tool(name: str, *, reads: bool | None = True, **fields: Any) -> Tool:
    annotations = None if reads is None else ToolAnnotations(read_only_hint=reads)
    return Tool(name=name, input_schema={"type": "object"}, annotations=annotations, **fields)


def link(name: str, *tools: Tool, include: Any = None, exclude: Any = None) -> Any:
    server = SimpleNamespace(include_tools=include, exclude_tools=exclude)
    shared = SimpleNamespace(row=SimpleNamespace(agent="claude"))
    return SimpleNamespace(name=name, tools=list(tools), server=server, shared=shared)


def offered(*links: Any, write: bool = False) -> tuple[list[str], list[str]]:
    offer = loop.Offer.of(links, write=write)
    return [spec.name for spec in offer.specs], [notice.text for notice in offer.notices]


def test_only_tools_that_call_themselves_read_only_are_offered() -> None:
    tides = link("tides", tool("read"), tool("write", reads=False), tool("silent", reads=None))
    assert offered(tides) == (["tides__read"], [])
    assert offered(tides, write=True) == (["tides__read", "tides__write", "tides__silent"], [])


def test_a_servers_entry_filters_its_tools() -> None:
    tools = (tool("a"), tool("b"), tool("c"))
    assert offered(link("s", *tools, include=("a", "b"), exclude=("b",)))[0] == ["s__a"]
    assert offered(link("s", *tools, exclude=("a",)))[0] == ["s__b", "s__c"]


def test_a_server_that_offers_no_tools_is_reported_with_the_reason() -> None:
    (writes,) = offered(link("s", tool("write", reads=False)))[1]
    (notice,) = offered(link("s", tool("a"), include=()))[1]
    (empty,) = offered(link("s"))[1]
    assert "no tool that is marked read-only" in writes
    assert "claude filters out all its tools" in notice
    assert empty == "s has no tools."


def test_at_most_64_tools_are_offered_and_the_rest_is_counted() -> None:
    names, notices = offered(
        link("a", *(tool(f"t{n}") for n in range(60))), link("b", *(tool(f"t{n}") for n in range(10)))
    )
    assert len(names) == loop.MOST_TOOLS
    assert names[59:] == ["a__t59", "b__t0", "b__t1", "b__t2", "b__t3"]
    assert notices[0].startswith("Only the first 64 of 70 tools were offered to the model.")
    assert offered(link("a", *(tool(f"t{n}") for n in range(64))))[1] == []


def test_names_suit_every_vendor_and_none_comes_twice() -> None:
    names = {"s__a_b": 1}
    assert loop.tool_name("s", "a.b", {}) == "s__a_b"
    assert loop.tool_name("9s", "a", {}) == "_9s__a"
    assert loop.tool_name("_s", "a", {}) == "_s__a"
    name = loop.tool_name("s", "a b", names)
    assert name.startswith("s__a_b_")
    assert len(name) == len("s__a_b_") + 8
    assert name != loop.tool_name("s", "a.b", names)
    assert loop.tool_name("s", "x" * 60, {}) == f"s__{'x' * 60}"
    longest = loop.tool_name("s", "x" * 61, {})
    assert len(longest) == loop.LONGEST_NAME
    assert longest.startswith("s__" + "x" * 51 + "_")


def test_a_description_is_the_tools_own_or_its_title_or_name_and_bounded() -> None:
    (spec,) = loop.Offer.of([link("s", tool("t", description="d" * 1_025))], write=False).specs
    assert spec.description == "d" * 1_023 + "…"
    tools = [tool("a", description="d" * 1_024), tool("b", title="Title"), tool("c")]
    assert [loop._description(tool_) for tool_ in tools] == ["d" * 1_024, "Title", "c"]


def test_a_schema_has_what_openai_requires_and_lacks_what_gemini_does_not_know() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "required": ["a"],
        "properties": {"a": {}},
    }
    assert loop._schema(schema) == {"type": "object", "required": ["a"], "properties": {"a": {}}}
    assert loop._schema({"properties": None}) == {"type": "object", "properties": {}}


async def test_a_tool_that_does_not_exist_is_answered_with_those_that_do() -> None:
    call = ToolCall("1", "nonsense", {})
    ran = await loop.Offer.of([link("s", tool("t"))], write=False).run(call)
    assert ran.output.text == "There is no tool 'nonsense'. There are: s__t."
    assert (ran.event.ok, ran.event.ms, ran.event.name, ran.event.server) == (False, 0, "nonsense", "")
    assert (await loop.Offer.of([], write=False).run(call)).output.text.endswith("There are: none.")


# ── several rounds as one answer ─────────────────────────────────────────────────────────────────────


def account(price: float = 1.0) -> loop.Account:
    route: Any = SimpleNamespace(cost=lambda usage: price * usage.output)
    return loop.Account(route)


def test_the_usage_of_all_rounds_is_summed_and_each_is_priced_by_itself() -> None:
    books = account()
    assert books.usage(UsageReport(Usage(input=1, output=2))).usage == Usage(input=1, output=2, cost_usd=2.0)
    assert books.usage(UsageReport(Usage(input=1, output=3))).usage.cost_usd == 3.0  # the same round, later
    books.close()
    later = books.usage(UsageReport(Usage(input=10, output=1, cost_usd=0.5))).usage
    assert (later.input, later.output, later.cost_usd) == (11, 4, 3.5)


def test_the_texts_of_two_rounds_are_separate_paragraphs() -> None:
    books = account()
    assert books.text(Text("Let me")) == [Text("Let me")]
    assert books.text(Text(" look.")) == [Text(" look.")]
    books.close()
    books.close()  # a round without words
    assert books.text(Text("It is")) == [Text("\n\n"), Text("It is")]
    assert books.text(Text(" 4:10.")) == [Text(" 4:10.")]


def test_a_notice_is_reported_once_but_every_retry_is() -> None:
    books = account()
    assert [books.notice(Notice(kind, "x", {})) != [] for kind in ("warning", "warning", "retry", "retry")] == [
        True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "made"), [("stop", True), ("tool_calls", True), ("length", False), ("filtered", False), ("broken", False)]
)  # fmt: skip
def test_calls_that_were_cut_off_are_not_made(reason: Any, made: bool) -> None:
    round_ = loop.Round()
    round_.calls.append(ToolCall("1", "t", {}))
    assert round_.on_event(Finished(reason), account()) == []
    assert round_.wants_tools is made
    round_.calls.clear()
    assert not round_.wants_tools
