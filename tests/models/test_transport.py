"""Time limits, retries, proxies and messages: what is the same for every wire. The rest is in conformance/."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counsel.errors import (
    AuthenticationFailed,
    CounselError,
    ModelNotFound,
    ProviderUnavailable,
    RateLimited,
    TimedOut,
    UpstreamError,
)
from counsel.models.transport import Transport, _joined_url
from counsel.models.vendor_errors import as_error, parse_error
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Limits,
    Model,
    ModelSettings,
    Notice,
    Provider,
    Text,
    Turn,
)
from fake import FakeAPI
from fake.behaviour import behaviour

KEY = "sk-secret-0123456789abcdef"
CHAT = Provider(
    "acme",
    "Acme",
    "openai_chat",
    "",
    base_url_env="ACME_BASE_URL",
    key_envs=("ACME_API_KEY",),
    key_url="https://acme.example/keys",
)
MODEL = Model("m", "acme", "m")
HELLO = Call((Turn("user", "hello"),))


class Caller:
    def __init__(self, url: str) -> None:
        self.waits: list[float] = []
        self.transport = Transport(sleep=self._sleep)
        self.endpoint = Endpoint(CHAT, url, KEY)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def ask(self, call: Call = HELLO, model: Model = MODEL, **limits: Any) -> list[Event]:
        return [event async for event in self.transport.stream(call, model, self.endpoint, Limits(**limits))]


@pytest.fixture
async def acme(fake_api: FakeAPI) -> AsyncIterator[Caller]:
    caller = Caller(fake_api.v1)
    yield caller
    await caller.transport.close()


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


async def test_connections_are_used_again(acme: Caller, fake_api: FakeAPI) -> None:
    for _ in range(5):
        await acme.ask()
    assert fake_api.open_connections == 1


async def test_calls_run_side_by_side(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(gate="all", times=None)
    calls = [asyncio.create_task(acme.ask()) for _ in range(40)]
    await fake_api.wait_for(count=40)
    fake_api.open_gate("all")
    answers = await asyncio.gather(*calls)
    assert fake_api.log.most_open == 40
    assert all(isinstance(events[-1], Finished) for events in answers)


async def test_retry_after_as_a_date(acme: Caller, fake_api: FakeAPI) -> None:
    when = datetime.now(UTC) + timedelta(seconds=40)
    fake_api.script(status=429, retry_after=format_datetime(when, usegmt=True))
    await acme.ask()
    assert 35 < acme.waits[0] <= 40


async def test_a_retry_is_announced_with_its_reason(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=503)
    notice = (await acme.ask())[0]
    assert isinstance(notice, Notice)
    assert notice.kind == "retry"
    assert notice.data["attempt"] == 2
    assert "Attempt 2 of 3" in notice.text


async def test_a_call_may_have_a_single_attempt(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=503, times=None)
    with pytest.raises(ProviderUnavailable):
        await acme.ask(attempts=1)
    assert len(fake_api.calls) == 1


async def test_no_server_listens(fake_api: FakeAPI) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        caller = Caller(f"http://127.0.0.1:{sock.getsockname()[1]}/v1")
        with pytest.raises(ProviderUnavailable, match="Acme cannot be reached") as excinfo:
            await caller.ask()
    assert "ACME_BASE_URL" in (excinfo.value.hint or "")
    assert len(caller.waits) == 2
    await caller.transport.close()


async def test_a_connection_that_is_never_accepted(fake_api: FakeAPI) -> None:
    """With a full backlog, the kernel drops our SYN and we wait."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for client in fillers:
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        caller = Caller(f"http://127.0.0.1:{full.getsockname()[1]}/v1")
        with pytest.raises(TimedOut) as excinfo:
            await caller.ask(connect=0.05, attempts=1)
        for client in fillers:
            client.close()
    assert excinfo.value.limit in {"connect", "first_event"}
    await caller.transport.close()


async def test_a_server_that_hangs_after_the_last_word_has_answered(acme: Caller, fake_api: FakeAPI) -> None:
    chunk = 'data: {"choices":[{"index":0,"delta":{"content":"all"},"finish_reason":"stop"}]}\n\n'
    for failure in ("hang_after", "cut_after"):
        fake_api.script(behaviour(raw=chunk + "data: [DONE]\n\n", **{failure: 1}))
        events = await acme.ask(idle=0.05)
        assert text_of(events) == "all"
        assert isinstance(events[-1], Finished)


async def test_text_before_a_broken_event_is_passed_on(acme: Caller, fake_api: FakeAPI) -> None:
    good = 'data: {"choices":[{"index":0,"delta":{"content":"kept"},"finish_reason":null}]}\n\n'
    fake_api.script(raw=good + "data: {broken\n\n" + good)
    events: list[Event] = []
    with pytest.raises(UpstreamError, match="cannot be read") as excinfo:
        await _into(events, acme)
    assert text_of(events) == "kept"
    assert excinfo.value.partial == "kept"


async def _into(events: list[Event], acme: Caller) -> None:
    async for event in acme.transport.stream(HELLO, MODEL, acme.endpoint):
        events.append(event)


async def test_left_out_settings_are_named(acme: Caller, fake_api: FakeAPI) -> None:
    plain = replace(MODEL, temperature=None)
    model_settings = ModelSettings(
        temperature=0.2,
        effort="high",
        verbosity="low",
        web_search=True,
        media_resolution="MEDIA_RESOLUTION_LOW",
    )
    events = await acme.ask(replace(HELLO, model_settings=model_settings), plain)
    settings = [event.data["setting"] for event in events if isinstance(event, Notice)]
    assert settings == ["temperature", "reasoning_effort", "verbosity", "media_resolution", "use_websearch"]
    assert fake_api.last.body.keys() == {"model", "messages", "stream", "stream_options"}


async def test_the_key_is_scrubbed_even_masked(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=401, message=f"Bad key {KEY} aka sk-proj-****************cdef")
    with pytest.raises(AuthenticationFailed) as excinfo:
        await acme.ask()
    text = repr(excinfo.value.as_dict()) + str(excinfo.value)
    assert "cdef" not in text
    assert "ACME_API_KEY" in (excinfo.value.hint or "")
    assert "acme.example" in (excinfo.value.hint or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "status", "details", "metadata", "raw", "reason"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.integers(300, 599) | st.none(), JSON, st.sampled_from(["", "3", "nan", "inf", "-1", "soon", "1e400"])
)
def test_any_body_of_an_error_becomes_an_error_of_ours(status: int | None, body: Any, wait: str) -> None:
    """Proxies answer with anything: any of it becomes one of counsel's errors, as valid JSON."""
    reply = parse_error(status, body, {"retry-after": wait} if wait else {})
    error = as_error(reply, Endpoint(CHAT, "http://x", KEY), MODEL)
    assert json.loads(json.dumps(error.as_dict(), allow_nan=False))["code"] == error.code


async def test_redirects_are_not_followed(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=307, error="bad_request")
    with pytest.raises(UpstreamError) as excinfo:
        await acme.ask()
    assert excinfo.value.status == 307


async def test_an_address_without_an_api(fake_api: FakeAPI) -> None:
    caller = Caller(fake_api.url + "/nowhere")
    caller.endpoint = replace(caller.endpoint, provider=replace(CHAT, wire="gemini"))
    with pytest.raises(CounselError):
        await caller.transport.get_json(caller.endpoint, "/nothing", Limits())
    await caller.transport.close()


@pytest.mark.parametrize(
    ("shape", "status", "kind"),
    [
        ("xai", 429, RateLimited),
        ("mistral", 401, AuthenticationFailed),
        ("openrouter", 404, ModelNotFound),
        ("openrouter", 503, ProviderUnavailable),
        ("xai", 500, UpstreamError),
    ],
)
async def test_dialects_of_errors(
    acme: Caller, fake_api: FakeAPI, shape: str, status: int, kind: type[CounselError]
) -> None:
    fake_api.script(status=status, error_shape=shape, times=None)
    with pytest.raises(kind):
        await acme.ask()


@pytest.mark.parametrize(
    ("status", "body", "kind", "most", "provided_tokens"),
    [
        (400, {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."},
         "context", 131072, 537812),
        (400, {"message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum "
               "context length", "type": "invalid_request_prompt"}, "context", 32768, 65673),
        (400, {"error": {"message": "This endpoint's maximum context length is 32768 tokens. However, you requested "
               "about 40009 tokens", "code": 400}}, "context", 32768, 40009),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the "
               "available context size"}}, "context", None, None),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` "
               "exceed context limit: 190000 + 20000 > 200000, decrease"}}, "context", 200000, 190000),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
         "context", None, None),
        (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, "quota", None, None),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low "
               "to access the Anthropic API."}}, "quota", None, None),
        (400, {"error": {"message": "nope/nope is not a valid model ID", "code": 400}}, "not_found", None, None),
        (422, {"detail": [{"loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]}, "refused", None, None),
        (500, None, "server", None, None),
        (502, "<html>", "overloaded", None, None),
        (404, None, "wrong_address", None, None),
        (None, {"error": {"code": 502, "message": "Provider returned error"}}, "server", None, None),
        (None, {"error": {"type": "invalid_request_error", "message": "Tools may not …"}}, "refused", None, None),
        (None, {"error": {"status": "INVALID_ARGUMENT", "message": "thinking_budget …"}}, "refused", None, None),
        (401, {"error": {"type": "invalid_request_error", "message": "no"}}, "auth", None, None),
        (400, {"error": {"type": "api_error", "message": "no"}}, "refused", None, None),
        (429, {"error": {"type": "api_error", "message": "slow down"}}, "rate_limit", None, None),
        (403, {"error": "Your team has either used all available credits or reached its monthly spending limit."},
         "quota", None, None),
        (500, {"error": {"message": "the request exceeds the available context size"}}, "context", None, None),
    ],
)  # fmt: skip
def test_what_the_vendors_errors_mean(
    status: int, body: Any, kind: str, most: int | None, provided_tokens: int | None
) -> None:
    report = parse_error(status, body)
    assert (report.kind, report.max_tokens, report.provided_tokens) == (kind, most, provided_tokens)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.example/v1/", "/models", "https://a.example/v1/models"),
        ("https://a.example", "/v1/models", "https://a.example/v1/models"),
        ("https://a.example/v1", "/v1/models", "https://a.example/v1/models"),
    ],
)
def test_a_version_is_sent_once(base: str, path: str, url: str) -> None:
    assert _joined_url(base, path) == url


# ── fields that a vendor may refuse ──

UNVERIFIED = {
    "error": {
        "message": "Your organization must be verified to generate reasoning summaries.",
        "type": "invalid_request_error",
        "param": "reasoning.summary",
        "code": "unsupported_value",
    }
}
REASONS = Model("m", "acme", "m", temperature=None, effort_style="reasoning", efforts={"medium": "medium"})


async def test_a_refused_summary_is_not_asked_for_again(fake_api: FakeAPI) -> None:
    transport = Transport()
    provider = Provider(
        "acme", "Acme", "openai_responses", fake_api.v1, options={"reasoning_summary": "auto"}
    )
    endpoint = Endpoint(provider, fake_api.v1, "k")
    fake_api.script(status=400, body=UNVERIFIED)
    hello = Call((Turn("user", "hello"),))
    for _ in range(2):
        events = [event async for event in transport.stream(hello, REASONS, endpoint, Limits(attempts=1))]
        assert text_of(events) == "m says: hello"
    await transport.close()
    assert [call.body["reasoning"] for call in fake_api.calls] == [
        {"effort": "medium", "summary": "auto"},
        {"effort": "medium"},
        {"effort": "medium"},
    ]


async def test_a_refused_field_that_is_needed_is_a_refusal(acme: Caller, fake_api: FakeAPI) -> None:
    fake_api.script(status=400, body=UNVERIFIED, times=None)
    with pytest.raises(UpstreamError):
        await acme.ask()
    assert len(fake_api.calls) == 1
