"""Limits and own keys as the API shows them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict


class Limit(TypedDict):
    kind: Literal["person", "group", "provider"]
    name: Annotated[str, "A person's id, or the group's or provider's name."]
    shown: Annotated[str, "The name to show: a person's name, else the same as `name`."]
    day_usd: Annotated[float | None, "Maximum US dollars per day (UTC); null: no limit."]
    month_usd: Annotated[float | None, "Maximum US dollars per month (UTC)."]
    per_minute: Annotated[int | None, "Maximum number of calls started per minute."]
    at_once: Annotated[int | None, "Maximum number of calls at the same time."]


class Limits(TypedDict):
    limits: list[Limit]


class SetLimit(TypedDict):
    kind: Literal["person", "group", "provider"]
    name: Annotated[str, "A person's name or id, or the group's or provider's name."]
    day_usd: NotRequired[float | None]
    month_usd: NotRequired[float | None]
    per_minute: NotRequired[int | None]
    at_once: NotRequired[int | None]


class OwnKey(TypedDict):
    provider: str
    label: str
    stored_at: Annotated[str | None, "When your own key was stored; null: the server's is used."]
    server: Annotated[bool, "Whether the server has a key for this provider."]
    url: Annotated[str, "The page where the provider issues keys."]


class OwnKeys(TypedDict):
    keys: list[OwnKey]


class StoreOwnKey(TypedDict):
    key: str
