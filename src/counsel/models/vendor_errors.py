"""Errors of the vendors' APIs as our errors: one table of statuses, codes and messages for all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

from counsel import strict_json
from counsel.errors import (
    BY_CODE,
    AuthenticationFailed,
    ContentFiltered,
    ContextLengthExceeded,
    CounselError,
    ModelNotFound,
    ProviderUnavailable,
    RateLimited,
    UpstreamError,
)
from counsel.lazy_dataclass import dataclass
from counsel.types import Endpoint, Json, Model, Usage

Kind: TypeAlias = Literal[
    "auth",
    "not_found",
    "rate_limit",
    "quota",
    "context",
    "filtered",
    "overloaded",
    "server",
    "refused",
    "wrong_address",
]
LONGEST_WAIT = 86_400.0  # seconds; a longer `retry-after` is cut to it
RETRYABLE: frozenset[Kind] = frozenset({"rate_limit", "overloaded", "server"})

_BY_STATUS: dict[int, Kind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    408: "server",
    413: "context",
    429: "rate_limit",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    529: "overloaded",
}
# The vendors' names of errors, in whichever field (code, type, status, reason): more precise than the status.
_BY_NAME: dict[str, Kind] = {
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "API_KEY_INVALID": "auth",
    "UNAUTHENTICATED": "auth",
    "permission_error": "auth",
    "PERMISSION_DENIED": "auth",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "invalid_model": "not_found",
    "NOT_FOUND": "not_found",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limited": "rate_limit",  # Mistral
    "too_many_requests": "rate_limit",  # Azure
    "RESOURCE_EXHAUSTED": "rate_limit",
    "context_length_exceeded": "context",
    "exceed_context_size_error": "context",
    "too_many_prompt_tokens": "context",
    "request_too_large": "context",
    "content_filter": "filtered",  # Azure
    "content_policy_violation": "filtered",
    "data_inspection_failed": "filtered",  # Alibaba
    "invalid_prompt": "filtered",  # OpenAI's reasoning models
    "overloaded_error": "overloaded",
    "UNAVAILABLE": "overloaded",
    "timeout_error": "overloaded",
    "DEADLINE_EXCEEDED": "overloaded",
    "server_error": "server",
    "api_error": "server",
    "INTERNAL": "server",
}
# Messages of vendors that have no name for the error. `max` and `given` are numbers of tokens.
_MESSAGES: tuple[tuple[str, Kind], ...] = (
    (r"maximum context length is (?P<max>\d+) tokens.*?(?:resulted in|requested(?: about)?|contains) (?P<given>\d+)", "context"),
    (r"prompt is too long: (?P<given>\d+) tokens > (?P<max>\d+)", "context"),
    (r"exceed context limit: (?P<given>\d+) \+ \d+ > (?P<max>\d+)", "context"),
    (r"input token count \((?P<given>\d+)\) exceeds the maximum number of tokens allowed \((?P<max>\d+)\)", "context"),
    (r"maximum prompt length is (?P<max>\d+) but the request contains (?P<given>\d+)", "context"),
    (r"contains (?P<given>\d+) tokens.*too large for model with (?P<max>\d+) maximum context", "context"),
    (r"exceeds? the (?:available )?context (?:window|size|length)|context length exceeded|prompt is too long", "context"),
    (r"prompt too long; exceeded (?:max )?context length", "context"),
    (r"blocked by content filtering|content management policy|content exists risk", "filtered"),
    (r"flagged as potentially violating|violates? (?:our |the )?usage (?:guidelines|polic)|input was flagged", "filtered"),
    (r"credit balance is too low|exceeded your current quota|insufficient (?:balance|credits)", "quota"),
    (r"reached your specified api usage limits|used all available credits|monthly spending limit", "quota"),
    (r"login fail: |api key not valid|incorrect api key|invalid api key|no auth credentials", "auth"),
    (r"is not a valid model|model not found|invalid model|does not exist or you do not have access", "not_found"),
    (r"overloaded", "overloaded"),
)  # fmt: skip
# Names for a bad request. They come with many statuses, and the status is more precise.
_WRONG_REQUEST = frozenset(
    {
        "invalid_request_error",
        "bad_request_error",
        "BadRequestError",
        "INVALID_ARGUMENT",
        "FAILED_PRECONDITION",
    }
)
_BY_MESSAGE = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _MESSAGES)


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error that a vendor reported."""

    kind: Kind
    message: str
    status: int | None = None
    retry_after: float | None = None
    max_tokens: int | None = None
    provided_tokens: int | None = None
    field: str = ""  # of the request, if the error names it
    own: Json | None = None  # an error of a counsel server, as `CounselError.as_dict` makes it
    name: str = ""  # the vendor's name for why it blocked the request

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


class ErrorEvent(UpstreamError):
    """Raised by a wire's reader for an error event in a stream. The exchange adds the provider's name."""

    def __init__(self, body: object, status: int | None = None, usage: Usage | None = None) -> None:
        super().__init__("The provider reported an error in its stream.")
        self.report = parse_error(status, body)
        self.reported_usage = usage  # up to the error, if the vendor reports it


def parse_error(status: int | None, body: object, headers: Mapping[str, str] | None = None) -> ErrorReport:
    names, message, details = _names_and_message(body)
    from_message, match = next(
        ((kind, match) for pattern, kind in _BY_MESSAGE if (match := pattern.search(message))), (None, None)
    )
    kind = _quota(status, details) or _kind(
        status, names, from_message, is_json=isinstance(body, (dict, list))
    )
    return ErrorReport(
        kind=kind,
        message=message,
        status=status,
        retry_after=_retry_after(headers or {}, details),
        max_tokens=_number(match, "max"),
        provided_tokens=_number(match, "given"),
        field=_field(body),
        own=_own(body),
        name=next((name for name in names if _BY_NAME.get(name) == kind), "") if kind == "filtered" else "",
    )


def _own(body: object) -> Json | None:
    if not isinstance(body, dict) or not isinstance(body.get("error"), str):
        return None
    code = body.get("code")
    return body if isinstance(code, str) and code in BY_CODE else None


def _field(body: object) -> str:
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner.get("param") or "") if isinstance(inner, dict) else ""


def _quota(status: int | None, details: list[dict[str, object]]) -> Kind | None:
    """Google's message mentions quota and billing for every limit; the violated limit tells whether waiting helps."""
    if status not in {None, 429}:
        return None
    violations = [limit for detail in details for limit in _dicts(detail.get("violations"))]
    if any(
        "PerDay" in str(limit.get("quotaId")) or str(limit.get("quotaValue")) == "0" for limit in violations
    ):
        return "quota"
    waits = any(detail.get("retryDelay") for detail in details)
    return "rate_limit" if waits or any(limit.get("quotaId") for limit in violations) else None


def _dicts(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _kind(status: int | None, names: list[str], from_message: Kind | None, *, is_json: bool) -> Kind:
    from_name = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if status is not None and status >= 500:
        if from_message == "context":
            return "context"
        overloaded = "overloaded" in {from_message, from_name} or status in _BY_STATUS
        return "overloaded" if overloaded else "server"
    if from_name == "server" and status is not None:  # Ollama Cloud reports a refused key as `api_error`
        from_name = None
    decisive = {"context", "quota", "filtered"} if status else {"context", "quota", "filtered", "overloaded"}
    surest_first: tuple[Kind | None, ...] = (
        from_message if from_message in decisive else None,
        from_name,
        "wrong_address" if status == 404 and not is_json else None,
        _BY_STATUS.get(status or 0),
        from_message,
        "server" if status is None and not _WRONG_REQUEST.intersection(names) else "refused",
    )
    return next(kind for kind in surest_first if kind)


def stated_status(body: object) -> int | None:
    """The HTTP status that an error states itself: OpenRouter as `code`, LiteLLM as text, Groq as `status_code`."""
    inner = _error_object(body)
    if not isinstance(inner, dict):
        return None
    values = (str(inner.get(name)) for name in ("code", "status_code", "status"))
    return next((int(value) for value in values if re.fullmatch(r"[45]\d\d", value)), None)


def stated_type(body: object) -> str:
    inner = _error_object(body)
    return str(inner.get("type") or "") if isinstance(inner, dict) else ""


def _error_object(body: object) -> object:
    """The part that describes the error, mostly an object; of a list (Google without SSE, Cloudflare's `errors`) the
    first."""
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0]
    inner: object = body
    if isinstance(body, dict):
        inner = next(filter(None, map(body.get, ("error", "errors", "base_resp"))), body)
    return inner[0] if isinstance(inner, list) and inner and isinstance(inner[0], dict) else inner


def _words(value: object, depth: int = 4) -> str:
    """The text of a message: some servers send a list, or objects (FastAPI: `[{"loc": …, "msg": …}]`)."""
    if isinstance(value, str):
        return "" if value.lstrip().startswith("<") else value
    if not depth:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_words(item, depth - 1) for item in value)))
    if isinstance(value, dict):
        texts = (_words(value.get(name), depth - 1) for name in ("message", "msg", "text", "detail", "error"))
        return next(filter(None, texts), "")
    return ""


# Where servers write their words, apart from `message` and `detail`: MiniMax, Baidu, Alibaba, AWS, problem+json.
_TEXT_FIELDS = ("error", "msg", "status_msg", "error_msg", "errMsg", "errorMessage", "Message", "title")


def _names_and_message(body: object) -> tuple[list[str], str, list[dict[str, object]]]:
    """Names, message and details, in the formats of OpenAI, Anthropic, Google, xAI, Mistral and OpenRouter."""
    inner = _error_object(body)
    if not isinstance(inner, dict):
        outer = body if isinstance(body, dict) else {}
        text = _words(outer.get("error_description")) or _words(inner) or _words(outer.get("message"))
        return [str(outer.get("code", ""))], text, []
    outer = body if isinstance(body, dict) else inner
    upstream, upstream_details = _upstream(inner)
    details = [*_dicts(inner.get("details")), *upstream_details]
    reasons = [detail.get("reason") for detail in details]
    names = [*reasons, inner.get("code"), inner.get("type"), inner.get("status")]
    texts = (inner.get("message"), inner.get("detail"), outer.get("detail"), *map(inner.get, _TEXT_FIELDS))
    message = next(filter(None, map(_words, texts)), "")
    return [str(name) for name in names if name], f"{message}{upstream and f' ({upstream})'}", details


def _upstream(inner: Json) -> tuple[str, list[dict[str, object]]]:
    """The upstream vendor's message and details, which OpenRouter has in metadata.raw, as text or JSON."""
    metadata = inner.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str):
        return "", []
    body: object = None
    with suppress(ValueError):
        body = strict_json.loads(raw)
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return raw, []
    return str(error.get("message") or raw), _dicts(error.get("details"))


def _number(match: re.Match[str] | None, name: str) -> int | None:
    number = match.groupdict().get(name) if match else None
    return int(number) if number else None


def _retry_after(headers: Mapping[str, str], details: list[dict[str, object]]) -> float | None:
    """Seconds, from 0 to `LONGEST_WAIT`; None if there is no readable value."""
    header = headers.get("retry-after", "")
    delays = [_delay(detail["retryDelay"]) for detail in details if "retryDelay" in detail]
    waits = (
        _seconds(headers.get("retry-after-ms", ""), 1000.0),
        _seconds(header),
        _until(header),
        *(_seconds(delay) for delay in delays),
    )
    return next((wait for wait in waits if wait is not None), None)


def _delay(value: object) -> str:
    """Google's `"1.5s"`, which some gateways pass on as `{"seconds": 1, "nanos": 500000000}`."""
    if isinstance(value, dict):
        seconds, nanos = value.get("seconds") or 0, value.get("nanos") or 0
        return f"{seconds}" if not isinstance(nanos, int) else f"{seconds}.{nanos:09d}"
    return str(value).removesuffix("s")


def _seconds(text: str, per: float = 1.0) -> float | None:
    try:
        seconds = float(text) / per
    except ValueError:
        return None
    return None if math.isnan(seconds) else _bounded(seconds)


def _until(date: str) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return _bounded((when - datetime.now(UTC)).total_seconds())


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_WAIT)


ASK_ANOTHER = "Rephrase the question, or ask another model."  # after a refusal

# ── as our errors ─────────────────────────────────────────────────────────────────────────────────────

_LOOKS_LIKE_A_KEY = re.compile(r"\b(?:sk-|xai-|AIza|gsk_|key-)[\w*.\-]{6,}")


def scrubbed(text: str, key: str | None) -> str:
    """A vendor's message without the key: some repeat it, whole or masked."""
    if key:
        text = text.replace(key, "[key]")
    text = _LOOKS_LIKE_A_KEY.sub("[key]", text)
    return text if len(text) <= 400 else text[:400] + "…"


def as_error(report: ErrorReport, endpoint: Endpoint, model: Model, **fields: object) -> CounselError:
    if endpoint.team:
        from counsel.models import team_errors  # few homes have joined a team

        return team_errors.as_error(report, endpoint, **fields)
    if report.kind == "filtered":
        return _blocked(report, endpoint, model, fields)
    return _of_vendor(report, endpoint, model, fields)


def _of_vendor(
    report: ErrorReport, endpoint: Endpoint, model: Model, fields: Mapping[str, object]
) -> CounselError:
    provider = endpoint.provider
    label, name = provider.label or provider.name, provider.name
    message = scrubbed(report.message, endpoint.key).strip()
    quote = f": {message}" if message else "."
    status = report.status
    if report.kind == "auth":
        keys = " or ".join(provider.key_envs) or "the key"
        where = f" Keys: {provider.key_url}" if provider.key_url else ""
        return AuthenticationFailed(
            f"{label} refused the key{quote}",
            hint=f"Check {keys}.{where}",
            provider=name,
            status=status,
            **fields,
        )
    if report.kind == "not_found":
        return ModelNotFound(
            f"{label} has no model {model.wire_id}{quote}",
            hint="`counsel models` lists the known models.",
            provider=name,
            model=model.id,
            **fields,
        )
    if report.kind in {"rate_limit", "quota"}:
        return _limited(report, label, name, quote, fields)
    if report.kind == "context":
        return ContextLengthExceeded(
            f"The request is too long for {model.id}{quote}",
            hint="Send fewer or shorter files, start a new conversation, or name a model with a larger context window.",
            provider=name,
            max_tokens=report.max_tokens or model.context,
            provided_tokens=report.provided_tokens,
            **fields,
        )
    if report.kind == "overloaded":
        return ProviderUnavailable(
            f"{label} is overloaded or down ({status or 'in the stream'}){quote}",
            hint="Try again in a moment, or ask another model.",
            provider=name,
            status=status,
            **fields,
        )
    return _other(report, endpoint, label, quote, fields)


def _limited(
    report: ErrorReport, label: str, name: str, quote: str, fields: Mapping[str, object]
) -> RateLimited:
    if report.kind == "quota":
        return RateLimited(
            f"{label}: the account's quota or credit is used up{quote}",
            hint=f"Check the plan, limits and billing at {label}, or ask another model.",
            provider=name,
            reason="insufficient_quota",
            **fields,
        )
    wait = report.retry_after
    hint = (
        f"Try again in {max(wait, 1.0):.0f} s, or ask another model."
        if wait
        else "Try again later, or ask another model."
    )
    return RateLimited(
        f"{label} rate limit exceeded{quote}", hint=hint, provider=name, retry_after=wait, **fields
    )


def _blocked(
    report: ErrorReport, endpoint: Endpoint, model: Model, fields: Mapping[str, object]
) -> ContentFiltered:
    """Most vendors answer a blocked request with 400, X.AI and OpenRouter with 403."""
    message = scrubbed(report.message, endpoint.key).strip()
    why = f" ({report.name})" if report.name else ""
    return ContentFiltered(
        f"{model.id} did not answer: it was refused or blocked{why}{f': {message}' if message else '.'}",
        hint=ASK_ANOTHER,
        provider=endpoint.provider.name,
        model=model.id,
        status=report.status
        or 400,  # of an error in a stream: distinguishes it from an answer that was cut off
        finish_reason="filtered",
        vendor_reason=report.name or None,
        vendor_text=message or None,
        **fields,
    )


def _other(
    report: ErrorReport, endpoint: Endpoint, label: str, quote: str, fields: Mapping[str, object]
) -> UpstreamError:
    provider, status = endpoint.provider, report.status
    if report.kind == "wrong_address":
        message = f"{label} has no API at {endpoint.base_url} (404)."
        hint = f"Check {provider.base_url_env or 'the base URL'}."
    elif report.kind == "server":
        message = f"{label} failed ({status or 'in the stream'}){quote}"
        hint = "Try again, or ask another model."
    elif status is not None and status < 400 and status != 200:  # a redirect, or a gateway's own answer
        message = f"{label} answered with status {status} instead of 200{quote}"
        hint = f"Check {provider.base_url_env or 'the base URL'} ({endpoint.base_url}), and any gateway in between."
    else:
        message = f"{label} refused the request ({status or 'in the stream'}){quote}"
        hint = "`counsel models` shows what each model supports."
    return UpstreamError(message, hint=hint, provider=provider.name, status=status, **fields)
