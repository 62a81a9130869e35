"""Routes for the people of a team's server. A server without a team answers all of them with 404."""

from __future__ import annotations

from counsel.http.api.documents import team
from counsel.http.api.endpoint import ApiRoute, number, text
from counsel.http.team import people

_WEEK = 7 * 86400
_MONTH = 30 * 86400
_LONGEST = 3650 * 86400

ROWS: tuple[ApiRoute, ...] = (
    ApiRoute(
        "GET",
        "/api/team/me",
        people.me,
        "Who sent the request, on a team's server.",
        answers={200: team.Person},
        team="person",
    ),
    ApiRoute(
        "POST",
        "/api/team/me/tokens",
        people.add_own_token,
        "Make a token for a machine of your own, such as a laptop (`counsel login`); only from the console.",
        body=team.AddToken,
        answers={200: team.NewToken},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/team/me/tokens/{token}",
        people.end_own_token,
        "End one of your own tokens.",
        answers={200: team.Person},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/team/people",
        people.list_people,
        "The people of the team, for admins.",
        answers={200: team.People},
        team="admin",
    ),
    ApiRoute(
        "POST",
        "/api/team/people",
        people.add,
        "Add a person, like `counsel people add`; the token is shown once.",
        body=team.AddPerson,
        answers={200: team.NewToken},
        team="admin",
    ),
    ApiRoute(
        "POST",
        "/api/team/people/{name:path}/rotate",
        people.rotate,
        "Make a new token and end all others.",
        body=team.RotateToken,
        answers={200: team.NewToken},
        team="admin",
    ),
    ApiRoute(
        "POST",
        "/api/team/people/{name:path}/tokens",
        people.add_token,
        "Make another token.",
        body=team.AddToken,
        answers={200: team.NewToken},
        team="admin",
    ),
    ApiRoute(
        "DELETE",
        "/api/team/people/{name:path}/tokens/{token}",
        people.end_token,
        "End a token of a person.",
        answers={200: team.Person},
        team="admin",
    ),
    ApiRoute(
        "PATCH",
        "/api/team/people/{name:path}",
        people.change,
        "Change a person's role or groups, disable or enable them.",
        body=team.ChangePerson,
        answers={200: team.Person},
        team="admin",
    ),
    ApiRoute(
        "GET",
        "/api/team/usage",
        people.usage,
        "Each person's usage, without their prompts; for admins.",
        query=(number("seconds", _MONTH, _LONGEST, "How far back."),),
        answers={200: team.TeamUsage},
        team="admin",
    ),
    ApiRoute(
        "GET",
        "/api/team/audit",
        people.audit,
        "Who did what, when; for admins.",
        query=(
            number("seconds", _WEEK, _LONGEST, "How far back."),
            text("person", "Only records of this person, by name."),
            number("limit", 100, 10_000, "Maximum number of records."),
        ),
        answers={200: team.AuditLog},
        team="admin",
    ),
)
