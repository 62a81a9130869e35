"""The wire to a team's server: the requests to it, and how its answers are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import AuthenticationFailed, NotFound, ProviderUnavailable, UpstreamError
from counsel.models import team_errors
from counsel.models.vendor_errors import ErrorEvent, ErrorReport
from counsel.models.wires.counsel import Counsel, CounselReader, OwnTurn, portable
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Exact,
    Finished,
    Image,
    Model,
    ModelSettings,
    Network,
    Notice,
    Prepared,
    Provider,
    Proxy,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolUse,
    Turn,
    UsageReport,
    VendorBlock,
)

MODEL = Model("opus", "anthropic", "claude-opus")
SERVER = Endpoint(
    Provider("anthropic", "The team server t", "counsel", "https://t"), "https://t", "csl_1", team=True
)
THOUGHT = Thought("anthropic", {"signature": "s"})
END = {"finish_reason": "stop", "answered_by": "opus-1", "usage": {"input_tokens": 3, "output_tokens": 4}, "cost_usd": 0.5}  # fmt: skip


def prepare(call: Call, endpoint: Endpoint = SERVER) -> Prepared:
    return Counsel().prepare(call, MODEL, endpoint)


def read(*events: tuple[str, object]) -> list[Event]:
    reader, read_events = CounselReader(streams_tools=False), list[Event]()
    for event, data in events:
        read_events += reader.feed(event, json.dumps(data))
    return read_events + reader.finish()


# ── the request ──────────────────────────────────────────────────────────────────────────────────────


def test_the_call_is_sent_as_it_is() -> None:
    model_settings = ModelSettings(
        temperature=0.5,
        effort="high",
        verbosity="low",
        web_search=True,
        media_resolution="MEDIA_RESOLUTION_LOW",
    )
    call = Call(
        (Turn("user", "hi"),),
        "be brief",
        model_settings,
        max_output=9,
        output_limit=8,
        schema={"type": "object"},
    )
    prepared = prepare(call)
    assert prepared.url == "https://t/v1/counsel"
    assert prepared.headers == {"authorization": "Bearer csl_1"}
    assert prepared.body["version"] == 1
    request = prepared.body["request"]
    assert request["turns"][0]["text"] == "hi"
    expected = {
        "model": "anthropic/claude-opus", "system": "be brief", "temperature": 0.5, "reasoning_effort": "high",
        "verbosity": "low", "web_search": True, "media_resolution": "MEDIA_RESOLUTION_LOW", "max_output": 9, "output_limit": 8,
        "schema": {"type": "object"}, "as_counsel": True,
    }  # fmt: skip
    assert {name: request[name] for name in expected} == expected


def test_a_clients_own_settings_arrive_as_such() -> None:
    request = prepare(Call((Turn("user", "hi"),), exact=Exact(top_p=0.5))).body["request"]
    assert request["as_counsel"] is False
    assert request["exact"]["top_p"] == 0.5


def test_the_servers_own_name_of_the_model_is_asked() -> None:
    endpoint = Endpoint(SERVER.provider, "https://t", None, model_name="anthropic/ours")
    request = prepare(Call((Turn("user", "hi"),)), endpoint)
    assert request.body["request"]["model"] == "anthropic/ours"
    assert request.headers == {}, "no token, no header"


def test_the_same_call_has_the_same_key_and_a_different_call_a_different_one() -> None:
    def key(text: str, call_key: str = "job-1") -> str | None:
        return prepare(Call((Turn("user", text),), key=call_key)).headers.get("idempotency-key")

    assert key("hi", "") is None
    assert key("hi") == key("hi")
    assert str(key("hi")).startswith("job-1-")
    assert len({key("hi"), key("ho"), key("hi", "job-2")}) == 3


def test_no_path_of_this_machine_is_sent_and_reasoning_is() -> None:
    image = Image("image/png", b"x", path=Path("/home/ada/secret.png"))
    turns = (Turn("user", "hi", images=(image,)), Turn("assistant", "so", native=OwnTurn((THOUGHT,))))
    request = prepare(Call(turns)).body["request"]
    assert "ada" not in json.dumps(request)
    assert list(request["turns"][1]["thoughts"]) == [{"wire": "anthropic", "item": {"signature": "s"}}]


def test_a_turn_of_a_server_is_understood_by_other_wires() -> None:
    theirs, own = (
        Turn("assistant", "so", native=OwnTurn((THOUGHT,))),
        Turn("assistant", "x", native=[{"a": 1}]),
    )
    first, second = portable(Call((theirs, own))).turns
    assert first.native is None
    assert first.thoughts == (THOUGHT,)
    assert second is own


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────


def test_every_part_of_an_answer() -> None:
    call = {"type": "tool_call", "id": "1", "name": "look", "arguments": {"a": 1}, "namespace": "files"}
    events = read(
        ("thinking", "hm"),
        ("text", "so"),
        ("part", call),
        ("part", {**call, "namespace": ""} | {"id": "2"}),
        ("part", {"type": "vendor", "wire": "openai_responses", "item": {"x": 1}}),
        ("part", {"type": "thought", "wire": "anthropic", "item": {"signature": "s"}}),
        ("something newer", {"a": 1}),
        ("end", END),
    )
    assert events[:6] == [
        Thinking("hm"),
        Text("so"),
        ToolUse(ToolCall("1", "look", {"a": 1}, "files")),
        ToolUse(ToolCall("2", "look", {"a": 1})),
        VendorBlock("openai_responses", {"x": 1}),
        THOUGHT,
    ]
    usage, finished = events[6:]
    assert isinstance(usage, UsageReport)
    assert (usage.usage.input, usage.usage.output, usage.usage.cost_usd) == (3, 4, 0.5)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.model, finished.vendor) == ("stop", "opus-1", {})
    assert finished.native == OwnTurn((THOUGHT,))


def test_notices_and_what_was_left_out_arrive_before_the_end() -> None:
    notices = [{"kind": "retry", "text": "again", "wait": 3.0, "reason": "busy"}]
    events = read(("end", {**END, "notices": notices, "left_out": ["temperature"], "stop_sequence": "###"}))
    assert events[0] == Notice("left_out", "temperature was left out.", {"setting": "temperature"})
    assert events[1] == Notice("retry", "again", {"reason": "busy"}), "without its wait, which is over"
    assert isinstance(events[-1], Finished)
    assert events[-1].vendor == {"stop_sequence": "###"}


def test_a_failure_is_raised_after_its_usage() -> None:
    reader = CounselReader(streams_tools=False)
    failure = {"code": "UPSTREAM", "error": "no", "usage": {"input_tokens": 7}, "cost_usd": 0.25}
    (report,) = reader.feed("error", json.dumps(failure))
    assert isinstance(report, UsageReport)
    assert (report.usage.input, report.usage.cost_usd) == (7, 0.25)
    with pytest.raises(ErrorEvent):
        reader.finish()


def test_a_failure_without_usage() -> None:
    reader = CounselReader(streams_tools=False)
    assert reader.feed("error", '{"code": "UPSTREAM", "error": "no"}') == []
    with pytest.raises(ErrorEvent):
        reader.finish()


def test_a_stream_without_an_end_is_a_failure() -> None:
    with pytest.raises(UpstreamError, match="before its end"):
        read(("text", "so"))


# ── failures of the server ───────────────────────────────────────────────────────────────────────────


def failure(status: int | None = None, message: str = "", own: Any = None, **fields: object) -> Any:
    return team_errors.as_error(ErrorReport("server", message, status, own=own), SERVER, **fields)


def test_a_login_that_is_not_accepted() -> None:
    error = failure(401, own={"code": "AUTHENTICATION_FAILED", "error": "x"})
    assert isinstance(error, AuthenticationFailed)
    assert "this login" in error.message
    assert "counsel login https://t" in str(error.hint)
    assert (error.fields["team"], error.fields["status"], error.fields["provider"]) == (
        "https://t",
        401,
        "anthropic",
    )


def test_the_servers_own_error_keeps_its_code_and_loses_its_ids() -> None:
    own = {"code": "NOT_FOUND", "error": "no such", "hint": "look", "job_id": "j", "partial": "p", "tried": [], "left": 3}  # fmt: skip
    error = failure(404, own=own, attempts=2, model=None)
    assert isinstance(error, NotFound)
    assert (error.message, error.hint) == ("no such", "look")
    assert error.fields["left"] == 3
    assert error.fields["attempts"] == 2
    assert {"job_id", "partial", "tried", "model"}.isdisjoint(error.fields)


def test_a_bad_key_of_the_server_is_the_operators_to_replace() -> None:
    error = failure(
        500, own={"code": AuthenticationFailed.code, "error": "bad key", "hint": "set OPENAI_API_KEY"}
    )
    assert isinstance(error, AuthenticationFailed)
    assert "tell whoever runs it" in str(error.hint)


@pytest.mark.parametrize(
    ("status", "is_redirect"), [(299, False), (300, True), (307, True), (399, True), (400, False)]
)
def test_a_redirect_is_not_followed(status: int, is_redirect: bool) -> None:
    error = failure(status)
    assert ("redirect" in error.message) is is_redirect
    assert isinstance(error, UpstreamError) is is_redirect
    assert error.fields["status"] == status


def test_an_address_without_a_counsel_server() -> None:
    error = failure(404)
    assert isinstance(error, UpstreamError)
    assert "There is no counsel server at https://t" in error.message
    assert error.fields["status"] == 404


def test_other_answers_count_as_unavailable_without_the_token() -> None:
    error = failure(503, "upstream csl_1 is down ")
    assert isinstance(error, ProviderUnavailable)
    assert "answered with 503: upstream" in error.message
    assert "csl_1" not in error.message
    assert error.fields["unreachable"] is True, "this machine's own keys may be used"
    plain = failure(500)
    assert plain.message.endswith("answered with 500.")
    assert not plain.fields.get("unreachable")
    assert failure(None).message.endswith("answered with an error.")


def test_a_server_that_cannot_be_reached_says_how_to_go_on() -> None:
    def explanation(endpoint: Endpoint, *, untrusted: bool) -> ProviderUnavailable:
        error = team_errors.unreachable(ProviderUnavailable("gone", hint="h"), endpoint, untrusted=untrusted)
        assert isinstance(error, ProviderUnavailable)
        assert error.fields["team"] == "https://t"
        return error

    offline = explanation(SERVER, untrusted=False)
    assert offline.fields["unreachable"] is True
    assert "team_offline local" in str(offline.hint)
    proxied_endpoint = Endpoint(
        SERVER.provider, "https://t", network=Network(proxy=Proxy("http://p:1", "https_proxy"))
    )
    through_proxy = explanation(proxied_endpoint, untrusted=False)
    assert through_proxy.fields["unreachable"] is True
    assert through_proxy.hint == "h", "the hint about the proxy stays"
    wrong = explanation(SERVER, untrusted=True)
    assert "SSL_CERT_FILE" in str(wrong.hint)
    words = ProviderUnavailable(
        "t cannot be reached securely: [SSL: WRONG_VERSION_NUMBER] wrong version number"
    )
    plain = team_errors.unreachable(words, SERVER, untrusted=True)
    assert "does not speak TLS" in str(plain.hint)
    assert "SSL_CERT_FILE" not in str(plain.hint)
    assert "unreachable" not in wrong.fields, "a wrong certificate is no reason to go another way"
