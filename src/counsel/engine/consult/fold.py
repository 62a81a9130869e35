"""Folds one answer's events, as they arrive, into its text, what followers see, its usage, and finally the reply."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from counsel.engine.completions.parts import Parts
from counsel.engine.consult.budget import CallBudget
from counsel.engine.consult.routes import Route
from counsel.engine.context import tokens
from counsel.engine.history import call_log
from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.job_events import ToolRun, Wait
from counsel.live_json import LiveJson
from counsel.models import answer_limit
from counsel.requests import SEVERAL
from counsel.results import AnswerNotice
from counsel.text import TextBuffer, TextRepair
from counsel.tracing import NO_SPAN, Span
from counsel.types import (
    Call,
    Event,
    Finished,
    Notice,
    Text,
    Thinking,
    Thought,
    ToolInput,
    ToolRan,
    ToolUse,
    Usage,
    UsageReport,
    VendorBlock,
    Withdrawn,
)

MOST_NOTICES = 500  # per answer: sources, retries, warnings
MOST_TOOLS = 2_000  # tool calls per answer
_NO_USAGE = Usage()


def shown_name(job: Job, live: Live, slot: str, route: Route) -> str:
    """The model's name for followers."""
    return live.slots[slot].model if job.tool in SEVERAL else route.name


class Fold:
    """One answer in progress. Followers read its text from the same `buffer`, unless it is JSON that counsel parses."""

    def __init__(
        self, job: Job, live: Live, slot: str, phase: str, route: Route, *, is_json: bool = False
    ) -> None:
        self._job, self._live, self._slot, self._route = job, live, slot, route
        self._limit = job.caller.settings.max_answer_bytes
        self._size = 0  # bytes of `buffer`
        self._unbilled = 0  # quarters of a token, received since usage was last reported
        self._usage = _NO_USAGE
        self._notices: list[AnswerNotice] = []
        self._left_out: list[str] = []
        self._tools: list[ToolRun] = []
        self._repair = TextRepair()
        self._input_repairs: dict[str, TextRepair] = {}  # by tool call
        self._live_json = LiveJson() if is_json else None
        self.began = time.monotonic()
        self.finished: Finished | None = None
        self.budget: CallBudget | None = None
        self.span: Span = NO_SPAN
        self.parts = Parts() if job.tool == "completion" else None
        live_text = live.begin(slot, phase)
        self.buffer = TextBuffer() if is_json else live_text

    @property
    def reservations(self) -> tuple[str, ...]:
        return tuple(self.budget.reservations) if self.budget else ()

    def take(self, event: Event) -> bool:
        """Add an event. False: the answer is too long."""
        _HANDLERS[type(event)](self, event)
        return self._size <= self._limit

    # ── text ─────────────────────────────────────────────────────────────────────────────────────────

    def push(self, delta: str) -> bool:
        """Add text straight from the vendor's socket. False: it must come as an event."""
        if self._size + answer_limit.size(delta) > self._limit:
            return False  # the reader of the events ends the answer there
        self._on_delta(delta)
        return True

    def _on_text(self, event: Text) -> None:
        self._on_delta(event.delta)

    def _on_delta(self, delta: str) -> None:
        """Add text with surrogate pairs repaired: clients written in Rust reject a message with half a pair."""
        if self._repair.waits or not delta.isascii():
            delta = self._repair.feed(delta)
        if not delta:
            return
        if self._size + (count := answer_limit.size(delta)) > self._limit:
            delta = answer_limit.first_bytes(delta, self._limit - self._size)
        self._size += count
        self._unbilled += 2 * count - len(delta)  # as `tokens.estimate` counts
        self._add_text(delta)

    def _add_text(self, delta: str) -> None:
        if self.parts is not None:
            self.parts.text(delta)
        if self._live_json is not None:
            self.buffer.append(delta)
            delta = self._live_json.feed(delta)
        self._live.text(self._slot, delta)

    def end_text(self) -> None:
        if rest := self._repair.rest():
            self._add_text(rest)

    def cut_off(self) -> None:
        """End an answer that is too long. The transport limits one request; agents and tool loops are limited here."""
        self.on_notice(answer_limit.notice(self._route.name, self._limit))
        self.finished = Finished("length")

    def _on_withdrawn(self, withdrawn: Withdrawn) -> None:
        keep = length = self._length_without(withdrawn.text)
        if self._live_json is not None:
            self.buffer.cut(length)
            self._live_json = LiveJson()
            keep = len(self._live_json.feed(self.buffer.text()))
        name = shown_name(self._job, self._live, self._slot, self._route)
        self._live.restart(self._slot, "retried", withdrawn.why, model=name, after=name, keep=keep)
        self._size = answer_limit.size(self.buffer.text())

    def _length_without(self, withdrawn: str) -> int:
        """The length of the text without its withdrawn end, which was repaired on arrival like the rest."""
        self._repair = TextRepair()
        return len(self.buffer.text().removesuffix(TextRepair().feed(withdrawn)))

    # ── everything else ──────────────────────────────────────────────────────────────────────────────

    def _on_thinking(self, event: Thinking) -> None:
        delta = event.delta
        self._unbilled += 2 * answer_limit.size(delta) - len(delta)
        if self.parts is not None:
            self.parts.thinking(delta)
        self._live.thinking(self._slot, delta)

    def _on_thought(self, thought: Thought) -> None:
        if self.parts is not None:
            self._live.part(self._slot, self.parts.thought(thought))

    def _on_vendor_block(self, block: VendorBlock) -> None:
        if self.parts is not None:
            self._live.part(self._slot, self.parts.vendor(block))

    def _on_tool_input(self, piece: ToolInput) -> None:
        delta = piece.delta
        self._unbilled += 2 * answer_limit.size(delta) - len(delta)
        if self.parts is None:
            return
        if piece.id in self._input_repairs or not delta.isascii():
            delta = self._input_repairs.setdefault(piece.id, TextRepair()).feed(delta)
        self._live.tool_input(self._slot, self.parts.input(piece), delta)

    def _on_tool_call(self, use: ToolUse) -> None:
        if self.parts is not None:
            self._live.part(self._slot, self.parts.call(use.call))
        else:
            self._live.tool(self._slot, use.call.name)

    def _on_tool(self, event: ToolRan) -> None:
        run = ToolRun(event.server, event.tool, event.ms, event.ok)
        if len(self._tools) < MOST_TOOLS:
            self._tools.append(run)
        self._live.tool(self._slot, event.name, run)

    def _on_usage(self, report: UsageReport) -> None:
        self._usage, self._unbilled = report.usage, 0

    def _on_finished(self, event: Finished) -> None:
        self.finished = event

    def on_notice(self, notice: Notice) -> None:
        if notice.kind == "retry":
            call_log.retries(self._job, notice)
        self._keep_notice(notice)
        setting = notice.data.get("setting") if self.parts is not None else None
        self._live.notice(self._slot, notice.kind, notice.text, setting)
        if wait := notice.data.get("wait"):
            at = time.time() + wait
            moment = time.strftime("%H:%M:%S", time.localtime(at))
            reason = notice.data.get("reason", "it failed")
            self._live.wait(self._slot, Wait("retry", f"the next attempt at {moment} ({reason})", at=at))

    def _keep_notice(self, notice: Notice) -> None:
        if notice.kind == "left_out":
            self._left_out.append(notice.data.get("setting", notice.text))
        elif len(self._notices) < MOST_NOTICES or notice.data.get("incomplete"):
            self._notices.append(AnswerNotice(notice.kind, notice.text, notice.data))

    # ── the reply ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _is_incomplete(self) -> bool:
        return bool(self._notices) and any(notice.is_incomplete for notice in self._notices)

    def reply(self, call: Call) -> Reply:
        end = self.finished or Finished()
        asked_for = self._job.task.asked_for
        # We cut the answer at a stop sequence; the vendor bills it, but reports usage only at its end.
        is_stopped = not self._usage.total and bool(end.vendor.get("stop_sequence"))
        return Reply(
            text=self.buffer.text(),
            provider=self._route.provider,
            model=self._route.name,
            usage=self.spent(call)
            if self._is_incomplete or is_stopped
            else _priced(self._route, self._usage),
            finish_reason=end.reason,
            ms=round((time.monotonic() - self.began) * 1000),
            vendor_model=end.model,
            left_out=tuple(filter(asked_for, dict.fromkeys(self._left_out))),
            notices=tuple(self._notices),
            session=end.session,
            tools=tuple(self._tools),
            parts=self.parts.all() if self.parts is not None else (),
            vendor=end.vendor if self.parts is not None else {},
            position=end.position,
            is_json=self._live_json is not None,
        )

    def spent(self, call: Call) -> Usage:
        """The usage of a call that failed or was cut off.

        Vendors bill a stream that breaks off or is cancelled, but report usage only at its end, so the rest is
        estimated. An agent's input is unknown and not estimated.
        """
        route = self._route
        report = _priced(route, self._usage) if self._usage.total else Usage(cost_usd=0.0)
        complete = self.finished is not None and report.total and not self._is_incomplete
        if complete or not self._unbilled:
            return report
        input_tokens = 0
        if route.model is not None and not report.input:
            input_tokens = call.tokens or tokens.estimate_call(call, route.model)
        estimate = Usage(input=input_tokens, output=-(-self._unbilled // 4), estimated=True)
        return report + _priced(route, estimate)


# Functions, not bound methods: those would be made for every call.
_HANDLERS: dict[type, Callable[[Fold, Any], None]] = {
    Text: Fold._on_text,
    Withdrawn: Fold._on_withdrawn,
    Thinking: Fold._on_thinking,
    UsageReport: Fold._on_usage,
    Notice: Fold.on_notice,
    ToolInput: Fold._on_tool_input,
    ToolUse: Fold._on_tool_call,
    Thought: Fold._on_thought,
    VendorBlock: Fold._on_vendor_block,
    ToolRan: Fold._on_tool,
    Finished: Fold._on_finished,
}


def _priced(route: Route, usage: Usage) -> Usage:
    """The usage with its cost. Failed and cancelled calls have a cost, too."""
    if usage.cost_usd is not None or (not usage.total and usage == _NO_USAGE):
        return usage
    return Usage(
        usage.input,
        usage.output,
        usage.reasoning,
        usage.cache_read,
        usage.cache_write,
        route.cost(usage),
        usage.estimated,
    )
