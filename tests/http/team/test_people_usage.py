"""What each person used, for admins: numbers, never what was asked."""

from __future__ import annotations

from support.team_server import OPERATOR, TeamServer


async def test_admins_see_what_each_person_used_and_not_what_they_asked(team: TeamServer) -> None:
    admin, ann, bob = await team.client(OPERATOR), await team.person("Ann"), await team.person("Bob")
    for api, calls in ((ann, 2), (bob, 1)):
        for number in range(calls):
            question = {"prompt": f"the word is xylophone {number}", "model": "gpt-5"}
            assert (await api.post("/api/jobs", question))[0] == 200
    status, document = await admin.get("/api/team/usage")
    assert status == 200
    assert [(row["name"], row["calls"], row["failed"]) for row in document["people"]] == [
        ("Ann", 2, 0),
        ("Bob", 1, 0),
    ]
    assert all(row["cost_usd"] > 0 and row["cost_complete"] for row in document["people"])
    assert "xylophone" not in str(document)
    assert (await ann.get("/api/team/usage"))[0] == 403
