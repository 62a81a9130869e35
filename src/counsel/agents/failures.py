"""Agents' failures as counsel's errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from counsel.agents.definitions import Agent
from counsel.errors import (
    AgentUnavailable,
    AuthenticationFailed,
    ContentFiltered,
    ContextLengthExceeded,
    CounselError,
    ModelNotFound,
    RateLimited,
    TimedOut,
    UpstreamError,
)

_LONGEST = 600  # characters of an agent's own message that are shown
_SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE).search
# A vendor's whole error response: only its message is shown.
_VENDORS = re.compile(r'\{\s*"error"\s*:.*\}', re.DOTALL)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOO_LONG = re.compile(
    r"prompt (?:is )?too long|too many tokens|context.?(?:length|window).{0,40}exceed|exceeds the maximum (?:number of tokens|length)|maximum context",
    re.IGNORECASE,
).search
_BLOCKED = re.compile(
    r"blocked by content filtering|content management policy|flagged as potentially violating|violates? (?:our |the )?usage (?:guidelines|polic)"
    r"|content exists risk|input was flagged|reason: content_filter",
    re.IGNORECASE,
).search
# The account's limits. Agents report them with any status, or with none.
_USED_UP = re.compile(
    r"reached your specified api usage limits|credit balance is too low|exceeded your current quota|quota exceeded"
    r"|insufficient (?:balance|credits)|used all available credits|monthly spending limit",
    re.IGNORECASE,
).search
_WAIT = re.compile(r"retry (?:in|after) (\d+(?:\.\d+)?) ?s\b", re.IGNORECASE).search


class LostSession(Exception):
    """The agent no longer has the session that it was told to continue."""


def clean(message: str, env: Mapping[str, str]) -> str:
    """An agent's message for display: no colours, no value of a secret variable, not too long."""
    message = _VENDORS.sub(_message, _ANSI.sub("", message))
    for name, value in env.items():
        if len(value) >= 4 and _SECRET_NAMES(name):
            message = message.replace(value, "***")
    message = message.strip()
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]} …"


def _message(match: re.Match[str]) -> str:
    try:
        message = json.loads(match[0])["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return match[0]
    return str(message)


def last_lines(stderr: str, lines: int = 3) -> str:
    """The last lines of stderr, without stack traces."""
    texts = [line.strip() for line in stderr.splitlines() if line.strip()]
    return " / ".join([line for line in texts if not line.startswith(("at ", "}"))][-lines:])


def not_installed(agent: Agent) -> CounselError:
    return AgentUnavailable(
        f"{agent.label} is not installed: `{agent.command}` is not on the PATH.",
        hint=f"Install it: {agent.install}",
        agent=agent.name,
        provider=agent.name,
    )


def not_startable(agent: Agent, message: str) -> CounselError:
    return AgentUnavailable(
        f"{agent.label} could not be started: {message}",
        hint=f"Reinstall it: {agent.install}",
        agent=agent.name,
        provider=agent.name,
    )


def not_logged_in(agent: Agent, message: str = "") -> CounselError:
    detail = f" ({message})" if message else ""
    return AuthenticationFailed(
        f"{agent.label} is not logged in, or its login was refused{detail}.",
        hint=f"Run `{agent.login}` and try again.",
        provider=agent.name,
        agent=agent.name,
    )


def rate_limited(agent: Agent, message: str, retry_after: float | None = None) -> CounselError:
    """A rate limit, or the account's limit, where waiting does not help. Google words both alike."""
    wait = retry_after or _seconds(message)
    if wait is None and _USED_UP(message):
        return RateLimited(
            f"{agent.label}: the account's quota or credit is used up: {message}",
            hint="Check its plan, limits and billing, or ask another model.",
            provider=agent.name,
            agent=agent.name,
            reason="insufficient_quota",
        )
    return RateLimited(
        f"{agent.label} is rate limited: {message}",
        hint="Wait, or ask another model.",
        provider=agent.name,
        agent=agent.name,
        retry_after=wait,
    )


def _seconds(message: str) -> float | None:
    match = _WAIT(message)
    return float(match[1]) if match else None


def timed_out(agent: Agent, seconds: float) -> CounselError:
    return TimedOut(
        f"{agent.label} did not finish within {seconds:g} s and was stopped.",
        hint="Ask for less, or raise REQUEST_TIMEOUT_MS.",
        provider=agent.name,
        agent=agent.name,
    )


def upstream(agent: Agent, message: str, status: int | None = None) -> CounselError:
    return UpstreamError(
        f"{agent.label} failed: {message or 'it gave no reason'}",
        hint="Try again; `counsel agents` shows whether it is set up.",
        provider=agent.name,
        agent=agent.name,
        status=status,
    )


def by_status(
    agent: Agent, status: int | None, message: str, retry_after: float | None = None
) -> CounselError:
    """The error for an HTTP status of the agent's vendor."""
    if _BLOCKED(message):
        return ContentFiltered(
            f"{agent.label}: the provider refused or blocked the request: {message}",
            hint="Rephrase the question, or ask another model.",
            provider=agent.name,
            agent=agent.name,
            status=status,
            finish_reason="filtered",
            vendor_text=message,
        )
    if status == 429 or _USED_UP(message):
        return rate_limited(agent, message, retry_after)
    if status in {401, 403}:
        return not_logged_in(agent, message)
    if status == 404:
        return ModelNotFound(
            f"{agent.label} cannot use this model: {message}",
            hint=f"Use the agent's own choice of model: `{agent.name}`.",
            provider=agent.name,
            agent=agent.name,
        )
    if status == 413 or _TOO_LONG(message):
        return ContextLengthExceeded(
            f"{agent.label}: the request is too long for its model: {message}",
            hint="Send fewer files, or start a new conversation.",
            provider=agent.name,
            agent=agent.name,
        )
    return upstream(agent, message, status)
