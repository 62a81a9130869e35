"""How answers and failures look in the three APIs, at once and as a stream (tests/golden/v1_answers.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    Cancelled,
    ContentFiltered,
    ContextLengthExceeded,
    CounselError,
    InvalidArgument,
    NotFound,
    ProviderUnavailable,
    RateLimited,
    UpstreamError,
)
from counsel.http.v1 import api as v1
from counsel.http.v1 import errors, opaque
from counsel.http.v1.api import ApiAnswer, ApiRequest
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.responses import Responses, failed_response
from counsel.job_events import ToolInputAdded
from counsel.requests import CompletionRequest
from counsel.types import Turn, Usage

GOLDEN = Path(__file__).parent.parent / "golden" / "v1_answers.txt"
APIS: dict[str, Any] = {"chat": ChatCompletions(), "messages": Messages(), "responses": Responses()}
USAGE = Usage(input=50, output=20, reasoning=5, cache_read=30, cache_write=7, cost_usd=0.25)


def request(**fields: Any) -> ApiRequest:
    completion = CompletionRequest(model="m", turns=(Turn("user", "hi"),))
    return ApiRequest(completion=completion, created=1_000.7, finished=1_002.2, **fields)


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def thinking(words: str = "", wire: str = "", **item: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "thinking", "text": words} if words else {"type": "thinking"}
    return {**part, "wire": wire, "item": item} if wire else part


def call(number: str = "c1", name: str = "look", arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": number, "name": name, "arguments": arguments or {}, **fields}


def vendor(wire: str, kind: str, **item: Any) -> dict[str, Any]:
    return {"type": "vendor", "wire": wire, "item": {"type": kind, **item}}


def citations(wire: str, length: int, *notes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return vendor(wire, "citations", citations=list(notes), length=length, **fields)


NOTE = {"type": "url_citation", "url": "https://a", "start_index": 1, "end_index": 2}
SEARCH = {
    "anthropic": vendor("anthropic", "server_tool_use", id="s1", name="web_search", input={"query": "cats"}),
    "openai_responses": vendor("openai_responses", "web_search_call", id="ws_1", status="completed"),
}
CUSTOM = {"patch": {"name": "patch", "custom": True}, "team__look": {"name": "look", "namespace": "team"}}
CUSTOM_ITEM = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "c1",
    "name": "patch",
    "input": "",
    "status": "x",
}
# Parts of an answer; the steps of its stream, if they are not its parts: text or thinking, (id, name, piece of the
# arguments), or a part; fields of the answer; fields of the request.
ANSWERS: dict[str, tuple[list[Any], list[Any] | None, dict[str, Any], dict[str, Any]]] = {
    "text": ([text("one two")], ["one ", "two"], {}, {}),
    "nothing": ([], [], {}, {}),
    "empty parts": ([text(""), thinking(), text("a")], ["a"], {}, {}),
    "escapes": ([text('"\\\u2028é🦉')], None, {}, {}),
    "without usage": ([text("a")], None, {}, {"wants_usage": False}),
    "an echo": ([text("a")], None, {}, {"echo": {"temperature": 0.5, "store": True}}),
    "cut": ([text("a")], None, {"reason": "length"}, {}),
    "paused": ([text("a")], None, {"reason": "paused"}, {}),
    "a stop sequence": ([text("a")], None, {"stopped_by": "END"}, {}),
    "filtered": ([text("a")], None, {"reason": "filtered", "refusal_kind": "SAFETY", "refusal": "Not this."}, {}),
    "filtered without words": ([], [], {"reason": "filtered", "refusal_kind": "cyber", "recommended": "m2"}, {}),
    "refused by the model": ([], [], {"reason": "filtered", "refusal_kind": "refusal", "refusal": "I will not."}, {}),
    "about the job": ([text("a")], None, {"counsel": {"job_id": "job_1", "ignored": ["seed"]}, "ignored": ("seed",)}, {}),
    "thinking": ([thinking("hm, so"), text("a")], [("hm, ",), ("so",), "a"], {}, {}),
    "thinking of another vendor": (
        [thinking("hm", "gemini", signature="s"), text("a")],
        [("hm",), thinking(wire="gemini", signature="s"), "a"], {}, {},
    ),
    "thinking of Anthropic": (
        [thinking("hm", "anthropic", type="thinking", thinking="hm", signature="s"), text("a")],
        [("hm",), thinking(wire="anthropic", type="thinking", thinking="hm", signature="s"), "a"], {}, {},
    ),
    "hidden thinking of Anthropic": (
        [thinking("", "anthropic", type="redacted_thinking", data="d"), thinking("", "anthropic", type="thinking"), text("a")],
        None, {}, {},
    ),
    "thinking of OpenAI": (
        [thinking("hm", "openai_responses", type="reasoning", id="theirs", encrypted_content="e"), text("a")],
        [("hm",), thinking(wire="openai_responses", type="reasoning", id="theirs", encrypted_content="e"), "a"], {}, {},
    ),
    "a signature alone": ([thinking("", "gemini", signature="s"), text("a")], None, {}, {}),
    "thinking between texts": ([text("a"), thinking("b"), text("c")], ["a", ("b",), "c"], {}, {}),
    "a call": ([call(arguments={"a": 1})], None, {"reason": "tool_calls"}, {}),
    "a call in pieces": (
        [text("so"), call(arguments={"a": 1})],
        ["so", ("c1", "look", ""), ("c1", "look", '{"a"'), ("c1", "look", ": 1}"), call(arguments={"a": 1})],
        {"reason": "tool_calls"}, {},
    ),
    "a call whose arguments come at once": (
        [call(arguments={"a": 1})],
        [("c1", "look", ""), ("c1", "look", "  "), call(arguments={"a": 1})], {"reason": "tool_calls"}, {},
    ),
    "two calls at a time": (
        [call("c1"), call("c2", "find", {"b": 2}), text("after")],
        [("c1", "look", "{"), ("c2", "find", '{"b":2}'), ("c1", "look", "}"), call("c2", "find", {"b": 2}), call("c1"), "after"],
        {"reason": "tool_calls"}, {},
    ),
    "a free-text call": (
        [call(name="patch", arguments={"input": "x\ny"})],
        [("c1", "patch", '{"input": "x'), ("c1", "patch", '\\ny"}'), call(name="patch", arguments={"input": "x\ny"})],
        {"reason": "tool_calls"}, {"client_tools": CUSTOM},
    ),
    "a free-text call without text": ([call(name="patch")], None, {"reason": "tool_calls"}, {"client_tools": CUSTOM}),
    "a call of a namespace": (
        [call(name="team__look", arguments={"a": 1})],
        [("c1", "team__look", '{"a": 1}'), call(name="team__look", arguments={"a": 1})],
        {"reason": "tool_calls"}, {"client_tools": CUSTOM},
    ),
    "a call of OpenAI's own namespace": ([call(namespace="files")], None, {"reason": "tool_calls"}, {}),
    "OpenAI's own free-text call": (
        [vendor("openai_responses", **{**CUSTOM_ITEM, "kind": "custom_tool_call", "input": "xy"})],
        [("c1", "patch", "x", CUSTOM_ITEM), ("c1", "patch", "", CUSTOM_ITEM),
         vendor("openai_responses", **{**CUSTOM_ITEM, "kind": "custom_tool_call", "input": "xy"})],
        {"reason": "tool_calls"}, {},
    ),
    **{
        f"a search of {wire}": (
            [text("a"), part, vendor("anthropic", "web_search_tool_result", tool_use_id="s1"), text("b")],
            ["a", part, vendor("anthropic", "web_search_tool_result", tool_use_id="s1"), "b"], {}, {},
        )
        for wire, part in SEARCH.items()
    },
    **{
        f"citations of {wire}": (
            [text("one"), text("two", wire=wire, citations=[NOTE], length=3, phase="final_answer"), text("three")],
            ["one", "two", citations(wire, 3, NOTE, phase="final_answer"), "three"], {}, {},
        )
        for wire in ("anthropic", "openai_responses", "gemini")
    },
    "citations before any text": ([text("a")], [citations("openai_responses", 0, NOTE), ("hm",), citations("anthropic", 0, NOTE), "a"], {}, {}),
    "no citations": ([text("a", wire="anthropic", citations=[], length=1)], None, {}, {}),
    "a whole text in a stream": ([text("a"), text("b")], ["a", text("b")], {}, {}),
}  # fmt: skip
FAILURES: dict[str, CounselError] = {
    "an invalid field": errors.BadRequest("'n' must be 1.", "n", "unsupported_value"),
    "a field that the message names": InvalidArgument("n: too large.", param="n"),
    "a field that it does not": InvalidArgument("It is too large.", param="n", hint="Send less."),
    "too long": ContextLengthExceeded("Too long.", max_tokens=100, provided_tokens=120),
    "too long, by OpenAI": ContextLengthExceeded("This model's maximum context length is 5.", max_tokens=5),
    "too long, by Anthropic": ContextLengthExceeded("prompt is too long: 5 tokens", provided_tokens=5),
    "rate limited": RateLimited("Slow down.", retry_after=3),
    "the account is empty": RateLimited("No credit.", reason="quota"),
    "no budget": BudgetExceeded("The day's budget is used up."),
    "a refused key": AuthenticationFailed("It refused the key."),
    "blocked": ContentFiltered("Blocked.", status=400),
    "unavailable": ProviderUnavailable("It is down."),
    "not found": NotFound("Previous response not found.", api_code="previous_response_not_found"),
    "nothing": NotFound("There is none."),
    "a bad request of the vendor": UpstreamError("It said no.", status=422),
    "a failure of the vendor": UpstreamError("It broke.", status=500),
    "cancelled": Cancelled("It was cancelled."),
    "several providers": ProviderUnavailable("Nobody can.", tried=[{"provider": "p", "error": "down"}, {"provider": "q"}]),
}  # fmt: skip


def _stream(api: Any, request_: ApiRequest, steps: list[Any]) -> Any:
    renderer = api.renderer(request_, "job_1")
    data = renderer.start()
    offsets: dict[str, int] = {}
    for step in steps:
        if isinstance(step, str):
            data += renderer.text(step)
        elif isinstance(step, dict):
            data += (
                renderer.text(step["text"])
                if step["type"] == "text" and "wire" in step
                else renderer.part(step)
            )
        elif len(step) == 1:
            data += renderer.thinking(step[0])
        else:
            name, tool, piece, *item = step
            event = ToolInputAdded(1, 1.0, "0", piece, offsets.get(name, 0), name, tool, "", *item)
            offsets[name] = event.offset + len(piece)
            data += renderer.tool_input(event)
    return renderer, data


def _events(data: bytes) -> list[dict[str, Any]]:
    lines = (entry.rpartition("data: ")[2] for entry in data.decode().split("\n\n"))
    return [json.loads(line) for line in lines if line and line != "[DONE]"]


def _rows(data: bytes) -> list[str]:
    """One line for each event, without what every event of an API has, and without empty fields."""
    rows = []
    for event in _events(data):
        names = {"sequence_number", *(("object", "created", "id", "model") if "choices" in event else ())}
        row = {name: value for name, value in event.items() if name not in names}
        if "response" in row:  # it has a test of its own
            row["response"] = len(row["response"].get("output", ()))
        rows.append(f"  | {json.dumps(_without_empty(row), sort_keys=True)}")
    return rows


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(entry) for name, entry in value.items() if entry not in (None, [])}
    return [_without_empty(entry) for entry in value] if isinstance(value, list) else value


def _document() -> str:
    lines = []
    for name, (parts, steps, fields, request_fields) in ANSWERS.items():
        answer = ApiAnswer(
            **{"parts": tuple(parts), "usage": USAGE, "reason": "stop", "model": "m", **fields}
        )
        for title, api in APIS.items():
            request_ = request(**request_fields)
            lines += [
                f"# {name}, {title}",
                f"  {json.dumps(api.plain(request_, 'job_1', answer), sort_keys=True)}",
            ]
            renderer, data = _stream(api, request_, parts if steps is None else steps)
            lines += _rows(data + renderer.end(answer))
    for name, error in FAILURES.items():
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/models"):
            document = errors.of_path(path, error)
            lines += [
                f"# {name}, {path}: {errors.status_of(error)}",
                f"  {json.dumps(document, sort_keys=True)}",
            ]
        failed = failed_response(request(), "job_1", error)
        lines += [f"  {failed['status']} {json.dumps(failed['error'])} {json.dumps(failed['counsel'])}"]
    for title, api in APIS.items():
        renderer, _ = _stream(api, request(), ["so far"])
        lines += [f"# a stream that fails, {title}", *_rows(renderer.fail(RateLimited("Slow down.")))]
    return "\n".join(lines).replace(opaque.encode("gemini", {"signature": "s"}), "OURS") + "\n"


def test_answers_look_as_before_in_every_api() -> None:
    document = _document()
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(document)
    difference = difflib.unified_diff(
        GOLDEN.read_text().splitlines(), document.splitlines(), "golden", "now", "", "", 2
    )
    assert "\n".join(difference) == ""


@pytest.mark.parametrize("title", APIS)
@pytest.mark.parametrize("name", [name for name, (_, steps, _, _) in ANSWERS.items() if steps is not None])
def test_a_stream_ends_what_it_begins(title: str, name: str) -> None:
    """In every API a client sees each block, item and part begin once and end once."""
    _, steps, fields, request_fields = ANSWERS[name]
    answer = ApiAnswer(**{"parts": (), "usage": USAGE, "reason": "stop", "model": "m", **fields})
    renderer, data = _stream(APIS[title], request(**request_fields), steps or [])
    kinds = [event.get("type") for event in _events(data + renderer.end(answer))]
    for begin, end in (
        ("content_block_start", "content_block_stop"),
        ("response.output_item.added", "response.output_item.done"),
        ("response.content_part.added", "response.content_part.done"),
        ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    ):
        assert kinds.count(begin) == kinds.count(end), begin


ALIKE = (
    "text",
    "thinking",
    "a call",
    "a free-text call",
    "filtered",
    "cut",
    "an echo",
    "refused by the model",
)


@pytest.mark.parametrize("name", ALIKE)
def test_a_stream_of_responses_ends_with_the_answer_that_a_plain_request_gets(name: str) -> None:
    parts, steps, fields, request_fields = ANSWERS[name]
    answer = ApiAnswer(**{"parts": tuple(parts), "usage": USAGE, "reason": "stop", "model": "m", **fields})
    request_ = request(**request_fields)
    renderer, data = _stream(APIS["responses"], request_, parts if steps is None else steps)
    events = _events(data + renderer.end(answer))
    assert events[-1]["response"] == APIS["responses"].plain(request_, "job_1", answer)
    assert events[-1]["type"] == f"response.{events[-1]['response']['status']}"
    assert [event["response"]["status"] for event in events[:2]] == ["in_progress"] * 2
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_chunk_of_chat_has_the_requests_model_and_the_jobs_name() -> None:
    renderer, data = _stream(APIS["chat"], request(), ["a"])
    answer = ApiAnswer(parts=(), usage=USAGE, reason="stop", model="m")
    for event in _events(data + renderer.end(answer)):
        assert (event["id"], event["object"], event["created"], event["model"]) == (
            "chatcmpl-1", "chat.completion.chunk", 1_000, "m"
        )  # fmt: skip


def test_a_refusal_is_an_answer_only_where_the_vendor_did_not_report_an_error() -> None:
    error = ContentFiltered(
        "Refused.",
        partial="so far",
        vendor_text="No.",
        vendor_reason="refusal",
        recommended_model="m2",
        job_id="job_1",
    )
    answer = v1.refusal(request(ignored=("seed",)), error)
    assert answer is not None
    assert (answer.text, answer.reason, answer.refusal, answer.recommended) == (
        "so far",
        "filtered",
        "No.",
        "m2",
    )
    assert (answer.refusal_kind, answer.ignored, answer.is_own_refusal) == ("refusal", ("seed",), True)
    assert answer.counsel == {"job_id": "job_1", "error": "Refused."}
    empty = v1.refusal(request(), ContentFiltered("Refused."))
    assert empty is not None
    assert (empty.parts, empty.refusal, empty.is_own_refusal) == ((), "", False)
    assert v1.refusal(request(refusal_is_answer=False), error) is None
    assert v1.refusal(request(), ContentFiltered("Blocked.", status=400)) is None
    assert v1.refusal(request(), UpstreamError("It broke.")) is None
