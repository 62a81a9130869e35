"""Routes for a team's people, what they may spend, and the keys that they bring. One person's server refuses them."""

from __future__ import annotations

from counsel.http.api import people as handlers
from counsel.http.api.documents import people
from counsel.http.api.endpoint import ApiRoute

ROWS: tuple[ApiRoute, ...] = (
    ApiRoute(
        "GET",
        "/api/people",
        handlers.listed,
        "The team's people, like `counsel people list`. For admins.",
        answers={200: people.People},
        team="admin",
    ),
    ApiRoute(
        "POST",
        "/api/people",
        handlers.add,
        "Add a person; the token is in this answer only. For admins.",
        body=people.AddPerson,
        answers={200: people.NewToken},
        team="admin",
    ),
    ApiRoute(
        "PATCH",
        "/api/people/{id}",
        handlers.change,
        "Change a person's role or groups, disable them, or let them in again. For admins.",
        body=people.ChangePerson,
        answers={200: people.PersonRow},
        team="admin",
    ),
    ApiRoute(
        "POST",
        "/api/people/{id}/token",
        handlers.rotate,
        "A new token instead of the person's others, which stop working. For admins.",
        answers={200: people.NewToken},
        team="admin",
    ),
    ApiRoute(
        "GET",
        "/api/limits",
        handlers.limits,
        "Budgets and rate limits: those that apply to you; for admins, all.",
        answers={200: people.Limits},
        team="person",
    ),
    ApiRoute(
        "PUT",
        "/api/limits",
        handlers.set_limit,
        "Set the limits of a person, a group or a provider; what is left out or null has none. For admins.",
        body=people.SetLimit,
        answers={200: people.Limit},
        team="admin",
    ),
    ApiRoute(
        "GET",
        "/api/own-keys",
        handlers.own_keys,
        "For which providers you have stored keys of your own. They are never shown.",
        answers={200: people.OwnKeys},
        team="person",
    ),
    ApiRoute(
        "PUT",
        "/api/own-keys/{provider}",
        handlers.store_own_key,
        "Store a key of your own, encrypted; your calls use it instead of the server's.",
        body=people.StoreOwnKey,
        answers={200: people.OwnKeys},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/own-keys/{provider}",
        handlers.remove_own_key,
        "Remove a key of your own.",
        answers={200: people.OwnKeys},
        team="person",
    ),
)
