"""Usage, budgets and conversations as `--json` and `/api` show them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict

# The name of a class is its name in the OpenAPI document; its docstring and the strings behind fields are descriptions.

By: TypeAlias = Literal["model", "provider", "day", "client", "project", "tool"]


class ResponseTimes(TypedDict):
    p50: int | None
    p95: int | None
    max: int | None


class UsageSum(TypedDict):
    calls: int
    errors: Annotated[dict[str, int], "By code."]
    error_rate: float
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: Annotated[float, "Of the calls whose price is known."]
    calls_without_price: int
    calls_without_usage: Annotated[int, "Calls whose provider reported no tokens."]
    response_ms: ResponseTimes
    peak_concurrency: int


class UsageGroup(UsageSum):
    """Named by the field that the request grouped `by`."""

    model: NotRequired[str]
    provider: NotRequired[str]
    day: NotRequired[str]
    client: NotRequired[str]
    project: NotRequired[Annotated[str, "A folder; empty: unknown."]]
    tool: NotRequired[str]


class BudgetReport(TypedDict):
    """A budget of a day or a month, and what is left of it. Times are in the server's time zone."""

    budget: Annotated[str, "`day`, `month`, `day:openai` …"]
    period: Literal["day", "month"]
    provider: Annotated[str | None, "null: all providers."]
    person: NotRequired[Annotated[str | None, "In a team: the person whose budget it is."]]
    group: NotRequired[Annotated[str | None, "In a team: the group whose members share it."]]
    limit_usd: float
    spent_usd: float
    reserved_usd: Annotated[float, "Reserved for running calls."]
    left_usd: float
    since: str
    until: Annotated[str, "When the next period begins."]


class UsageSummary(TypedDict):
    since: str
    by: str
    groups: list[UsageGroup]
    total: UsageSum


class UsageReport(UsageSummary):
    budgets: list[BudgetReport]


class UsageSeriesGroup(TypedDict):
    """One value for each part of the period, the oldest first."""

    name: Annotated[str | None, "null: all groups beyond the 50 with the most calls."]
    calls: list[int]
    errors: list[int]
    cost_usd: Annotated[list[float], "Of the calls whose price is known."]
    input_tokens: list[int]
    output_tokens: list[int]
    latency_ms: Annotated[list[int | None], "The median of the answered calls; null: there was none."]


class UsageSeries(TypedDict):
    """Times are seconds since 1970."""

    since: float
    until: float
    step: Annotated[float, "Length of one part, in seconds."]
    by: str
    groups: Annotated[list[UsageSeriesGroup], "Most calls first."]


class ConversationSharing(TypedDict):
    """On a team's server: everyone can read the conversation."""

    by: Annotated[str, "Its owner."]
    at: Annotated[str, "ISO 8601, UTC."]


class ConversationSummary(TypedDict):
    id: str
    title: str | None
    tool: str
    model: str | None
    provider: str | None
    messages: int
    project: Annotated[str, "The folder from which it was started."]
    client: Annotated[str, "The program that started it."]
    tag: str | None
    created_at: Annotated[str, "ISO 8601, UTC."]
    updated_at: Annotated[str, "ISO 8601, UTC."]
    expires_in_days: float
    found: NotRequired[Annotated[str | None, "With `q`: the line that contains the first word."]]
    shared: NotRequired[ConversationSharing]


class ConversationList(TypedDict):
    conversations: list[ConversationSummary]


class Conversations(ConversationList):
    """Last used first."""

    next: Annotated[str | None, "The cursor of the next page; null: this is the last page."]
