"""Every failure that a caller can meet, as one small tree.

    CounselError                     code, message, hint, fields
    ├── Refused                      the request cannot be served as it is; nothing was sent
    │   ├── InvalidArgument          INVALID_ARGUMENT
    │   ├── ModelNotFound            MODEL_NOT_FOUND            nearest
    │   ├── ContextLengthExceeded    CONTEXT_LENGTH_EXCEEDED    max_tokens, provided_tokens
    │   ├── FileNotAllowed           FILE_NOT_ALLOWED           file
    │   ├── FileTooLarge             FILE_TOO_LARGE             file
    │   ├── NotFound                 NOT_FOUND
    │   ├── Conflict                 CONFLICT
    │   ├── ConfigInvalid            CONFIG_INVALID             file, line, column
    │   └── SelfConsultation         SELF_CONSULTATION
    ├── Unavailable                  another model may still answer: `auto` goes on to the next
    │   ├── ProviderUnavailable      PROVIDER_UNAVAILABLE       provider
    │   ├── AgentUnavailable         AGENT_UNAVAILABLE          agent
    │   └── RateLimited              RATE_LIMIT_EXCEEDED        provider, retry_after
    ├── AuthenticationFailed         AUTHENTICATION_FAILED      provider
    ├── TimedOut                     TIMEOUT                    provider, partial
    ├── Cancelled                    CANCELLED
    ├── UpstreamError                UPSTREAM_ERROR             provider, status, partial
    └── Internal                     INTERNAL

Callers branch on the class, the code or a field, never on words.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CounselError(Exception):
    """A failure with a code, what happened, and what to do next.

    `fields` go to the caller as they are (provider, file, retry_after, partial text …): they must never
    hold a key, a token or a prompt.
    """

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = {name: value for name, value in fields.items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def as_dict(self) -> dict[str, Any]:
        """The seed's error object: `error`, `code`, then the fields."""
        shown: dict[str, Any] = {"error": self.message, "code": self.code, **self.fields}
        if self.hint:
            shown["hint"] = self.hint
        return shown

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class Refused(CounselError):
    code = "INVALID_ARGUMENT"


class InvalidArgument(Refused):
    code = "INVALID_ARGUMENT"


class ModelNotFound(Refused):
    code = "MODEL_NOT_FOUND"


class ContextLengthExceeded(Refused):
    code = "CONTEXT_LENGTH_EXCEEDED"


class FileNotAllowed(Refused):
    code = "FILE_NOT_ALLOWED"


class FileTooLarge(Refused):
    code = "FILE_TOO_LARGE"


class NotFound(Refused):
    code = "NOT_FOUND"


class Conflict(Refused):
    code = "CONFLICT"


class ConfigInvalid(Refused):
    code = "CONFIG_INVALID"


class SelfConsultation(Refused):
    code = "SELF_CONSULTATION"


class Unavailable(CounselError):
    code = "PROVIDER_UNAVAILABLE"


class ProviderUnavailable(Unavailable):
    code = "PROVIDER_UNAVAILABLE"


class AgentUnavailable(Unavailable):
    code = "AGENT_UNAVAILABLE"


class RateLimited(Unavailable):
    code = "RATE_LIMIT_EXCEEDED"


class AuthenticationFailed(CounselError):
    code = "AUTHENTICATION_FAILED"


class TimedOut(CounselError):
    code = "TIMEOUT"


class Cancelled(CounselError):
    code = "CANCELLED"


class UpstreamError(CounselError):
    code = "UPSTREAM_ERROR"


class Internal(CounselError):
    code = "INTERNAL"


def _leaves(kind: type[CounselError]) -> list[type[CounselError]]:
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in _leaves(child)] if below else [kind]


BY_CODE: dict[str, type[CounselError]] = {leaf.code: leaf for leaf in _leaves(CounselError)}


def from_dict(shown: dict[str, Any]) -> CounselError:
    """The error that `as_dict` described, for a door that got it over a socket or from the journal."""
    fields = {name: value for name, value in shown.items() if name not in {"error", "code", "hint"}}
    kind = BY_CODE.get(str(shown.get("code")), Internal)
    return kind(str(shown.get("error", "")), hint=shown.get("hint"), **fields)
