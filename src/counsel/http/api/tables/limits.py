"""Routes for the limits of a team and for its people's own keys. A server without a team refuses them."""

from __future__ import annotations

from counsel.http.api.documents import limits
from counsel.http.api.endpoint import ApiRoute
from counsel.http.team import limits as handlers

ROWS: tuple[ApiRoute, ...] = (
    ApiRoute(
        "GET",
        "/api/team/limits",
        handlers.limits,
        "Budgets and rate limits: those that apply to you; all of them for admins.",
        answers={200: limits.Limits},
        team="person",
    ),
    ApiRoute(
        "PUT",
        "/api/team/limits",
        handlers.set_limit,
        "Set all limits of a person, a group or a provider; null or missing means no limit. For admins.",
        body=limits.SetLimit,
        answers={200: limits.Limit},
        team="admin",
    ),
    ApiRoute(
        "GET",
        "/api/team/keys",
        handlers.own_keys,
        "The providers for which you have stored keys of your own; keys are never shown.",
        answers={200: limits.OwnKeys},
        team="person",
    ),
    ApiRoute(
        "PUT",
        "/api/team/keys/{provider}",
        handlers.store_own_key,
        "Store a key of your own, encrypted; your calls use it instead of the server's.",
        body=limits.StoreOwnKey,
        answers={200: limits.OwnKeys},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/team/keys/{provider}",
        handlers.remove_own_key,
        "Remove a key of your own.",
        answers={200: limits.OwnKeys},
        team="person",
    ),
)
