"""People and their tokens over HTTP, as an admin changes them."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_client import Api
from support.team_server import OPERATOR, TeamServer

PEOPLE = "/api/team/people"


async def patch(api: Api, name: str, **body: Any) -> tuple[int, Any]:
    async with api.session.patch(f"{PEOPLE}/{name}", json=body) as answer:
        return answer.status, await answer.json()


async def is_accepted(team: TeamServer, token: str) -> bool:
    status, _ = await (await team.client(token)).get("/api/jobs")
    assert status in {200, 401}
    return status == 200


async def test_an_admin_changes_a_person(team: TeamServer) -> None:
    admin, ann = await team.client(OPERATOR), await team.person("Ann")
    status, person = await patch(admin, "ann", role="read-only", groups=["Ops"])
    assert (status, person["name"], person["role"], person["groups"]) == (200, "Ann", "read-only", ["ops"])
    assert (await ann.post("/api/jobs", {"prompt": "hello", "model": "gpt-5"}))[0] == 403
    assert (await patch(admin, "Ann", role="member"))[1]["groups"] == ["ops"], (
        "fields that are not named stay"
    )
    assert (await patch(admin, "Ann", disabled=True))[1]["disabled_at"]
    assert not await is_accepted(team, team.tokens["Ann"])
    assert (await patch(admin, "Ann", disabled=False))[1]["disabled_at"] is None
    assert await is_accepted(team, team.tokens["Ann"])
    rows = (await admin.get("/api/team/audit"))[1]["records"]
    changes = [row["detail"] for row in rows if row["action"] == "people changed"]
    assert changes == ["enabled", "disabled", "role: member", "role: read-only, groups: ['Ops']"]
    assert (await patch(ann, "Ann", role="admin"))[0] == 403
    assert (await patch(admin, "Nobody", role="admin"))[0] == 404


@pytest.mark.parametrize("wrong", [{"role": "king"}, {"disabled": "yes"}, {"groups": "ops"}, {"age": 7}])
async def test_a_wrong_change_is_refused(team: TeamServer, wrong: Any) -> None:
    admin, _ = await team.client(OPERATOR), await team.person("Ann")
    assert (await patch(admin, "Ann", **wrong))[0] == 400


async def test_the_last_admin_is_changed_by_force_only(team: TeamServer) -> None:
    admin, _ = await team.client(OPERATOR), await team.person("Boss", "admin")
    for change in ({"role": "member"}, {"disabled": True}):
        assert (await patch(admin, "Boss", **change))[0] == 409
    assert (await patch(admin, "Boss", disabled=True, force=True))[1]["disabled_at"]


async def test_tokens_are_added_replaced_and_ended(team: TeamServer) -> None:
    admin, _ = await team.client(OPERATOR), await team.person("Ann")
    status, further = await admin.post(f"{PEOPLE}/Ann/tokens", {"label": "ci", "days": 3})
    assert (status, further["name"], bool(further["expires_at"])) == (200, "Ann", True)
    assert await is_accepted(team, further["token"])
    assert await is_accepted(team, team.tokens["Ann"])
    status, person = await admin.delete(f"{PEOPLE}/Ann/tokens/{further['token_id']}")
    assert (status, [token["label"] for token in person["tokens"]]) == (200, [""])
    assert not await is_accepted(team, further["token"])
    status, new_token = await admin.post(f"{PEOPLE}/Ann/rotate", {})
    assert (status, new_token["expires_at"]) == (200, None)
    assert await is_accepted(team, new_token["token"])
    assert not await is_accepted(team, team.tokens["Ann"])
    assert (await admin.delete(f"{PEOPLE}/Ann/tokens/nothing"))[0] == 404


async def test_everyone_sees_their_own_record(team: TeamServer) -> None:
    ann, operator = await team.person("Ann", groups=("ops",)), await team.client(OPERATOR)
    status, own = await ann.get("/api/team/me")
    assert (status, own["name"], own["groups"], len(own["tokens"])) == (200, "Ann", ["ops"], 1)
    status, record = await operator.get("/api/team/me")
    assert (status, record["role"], record["tokens"]) == (200, "admin", [])
