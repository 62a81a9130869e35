"""Sessions of a team's console: any server accepts the cookie, and a session that ends, ends everywhere at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel.http.console.sessions import IDLE_SECONDS
from counsel.http.team import sessions
from fake import FakeAPI
from support.team_browser import TeamBrowser
from support.team_server import OPERATOR, TeamServer, serving


@pytest.fixture
async def second(
    team: TeamServer, tmp_path: Path, fake_api: FakeAPI, database: str
) -> AsyncIterator[TeamServer]:
    (tmp_path / "second").mkdir()
    async with serving(tmp_path / "second", fake_api, database) as server:
        yield server


@pytest.fixture
async def browser(team: TeamServer) -> AsyncIterator[TeamBrowser]:
    async with TeamBrowser(team.address) as browser:
        yield browser


async def sign_in(browser: TeamBrowser, team: TeamServer, name: str = "Ann", role: str = "member") -> None:
    await team.person(name, role, ("ops",))
    assert (await browser.fetch("POST", "/api/session", {"key": team.tokens[name]}))[0] == 204


async def test_a_token_signs_in_and_the_cookie_counts_at_every_server(
    team: TeamServer, second: TeamServer, browser: TeamBrowser
) -> None:
    assert (await browser.fetch("GET", "/login/methods"))[1] == {"team": True, "issuer": None}
    assert (await browser.fetch("GET", "/api/session"))[0] == 401
    for wrong in ("", "csl_wrong", OPERATOR[:-1]):
        assert (await browser.fetch("POST", "/api/session", {"key": wrong or " "}))[0] in {400, 401}
    await sign_in(browser, team)
    for server in (team, second):
        browser.server = server.address
        status, about = await browser.fetch("GET", "/api/session")
        assert status == 200
        assert about["person"] | {"id": ""} == {"id": "", "name": "Ann", "role": "member", "groups": ["ops"]}
        assert (about["home"], about["project"]) == ("", "")
        assert (await browser.fetch("GET", "/api/jobs"))[0] == 200
    cookie = browser.attributes[sessions.COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == ("True", "strict", "/")


async def test_a_cookie_counts_only_in_requests_of_the_consoles_own_page(
    team: TeamServer, browser: TeamBrowser
) -> None:
    await sign_in(browser, team)
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"authorization": "Bearer csl_wrong"},
    ):
        assert (await browser.fetch("GET", "/api/jobs", **headers))[0] in {401, 403}, headers
    assert (await browser.fetch("POST", "/api/jobs", {"prompt": "hi"}, **{"x-counsel": ""}))[0] == 401
    assert (await browser.fetch("GET", "/v1/models"))[0] == 401
    assert (await browser.fetch("GET", "/metrics"))[0] == 401
    value = browser.cookies[sessions.COOKIE]
    async with TeamBrowser(team.address) as second_browser:
        assert (await second_browser.fetch("GET", "/api/jobs", authorization=f"Bearer {value}"))[0] == 401
        second_browser.cookies[sessions.COOKIE] = team.tokens["Ann"]
        assert (await second_browser.fetch("GET", "/api/jobs"))[0] == 401, "a token is no cookie"


async def test_over_tls_only_cookies_that_no_sibling_domain_can_set_count(
    tmp_path: Path, fake_api: FakeAPI, database: str
) -> None:
    """A page of evil.example.com may set cookies for example.com: they would sign Ann in as someone else."""
    name = "counsel.example.com"
    public = {"COUNSEL_PUBLIC_URL": f"https://{name}"}
    async with (
        serving(tmp_path, fake_api, database, **public) as team,
        TeamBrowser(team.address) as browser,
    ):
        await team.person("Ann")
        headers = {"host": name, "origin": f"https://{name}"}
        key = {"key": team.tokens["Ann"]}
        assert (await browser.fetch("POST", "/api/session", key, **headers))[0] == 204
        secure = f"__Host-{sessions.COOKIE}"
        assert list(browser.cookies) == [secure]
        assert browser.attributes[secure]["secure"] == "True"
        assert (await browser.fetch("GET", "/api/jobs", host=name))[0] == 200
        browser.cookies = {sessions.COOKIE: browser.cookies[secure]}
        assert (await browser.fetch("GET", "/api/jobs", host=name))[0] == 401
        assert (await browser.fetch("GET", "/api/jobs"))[0] == 200, (
            "at the server's own address there is no TLS"
        )


async def test_signing_out_ends_the_session_and_its_streams_at_every_server(
    team: TeamServer, second: TeamServer, browser: TeamBrowser
) -> None:
    await sign_in(browser, team)
    browser.server = second.address
    async with browser.stream("/api/events?jobs=1") as stream:
        assert stream.status == 200
        await stream.content.readany()
        browser.server = team.address
        value = dict(browser.cookies)
        assert (await browser.fetch("DELETE", "/api/session"))[0] == 204
        assert browser.cookies == {}
        async with asyncio.timeout(30):
            while await stream.content.readany():
                pass
    browser.cookies = value
    for server in (team, second):
        browser.server = server.address
        assert (await browser.fetch("GET", "/api/jobs"))[0] == 401


async def test_disabling_a_person_and_ending_their_token_end_their_sessions(
    team: TeamServer, second: TeamServer, browser: TeamBrowser
) -> None:
    await sign_in(browser, team)
    await second.people.rotate("Ann")
    assert (await browser.fetch("GET", "/api/jobs"))[0] == 401
    await sign_in(browser, team, "Bob")
    await second.people.disable("Bob")
    assert (await browser.fetch("GET", "/api/jobs"))[0] == 401
    await second.people.enable("Bob")
    assert (await browser.fetch("GET", "/api/jobs"))[0] == 200, "it was never ended, only locked out"


async def test_a_session_ends_when_it_is_not_used_and_after_seven_days(
    team: TeamServer, browser: TeamBrowser
) -> None:
    await sign_in(browser, team)
    value = browser.cookies[sessions.COOKIE]
    now = [1_800_000_000.0]
    store = sessions.TeamSessions(team.engine.store.sessions, OPERATOR, lambda: now[0])
    person = (await team.people.find("Ann")).person
    value = await store.start(person, "oidc")
    for _ in range(13):
        now[0] += IDLE_SECONDS - 1
        assert await store.find(value) is not None
        await team.engine.store.flush()
    now[0] += IDLE_SECONDS
    assert await store.find(value) is None, "after seven days"
    value = await store.start(person, "oidc")
    now[0] += IDLE_SECONDS + 1
    assert await store.find(value) is None, "twelve hours without use"


async def test_the_operators_sessions_end_with_the_operators_token(
    team: TeamServer, browser: TeamBrowser
) -> None:
    assert (await browser.fetch("POST", "/api/session", {"key": OPERATOR}))[0] == 204
    status, about = await browser.fetch("GET", "/api/session")
    assert (status, about["person"]["role"]) == (200, "admin")
    value = browser.cookies[sessions.COOKIE]
    for token, works in ((OPERATOR, True), ("another token of the operator", False), ("", False)):
        store = sessions.TeamSessions(team.engine.store.sessions, token)
        assert bool(await store.find(value)) is works


async def test_no_secret_of_a_session_is_stored(
    team: TeamServer, browser: TeamBrowser, database: str
) -> None:
    import psycopg

    await sign_in(browser, team)
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT s::text FROM counsel.console_sessions s").fetchall()
    assert rows
    assert browser.cookies[sessions.COOKIE] not in str(rows)
