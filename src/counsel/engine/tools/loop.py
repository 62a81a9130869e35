"""Tool sharing: a consulted model uses MCP servers of the user's agents while it answers.

Like a route, `answer` yields the events of one answer, but in rounds: the model requests tool calls, they are made, it
reads their results and continues. Only tools that are marked read-only are offered, unless the user allows others.
Arguments and results are content: events name only the tool and whether it succeeded.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from counsel.caller import Caller
from counsel.engine.consult import empty_answers
from counsel.engine.consult.routes import Route
from counsel.engine.context import tokens
from counsel.engine.tools.choose import SharedServer, choose, workspace_for
from counsel.engine.tools.connections import ServerConnection, ToolOutput, open_connections
from counsel.errors import UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.types import (
    Call,
    Event,
    Finished,
    Notice,
    Text,
    ToolCall,
    ToolRan,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
)

if TYPE_CHECKING:
    from mcp.types import Tool

ROUNDS = 16
MOST_TOOLS = 64
AT_ONCE = 8  # concurrent calls in one round
LONGEST_NAME = 63  # Gemini's; OpenAI and Anthropic take 64
LONGEST_DESCRIPTION = 1024  # OpenAI's
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")
_LAST_ROUND = "\n\n[This was the last round of tool calls: answer with what you have.]"


def answer(route: Route, call: Call, names: tuple[str, ...], caller: Caller) -> AsyncGenerator[Event]:
    """The route's answer, with these servers' tools if it can use tools."""
    if route.model is None:
        return _without_tools(route, call, f"{route.name} uses the MCP servers of its own configuration")
    if not route.model.tools:
        return _without_tools(route, call, f"{route.name} cannot use tools")
    return _with_tools(route, call, names, caller)


async def _without_tools(route: Route, call: Call, why: str) -> AsyncGenerator[Event]:
    yield Notice("left_out", f"{why}: `tools` was left out.", {"setting": "tools"})
    async with aclosing(_events(route, call)) as events:
        async for event in events:
            yield event


async def _with_tools(
    route: Route, call: Call, names: tuple[str, ...], caller: Caller
) -> AsyncGenerator[Event]:
    servers = await asyncio.to_thread(choose, names, caller)
    async with open_connections(servers, workspace_for(caller, route.name)) as connections:
        offer = Offer.of(connections, write=caller.settings.shared_tools_write)
        for notice in (*_differences(servers), *_unset(connections), *offer.notices):
            yield notice
        async with aclosing(_rounds(route, replace(call, tools=offer.specs), offer)) as events:
            async for event in events:
                yield event


def _events(route: Route, call: Call) -> AsyncGenerator[Event]:
    """The route's events. Routes answer with generators: closing one closes the upstream connection."""
    return route.answer(call)


# ── the loop ─────────────────────────────────────────────────────────────────────────────────────────


async def _rounds(route: Route, call: Call, offer: Offer) -> AsyncGenerator[Event]:
    account = Account(route)
    for number in range(1, ROUNDS + 2):
        if route.model:
            call = replace(call, tokens=tokens.check_window(call, route.model))
        round_ = Round()
        async with aclosing(_events(route, call)) as events:
            async for event in events:
                for visible_event in round_.on_event(event, account):
                    yield visible_event
        account.close()
        if not round_.wants_tools:
            # "Let me look." before a tool call is not an answer, so the last round must have text of its own.
            if failure := empty_answers.failure(route, round_.finished, round_.text):
                raise failure
            yield round_.finished
            return
        if number > ROUNDS:
            break
        completed_calls = await _call_all(offer, round_.calls)
        for completed_call in completed_calls:
            yield completed_call.event
        last = _LAST_ROUND if number == ROUNDS else ""
        call = replace(call, turns=(*call.turns, round_.turn(), _results(completed_calls, last)))
    raise UpstreamError(
        f"{route.name} still called tools after {ROUNDS} rounds and gave no answer.",
        hint="Ask a narrower question, or share fewer tools.",
        provider=route.provider,
        model=route.name,
    )


class Account:
    """All rounds together: sums their usage, passes on each notice once, and puts a blank line between their texts."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._before = Usage(cost_usd=0.0)
        self._now = Usage(cost_usd=0.0)
        self._notified: set[tuple[str, str]] = set()
        self._has_text = False  # an earlier round had text
        self._in_text = False

    def usage(self, report: UsageReport) -> UsageReport:
        """The usage so far. Prices may depend on a request's size, so each round is priced by itself."""
        usage = report.usage
        cost = usage.cost_usd if usage.cost_usd is not None else self._route.cost(usage)
        self._now = replace(usage, cost_usd=cost)
        return UsageReport(self._before + self._now)

    def text(self, event: Text) -> list[Event]:
        first, self._in_text = not self._in_text, True
        return [Text("\n\n"), event] if first and self._has_text else [event]

    def notice(self, notice: Notice) -> list[Event]:
        name = (notice.kind, notice.text)
        if name in self._notified and notice.kind != "retry":
            return []
        self._notified.add(name)
        return [notice]

    def close(self) -> None:
        """End the round."""
        self._before, self._now = self._before + self._now, Usage(cost_usd=0.0)
        self._has_text, self._in_text = self._has_text or self._in_text, False


class Round:
    """A model's answer to one request."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.finished = Finished()
        self._pieces: list[str] = []

    @property
    def wants_tools(self) -> bool:
        """Whether to make tool calls; not if the answer was cut off or filtered."""
        return bool(self.calls) and self.finished.reason not in {"length", "filtered", "broken"}

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def on_event(self, event: Event, account: Account) -> list[Event]:
        if isinstance(event, Finished):
            self.finished = event
            return []
        if isinstance(event, ToolUse):
            self.calls.append(event.call)
            return [event]
        if isinstance(event, Text):
            self._pieces.append(event.delta)
            return account.text(event)
        if isinstance(event, UsageReport):
            return [account.usage(event)]
        return account.notice(event) if isinstance(event, Notice) else [event]

    def turn(self) -> Turn:
        return Turn(
            "assistant",
            self.text,
            tool_calls=tuple(self.calls),
            native=self.finished.native,
        )


@dataclass(frozen=True, slots=True)
class CompletedCall:
    call: ToolCall
    output: ToolOutput
    server: str = ""
    tool: str = ""

    @property
    def event(self) -> ToolRan:
        return ToolRan(self.call.name, self.server, self.tool, self.output.ms, ok=self.output.ok)


async def _call_all(offer: Offer, calls: Sequence[ToolCall]) -> list[CompletedCall]:
    limiter = asyncio.Semaphore(AT_ONCE)

    async def run_call(call: ToolCall) -> CompletedCall:
        async with limiter:
            return await offer.run(call)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_call(call)) for call in calls]
    return [task.result() for task in tasks]


def _results(completed_calls: Sequence[CompletedCall], last: str) -> Turn:
    results = tuple(
        ToolResult(
            completed_call.call.id,
            completed_call.call.name,
            completed_call.output.text + last,
            is_error=not completed_call.output.ok,
        )
        for completed_call in completed_calls
    )
    return Turn("tool", tool_results=results)


# ── the offer ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools as the model sees them, and the server and tool behind each name."""

    specs: tuple[ToolSpec, ...]
    targets: dict[str, tuple[ServerConnection, str]]
    notices: tuple[Notice, ...] = ()

    @classmethod
    def of(cls, connections: Sequence[ServerConnection], *, write: bool) -> Offer:
        specs: list[ToolSpec] = []
        targets: dict[str, tuple[ServerConnection, str]] = {}
        notices: list[Notice] = []
        for connection in connections:
            usable = [
                tool
                for tool in connection.tools
                if _is_included(tool, connection) and (write or _reads_only(tool))
            ]
            notices += _left_out(connection, usable)
            for tool in usable[: MOST_TOOLS - len(specs)]:
                name = tool_name(connection.name, tool.name, targets)
                specs.append(ToolSpec(name, _description(tool), _schema(tool.input_schema)))
                targets[name] = (connection, tool.name)
        return cls(tuple(specs), targets, (*notices, *_too_many(connections, targets, write=write)))

    async def run(self, call: ToolCall) -> CompletedCall:
        if call.name not in self.targets:
            names = ", ".join(self.targets) or "none"
            return CompletedCall(
                call, ToolOutput(f"There is no tool {call.name!r}. There are: {names}.", ok=False, ms=0)
            )
        connection, tool = self.targets[call.name]
        return CompletedCall(call, await connection.call(tool, call.arguments), connection.name, tool)


def _is_included(tool: Tool, connection: ServerConnection) -> bool:
    """Whether the entry in the agent's own configuration includes the tool."""
    include, exclude = connection.server.include_tools, connection.server.exclude_tools
    return (include is None or tool.name in include) and tool.name not in (exclude or ())


def _reads_only(tool: Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


def _left_out(connection: ServerConnection, usable: Sequence[Tool]) -> list[Notice]:
    writing_tools = [
        tool.name for tool in connection.tools if _is_included(tool, connection) and tool not in usable
    ]
    if usable or not connection.tools:
        text = "" if connection.tools else f"{connection.name} has no tools."
    elif writing_tools:
        text = (
            f"{connection.name} has no tool that is marked read-only, so none of its tools were shared "
            "(COUNSEL_SHARED_TOOLS_WRITE allows the others)."
        )
    else:
        text = f"{connection.name}: its entry in {connection.shared.row.agent} filters out all its tools."
    return [Notice("warning", text, {"server": connection.name})] if text else []


def _too_many(
    connections: Sequence[ServerConnection], targets: Mapping[str, object], *, write: bool
) -> list[Notice]:
    usable = sum(
        1
        for connection in connections
        for tool in connection.tools
        if _is_included(tool, connection) and (write or _reads_only(tool))
    )
    if usable <= len(targets):
        return []
    text = f"Only the first {len(targets)} of {usable} tools were offered to the model. Name fewer servers."
    return [Notice("warning", text, {"tools": usable, "offered": len(targets)})]


def tool_name(server: str, tool: str, names: Mapping[str, object]) -> str:
    """`server__tool` in the characters and length that every vendor accepts; unique."""
    name = _UNUSABLE.sub("_", f"{server}__{tool}")
    if not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"
    if len(name) > LONGEST_NAME or name in names:
        mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
        name = f"{name[: LONGEST_NAME - 9]}_{mark}"
    return name


def _description(tool: Tool) -> str:
    text = tool.description or tool.title or tool.name
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}…"


def _schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The server's schema with what OpenAI requires and without what Gemini does not know."""
    fields = {name: value for name, value in schema.items() if name != "$schema"}
    return {**fields, "type": "object", "properties": fields.get("properties") or {}}


# ── notices for the caller ───────────────────────────────────────────────────────────────────────────


def _differences(servers: Sequence[SharedServer]) -> list[Notice]:
    return [
        Notice(
            "warning",
            f"{server.name} is defined differently in {', '.join(server.differing)}; the definition from {server.row.agent} was used.",
            {"server": server.name, "agent": server.row.agent},
        )
        for server in servers
        if server.differing
    ]


def _unset(connections: Sequence[ServerConnection]) -> list[Notice]:
    return [
        Notice(
            "warning",
            f"{connection.name} refers to {', '.join(connection.unset)}, which is not set for this call.",
            {"server": connection.name, "unset": connection.unset},
        )
        for connection in connections
        if connection.unset
    ]
