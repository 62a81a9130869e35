"""A counsel server (http/v1/own.py): it gets the call as it is, and sends our own events back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from counsel import strict_json
from counsel.errors import UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.models.vendor_errors import ErrorEvent
from counsel.models.wires import text_deltas
from counsel.requests import CompletionRequest
from counsel.results import AnswerNotice, usage_from_json
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Exact,
    Finished,
    Json,
    Model,
    Notice,
    Prepared,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolInput,
    ToolUse,
    Turn,
    UsageReport,
    VendorBlock,
)

VERSION = 1
_NO_EXACT = Exact()


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """`Turn.native` of this wire: the blocks of reasoning that belong to the turn."""

    thoughts: tuple[Thought, ...]


class Counsel:
    models_path = "/v1/counsel"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}

    def reader(self, *, streams_tools: bool = False) -> CounselReader:
        return CounselReader(streams_tools=streams_tools)

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        import msgspec  # 20 ms; imported with the first call

        model_settings = call.model_settings
        request = CompletionRequest(
            model=endpoint.model_name or f"{model.provider}/{model.wire_id}",
            turns=tuple(_plain(turn) for turn in call.turns),
            system=call.system,
            tools=call.tools,
            temperature=model_settings.temperature,
            reasoning_effort=model_settings.effort,
            verbosity=model_settings.verbosity,
            web_search=model_settings.web_search,
            media_resolution=model_settings.media_resolution,
            max_output=call.max_output,
            output_limit=call.output_limit,
            schema=call.schema,
            exact=call.exact or _NO_EXACT,
            as_counsel=call.exact is None,
        )
        body = {"version": VERSION, "request": msgspec.to_builtins(request, enc_hook=str)}
        headers = self.headers(endpoint)
        if call.key:
            headers["idempotency-key"] = f"{call.key}-{_digest(body)}"
        return Prepared(f"{endpoint.base_url}/v1/counsel", headers, body)


def _plain(turn: Turn) -> Turn:
    """The turn without this machine's paths and without another wire's form of it."""
    thoughts = turn.native.thoughts if isinstance(turn.native, OwnTurn) else turn.thoughts
    images = tuple(replace(image, path=None) for image in turn.images)
    return replace(turn, native=None, thoughts=thoughts, images=images)


def portable(call: Call) -> Call:
    """The call for another wire."""
    turns = tuple(_plain(turn) if isinstance(turn.native, OwnTurn) else turn for turn in call.turns)
    return replace(call, turns=turns)


def _digest(body: Json) -> str:
    return hashlib.sha256(strict_json.encode(body, "replace")).hexdigest()[:32]


def _without_wait(data: Mapping[str, object]) -> dict[str, object]:
    """A notice's data without `wait`: a retry at the server is over when its notice arrives."""
    return {name: value for name, value in data.items() if name != "wait"}


class CounselReader(text_deltas.OneByOne):
    def __init__(self, *, streams_tools: bool) -> None:
        self._streams_tools = streams_tools
        self._thoughts: list[Thought] = []
        self._error: ErrorEvent | None = None
        self._ended = False

    def feed(self, event: str, data: str) -> list[Event]:
        payload: Any = strict_json.loads(data)
        if event in {"text", "thinking"}:
            return [Text(str(payload)) if event == "text" else Thinking(str(payload))]
        if event in {"part", "tool_input"}:
            return self._part(payload) if event == "part" else self._input(payload)
        if event == "end":
            self._ended = True
            return self._end(payload)
        if event == "error":
            # Raised at the stream's end, after its usage.
            self._error = ErrorEvent(payload)
            usage = payload.get("usage")
            return [UsageReport(usage_from_json(usage, payload.get("cost_usd")))] if usage else []
        return []  # an event of a newer release

    def _input(self, piece: Json) -> list[Event]:
        if not self._streams_tools:
            return []
        return [ToolInput(piece["id"], piece["name"], piece["delta"], piece.get("namespace", ""))]

    def _part(self, part: Json) -> list[Event]:
        if part["type"] == "tool_call":
            namespace = part.get("namespace", "")
            return [ToolUse(ToolCall(part["id"], part["name"], part["arguments"], namespace))]
        if part["type"] == "vendor":
            return [VendorBlock(part["wire"], part["item"])]
        thought = Thought(part["wire"], part["item"])
        self._thoughts.append(thought)
        return [thought]

    def _end(self, document: Json) -> list[Event]:
        notices: list[Event] = [
            Notice(notice.kind, notice.text, _without_wait(notice.more))  # type: ignore[arg-type] # one of ours
            for notice in map(AnswerNotice.from_json, document.get("notices") or ())
        ]
        left_out = [
            Notice("left_out", f"{name} was left out.", {"setting": name})
            for name in document.get("left_out") or ()
        ]
        stop = document.get("stop_sequence")
        finished = Finished(
            document["finish_reason"],
            document.get("answered_by"),
            native=OwnTurn(tuple(self._thoughts)),
            vendor={"stop_sequence": stop} if stop else {},
        )
        usage = usage_from_json(document["usage"], document.get("cost_usd"))
        return [*left_out, *notices, UsageReport(usage), finished]

    def finish(self) -> list[Event]:
        if self._error is not None:
            raise self._error
        if not self._ended:
            raise UpstreamError("The stream ended before its end.")
        return []
