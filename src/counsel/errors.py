"""All errors that callers can get, as one small tree.

    CounselError                     code, message, hint, fields
    ├── Refused                      the request is invalid; nothing was sent
    │   ├── InvalidArgument          INVALID_ARGUMENT
    │   ├── ModelNotFound            MODEL_NOT_FOUND            nearest
    │   ├── BudgetExceeded           BUDGET_EXCEEDED            budget, limit_usd, spent_usd, reserved_usd, needed_usd, until, provider, model
    │   ├── ContextLengthExceeded    CONTEXT_LENGTH_EXCEEDED    max_tokens, provided_tokens
    │   ├── FileNotAllowed           FILE_NOT_ALLOWED           file
    │   ├── FileTooLarge             FILE_TOO_LARGE             file
    │   ├── NotFound                 NOT_FOUND
    │   ├── NotPermitted             NOT_PERMITTED
    │   ├── Conflict                 CONFLICT
    │   ├── ConfigInvalid            CONFIG_INVALID             file, line, column
    │   └── SelfConsultation         SELF_CONSULTATION
    ├── Unavailable                  another model may answer: `auto` asks the next
    │   ├── ProviderUnavailable      PROVIDER_UNAVAILABLE       provider, tried
    │   ├── AgentUnavailable         AGENT_UNAVAILABLE          agent
    │   └── RateLimited              RATE_LIMIT_EXCEEDED        provider, retry_after
    ├── NoAnswer                     the model gave no answer: `auto` asks the next
    │   ├── ContentFiltered          CONTENT_FILTERED           provider, model, finish_reason, vendor_reason, vendor_text, recommended_model, partial
    │   ├── SchemaMismatch           SCHEMA_MISMATCH            provider, model, path, partial
    │   └── EmptyAnswer              EMPTY_ANSWER               provider, model, finish_reason, vendor_reason, vendor_text, partial
    ├── AuthenticationFailed         AUTHENTICATION_FAILED      provider
    ├── TimedOut                     TIMEOUT                    provider, partial
    ├── Cancelled                    CANCELLED
    ├── UpstreamError                UPSTREAM_ERROR             provider, status, partial
    ├── OutOfResources               OUT_OF_RESOURCES
    └── Internal                     INTERNAL

Callers branch on the class, the code or a field, never on the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeAlias, TypeVar

ErrorDict: TypeAlias = dict[str, Any]
LONGEST = 4_000  # characters of a message or field: an error must not repeat an argument of 98 KB
_UNCUT = frozenset({"partial"})  # the text of an answer, which was paid for
_MOST_ENTRIES = 100
_SHORTEST = 300  # characters that each text in a list may always have: enough for a path


def bounded(value: object, limit: int = LONGEST) -> Any:
    """The value with long strings cut in the middle, so that their start and end stay readable."""
    if isinstance(value, str):
        if len(value) <= limit:
            return value
        head, tail = limit * 3 // 4, limit // 5
        return f"{value[:head]}… [{len(value) - head - tail:,} characters omitted] …{value[-tail:]}"
    if isinstance(value, dict):
        return {name: item if name in _UNCUT else bounded(item, limit) for name, item in value.items()}
    if isinstance(value, list | tuple):
        entries = value[:_MOST_ENTRIES]
        share = max(_SHORTEST, limit // (len(entries) or 1))  # 20 names of 98 KB must not take more than one
        return [bounded(item, share if isinstance(item, str) else limit) for item in entries]
    return value


_T = TypeVar("_T")


class Field(Generic[_T]):
    """Typed access to a field of an error: None if it is missing or of another type."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, error: CounselError, owner: type | None = None) -> _T | None:
        value: _T | None = error.fields.get(self._name)
        return value if isinstance(value, self._kinds) else None


class CounselError(Exception):
    """A failure with a code, what happened, and what to do next.

    `fields` are sent to the caller as they are (provider, file, retry_after, partial text …): they must never contain a
    key, a token or a prompt. Long texts are shortened, except `partial`.
    """

    partial = Field[str](str)  # the answer's text so far
    status = Field[int](int)  # HTTP
    provider = Field[str](str)
    model = Field[str](str)
    usage = Field[ErrorDict](dict)  # of a failed call
    cost_usd = Field[float](int, float)
    job_id = Field[str](str)
    continuation_id = Field[str](str)
    tried = Field[list[ErrorDict]](list)  # by `auto`: each provider with its models, code, error and hint

    code: str = "INTERNAL"

    def __init__(self, message: str, *, hint: str | None = None, **fields: object) -> None:
        self.message: str = bounded(message)
        super().__init__(self.message)
        self.hint: str | None = bounded(hint)
        self.fields: ErrorDict = bounded({name: value for name, value in fields.items() if value is not None})

    def copy(self, *, partial: bool = True) -> Self:
        """A copy without the traceback, whose frames refer to the job. `partial=False`: without the partial text."""
        copy = type(self)(self.message, hint=self.hint)
        copy.code, copy.fields = self.code, dict(self.fields)
        if not partial:
            copy.fields.pop("partial", None)
        return copy

    def as_dict(self) -> ErrorDict:
        """The error as a JSON document: `error`, `code`, then the fields."""
        document: ErrorDict = {"error": self.message, "code": self.code, **self.fields}
        if self.hint:
            document["hint"] = self.hint
        return document

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        # A vendor's message may end without a full stop.
        stop = "" if self.message.endswith((".", "!", "?", "…")) else "."
        return f"{self.message}{stop} {self.hint}"


class Refused(CounselError):
    code = "INVALID_ARGUMENT"


class InvalidArgument(Refused):
    """An argument is missing, unknown or invalid; the message names it and what is allowed."""

    code = "INVALID_ARGUMENT"


class ModelNotFound(Refused):
    """No model has this name. `nearest` lists similar names."""

    code = "MODEL_NOT_FOUND"

    nearest = Field[list[str]](list)


class BudgetExceeded(Refused):
    """A call was not sent, because it could cost more than is left of a budget or its price is unknown."""

    code = "BUDGET_EXCEEDED"

    budget = Field[str](str)  # which one: `job`, `day`, `month`, `day of openai` …
    limit_usd = Field[float](int, float)
    spent_usd = Field[float](int, float)
    reserved_usd = Field[float](int, float)  # for running calls
    needed_usd = Field[float](int, float)
    until = Field[str](str)  # when the budget starts again, ISO 8601


class ContextLengthExceeded(Refused):
    """The request is larger than the model's context window."""

    code = "CONTEXT_LENGTH_EXCEEDED"

    max_tokens = Field[int](int)
    provided_tokens = Field[int](int)


class FileNotAllowed(Refused):
    """A file is outside the allowed folders, looks like a secret, or cannot be read or written."""

    code = "FILE_NOT_ALLOWED"

    file = Field[str](str)


class FileTooLarge(Refused):
    """A file or image exceeds its limit of bytes or pixels."""

    code = "FILE_TOO_LARGE"

    file = Field[str](str)
    size = Field[int](int)
    limit = Field[int](int)


class NotFound(Refused):
    """There is no such file, job or conversation, or it no longer exists."""

    code = "NOT_FOUND"


class NotPermitted(Refused):
    """A team's server does not allow this at all, or not for this role."""

    code = "NOT_PERMITTED"


class Conflict(Refused):
    """Something with this name already exists and does not belong to counsel, or was changed in the meantime."""

    code = "CONFLICT"


class ConfigInvalid(Refused):
    """A configuration file is invalid; it was not changed."""

    code = "CONFIG_INVALID"

    file = Field[str](str)
    line = Field[int](int)
    column = Field[int](int)


class SelfConsultation(Refused):
    """An agent asked for itself, or agents asked agents beyond the allowed depth."""

    code = "SELF_CONSULTATION"

    agent = Field[str](str)
    chain = Field[list[str]](list)


class Unavailable(CounselError):
    code = "PROVIDER_UNAVAILABLE"


class ProviderUnavailable(Unavailable):
    """A provider has no key, cannot be reached, or is overloaded."""

    code = "PROVIDER_UNAVAILABLE"


class AgentUnavailable(Unavailable):
    """An agent is not installed, not logged in, or did not start."""

    code = "AGENT_UNAVAILABLE"

    agent = Field[str](str)


class RateLimited(Unavailable):
    """A provider's rate limit is exceeded. `retry_after`: seconds to wait, if the provider reported them."""

    code = "RATE_LIMIT_EXCEEDED"

    retry_after = Field[float](int, float)


class NoAnswer(CounselError):
    code = "EMPTY_ANSWER"

    finish_reason = Field[str](str)
    vendor_reason = Field[str](str)
    vendor_text = Field[str](str)


class ContentFiltered(NoAnswer):
    """A model refused, or its provider blocked the prompt or the answer; see `vendor_reason` and `vendor_text`."""

    code = "CONTENT_FILTERED"

    recommended_model = Field[str](str)


class SchemaMismatch(NoAnswer):
    """Neither of a model's two answers was JSON that matches the caller's schema. `path` says where it differs."""

    code = "SCHEMA_MISMATCH"

    path = Field[str](str)


class EmptyAnswer(NoAnswer):
    """A model finished without an answer: nothing, white space, or reasoning only."""

    code = "EMPTY_ANSWER"


class AuthenticationFailed(CounselError):
    """A provider rejected the key, or an agent its login. `own_key`: the key that a person of a team has stored."""

    code = "AUTHENTICATION_FAILED"

    own_key = Field[bool](bool)


class TimedOut(CounselError):
    """A call did not finish in time. `partial` is the text so far."""

    code = "TIMEOUT"

    limit = Field[str](str)  # which one: connect, first_event, idle, total


class Cancelled(CounselError):
    """The call was cancelled, also upstream."""

    code = "CANCELLED"


class UpstreamError(CounselError):
    """A provider reported an error, or its answer broke off. `partial` is the text so far."""

    code = "UPSTREAM_ERROR"

    failed = Field[list[ErrorDict]](list)  # consensus: every model's failure


class OutOfResources(CounselError):
    """No file descriptors, memory or processes are left on this machine, or within counsel's limits."""

    code = "OUT_OF_RESOURCES"


class Internal(CounselError):
    """A bug in counsel. The log has details; please report it."""

    code = "INTERNAL"


def _leaves(kind: type[CounselError]) -> list[type[CounselError]]:
    children = kind.__subclasses__()
    return [leaf for child in children for leaf in _leaves(child)] if children else [kind]


BY_CODE: dict[str, type[CounselError]] = {leaf.code: leaf for leaf in _leaves(CounselError)}


def from_dict(document: Mapping[str, Any]) -> CounselError:
    """The error that `as_dict` described, from a socket or the database."""
    fields = {name: value for name, value in document.items() if name not in {"error", "code", "hint"}}
    code = str(document.get("code", Internal.code))
    error = BY_CODE.get(code, Internal)(str(document.get("error", "")), hint=document.get("hint"), **fields)
    error.code = code  # may be a code of a newer release, which has no class here
    return error
