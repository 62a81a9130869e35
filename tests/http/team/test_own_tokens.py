"""People make tokens for their own machines in the console, and end them."""

from __future__ import annotations

from typing import cast

from fake import FakeAPI
from support.team_browser import TeamBrowser
from support.team_server import OPERATOR, TeamServer

TOKENS = "/api/team/me/tokens"


async def test_a_person_makes_a_token_for_a_laptop_in_the_console(
    team: TeamServer, fake_api: FakeAPI
) -> None:
    ann = await team.person("Ann")
    async with TeamBrowser(team.address) as browser:
        assert (await browser.fetch("POST", "/api/session", {"key": team.tokens["Ann"]}))[0] == 204
        status, new_token = await browser.fetch("POST", TOKENS, {"label": "my laptop"})
        assert status == 200
        assert (new_token["name"], new_token["role"]) == ("Ann", "member")
        assert new_token["expires_at"], "it ends by itself"
        laptop = await team.client(new_token["token"])
        status, about = await laptop.get("/v1/counsel")
        assert (status, about["person"]["name"]) == (200, "Ann")
        labels = [token["label"] for token in (await browser.fetch("GET", "/api/team/me"))[1]["tokens"]]
        assert "my laptop" in labels

        # a token makes no others, for whoever finds one
        for client in (laptop, ann):
            status, failure = await client.post(TOKENS, {})
            assert status == 403, failure
        assert (await (await team.client(OPERATOR)).post(TOKENS, {}))[0] == 404
        assert (await browser.fetch("POST", TOKENS, {"days": 4000}))[0] == 400

        await team.person("Bob")
        bob = await team.client(team.tokens["Bob"])
        assert (await bob.delete(f"{TOKENS}/{new_token['token_id']}"))[0] == 404, "another person's"
        status, about = await browser.fetch("DELETE", f"{TOKENS}/{new_token['token_id']}")
        assert (status, about["name"]) == (200, "Ann")
        assert "my laptop" not in [token["label"] for token in about["tokens"]], "what is left"
        assert (await laptop.get("/v1/counsel"))[0] == 401
    assert fake_api.requests == []


async def test_a_token_made_in_the_console_ends_with_the_token_that_signed_in(team: TeamServer) -> None:
    """Whoever has a token can sign in with it, and make others there."""
    await team.person("Ann")
    short = await team.people.add_token("Ann", days=1)
    async with TeamBrowser(team.address) as browser:
        await browser.fetch("POST", "/api/session", {"key": short.secret})
        from_short = (await browser.fetch("POST", TOKENS, {"days": 300}))[1]
        await browser.fetch("POST", "/api/session", {"key": team.tokens["Ann"]})
        from_lasting = (await browser.fetch("POST", TOKENS, {"days": 300}))[1]
    ends = {token.id: token.expires for token in (await team.people.find("Ann")).tokens}
    assert ends[from_short["token_id"]] == ends[short.token.id]
    assert cast(float, ends[from_lasting["token_id"]]) > cast(float, ends[short.token.id])


async def test_the_number_of_tokens_is_bounded(team: TeamServer) -> None:
    await team.person("Ann")
    async with TeamBrowser(team.address) as browser:
        await browser.fetch("POST", "/api/session", {"key": team.tokens["Ann"]})
        statuses = [(await browser.fetch("POST", TOKENS, {}))[0] for _ in range(20)]
    assert statuses == [200] * 19 + [409]
