"""Signing in to a team's console with an issuer, through real servers and a real provider on loopback."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from counsel.http.team import sign_in
from fake import FakeAPI
from support.oidc_provider import CLIENT, SECRET, OidcProvider, query_of
from support.team_browser import TeamBrowser
from support.team_server import TeamServer, serving

PUBLIC = "http://127.0.0.1:9"


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider().running() as running:
        running.redirect_uri = f"{PUBLIC}/login/callback"
        yield running


def oidc_env(provider: OidcProvider, **changes: str) -> dict[str, str]:
    return {
        "COUNSEL_OIDC_ISSUER": provider.url,
        "COUNSEL_OIDC_CLIENT_ID": CLIENT,
        "COUNSEL_OIDC_CLIENT_SECRET": SECRET,
        "COUNSEL_PUBLIC_URL": PUBLIC,
        **changes,
    }


@asynccontextmanager
async def server(
    folder: Path, fake: FakeAPI, database: str, provider: OidcProvider, **env: str
) -> AsyncIterator[TeamServer]:
    folder.mkdir(exist_ok=True)
    async with serving(folder, fake, database, **oidc_env(provider, **env)) as team_server:
        yield team_server


@pytest.fixture
async def team(
    tmp_path: Path, fake_api: FakeAPI, database: str, provider: OidcProvider
) -> AsyncIterator[TeamServer]:
    async with server(tmp_path / "first", fake_api, database, provider) as team_server:
        yield team_server


@pytest.fixture
async def browser(team: TeamServer) -> AsyncIterator[TeamBrowser]:
    async with TeamBrowser(team.address) as browser:
        yield browser


async def person_of(browser: TeamBrowser) -> tuple[str, str, list[str]] | None:
    status, about = await browser.fetch("GET", "/api/session")
    person = about["person"] if status == 200 else None
    return (person["name"], person["role"], person["groups"]) if person else None


async def test_someone_whom_an_admin_has_added_signs_in_and_returns_to_another_server(
    team: TeamServer,
    browser: TeamBrowser,
    provider: OidcProvider,
    tmp_path: Path,
    fake_api: FakeAPI,
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await team.people.add("Ada@example.com", "admin")
    assert (await browser.fetch("GET", "/login/methods"))[1] == {"team": True, "issuer": "127.0.0.1"}
    async with server(tmp_path / "second", fake_api, database, provider) as second:
        assert await browser.sign_in(provider, returns_to=second.address) == (303, "/")
        assert list(browser.cookies) == ["counsel_team_session"], "the cookie of the sign-in is gone"
        assert await person_of(browser) == ("Ada@example.com", "admin", [])
    assert SECRET not in caplog.text
    assert not [line for line in caplog.text.splitlines() if "eyJ" in line]


async def test_an_answer_counts_once_in_the_browser_that_asked(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider
) -> None:
    await team.people.add("ada@example.com")
    _, away = await browser.go("/login/oidc")
    back = provider.authorize(query_of(away)).removeprefix(PUBLIC)
    async with TeamBrowser(team.address) as second_browser:
        assert await second_browser.go(back) == (303, "/login?problem=expired"), "without the cookie"
        await second_browser.go("/login/oidc")
        assert await second_browser.go(back) == (303, "/login?problem=expired"), "with a cookie of its own"
        assert second_browser.cookies == {}
    cookies = dict(browser.cookies)
    assert browser.attributes[sign_in.COOKIE]["samesite"] == "lax"
    assert await browser.go(back) == (303, "/")
    browser.cookies = cookies
    assert await browser.go(back) == (303, "/login?problem=expired"), "replayed"
    browser.cookies = cookies
    assert await browser.go("/login/callback?state=&code=x") == (303, "/login?problem=expired")


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nonce": "another"}, "invalid"),
        ({"aud": "another"}, "invalid"),
        ({"exp": 1}, "invalid"),
        ({"email": "eve@example.com", "sub": "2"}, "denied"),
        ({"email_verified": False}, "denied"),
    ],
)
async def test_a_sign_in_that_is_refused_leaves_no_session(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider, claims: dict[str, object], problem: str
) -> None:
    await team.people.add("ada@example.com")
    provider.claims |= claims
    assert await browser.sign_in(provider) == (303, f"/login?problem={problem}")
    assert browser.cookies == {}
    assert await person_of(browser) is None


async def test_the_issuers_own_refusal_and_its_absence_are_told_apart(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider
) -> None:
    _, away = await browser.go("/login/oidc")
    state = query_of(away)["state"]
    assert await browser.go(f"/login/callback?state={state}&error=access_denied") == (
        303,
        "/login?problem=refused",
    )
    provider.status = 503
    _, away = await browser.go("/login/oidc")
    state = query_of(away)["state"]  # what the issuer said about itself is still known
    assert await browser.go(f"/login/callback?state={state}&code=x") == (303, "/login?problem=provider")


async def test_a_disabled_person_does_not_sign_in(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider
) -> None:
    await team.people.add("ada@example.com")
    assert await browser.sign_in(provider) == (303, "/")
    await team.people.disable("ada@example.com")
    assert await person_of(browser) is None
    assert await browser.sign_in(provider) == (303, "/login?problem=denied")


async def test_new_people_are_added_as_members_with_the_issuers_groups_and_roles(
    tmp_path: Path, fake_api: FakeAPI, database: str, provider: OidcProvider
) -> None:
    env = {
        "COUNSEL_OIDC_CREATE": "member",
        "COUNSEL_OIDC_ALLOWED_DOMAINS": "example.com",
        "COUNSEL_OIDC_GROUPS_CLAIM": "groups",
        "COUNSEL_OIDC_ROLES": "Chiefs=admin,guests=read-only",
    }
    async with server(tmp_path / "first", fake_api, database, provider, **env) as team:
        await team.people.add("boss", "admin")
        async with TeamBrowser(team.address) as browser:
            for email in ("eve@elsewhere.example", "eve@sub.example.com", "example.com"):
                provider.claims |= {"sub": email, "email": email}
                assert await browser.sign_in(provider) == (303, "/login?problem=denied")
            provider.claims |= {"sub": "1", "email": "ada@example.com", "groups": ["web", "Not A Group"]}
            assert await browser.sign_in(provider) == (303, "/")
            assert await person_of(browser) == ("ada@example.com", "member", ["web"])
            provider.claims |= {"groups": ["Chiefs"]}
            await browser.sign_in(provider)
            assert await person_of(browser) == ("ada@example.com", "admin", ["chiefs"])
            provider.claims |= {"groups": ["guests"], "email": "renamed@example.com"}
            await browser.sign_in(provider)
            assert await person_of(browser) == ("ada@example.com", "read-only", ["guests"])
            del provider.claims["groups"]
            await browser.sign_in(provider)
            assert await person_of(browser) == ("ada@example.com", "member", [])
        assert len(await team.people.listed()) == 2
        await team.engine.store.flush()
        rows = await team.engine.store.audit.read(0.0, None, 50)
        changes = [(row.object, row.detail) for row in rows if row.action == "people changed"]
        assert changes == [
            ("ada@example.com", "by the issuer: now member, no groups"),
            ("ada@example.com", "by the issuer: now read-only, groups: guests"),
            ("ada@example.com", "by the issuer: now admin, groups: chiefs"),
            ("ada@example.com", "by the issuer: added as member, groups: web"),
        ]


@pytest.mark.parametrize(
    ("own_address", "other_address"),
    [
        ("ada@strasse.example", "ada@straße.example"),
        ("ada@straße.example", "ada@strasse.example"),
        ("ada@example.com", "\uff41da@example.com"),
    ],
)
async def test_an_address_that_only_looks_like_someones_is_someone_elses(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider, own_address: str, other_address: str
) -> None:
    await team.people.add(own_address)
    provider.claims["email"] = other_address
    assert await browser.sign_in(provider) == (303, "/login?problem=denied")


async def test_sign_ins_are_in_the_audit_log(
    team: TeamServer, browser: TeamBrowser, provider: OidcProvider
) -> None:
    await browser.sign_in(provider)
    await team.people.add("ada@example.com")
    await browser.sign_in(provider)
    await team.engine.store.flush()
    rows = await team.engine.store.audit.read(0.0, None, 10)
    assert [(row.name, row.action, row.address, row.detail) for row in rows] == [
        ("ada@example.com", "signed in", "127.0.0.1", "issuer"),
        ("", "refused", "127.0.0.1", "issuer: denied"),
    ]


async def test_wrong_settings_turn_the_issuer_off_and_not_the_server(
    tmp_path: Path, fake_api: FakeAPI, database: str, provider: OidcProvider, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        server(tmp_path / "first", fake_api, database, provider, COUNSEL_PUBLIC_URL="") as team,
        TeamBrowser(team.address) as browser,
    ):
        assert (await browser.fetch("GET", "/login/methods"))[1] == {"team": True, "issuer": None}
        assert (await browser.go("/login/oidc"))[0] == 404
        await team.person("Ann")
        assert (await browser.fetch("POST", "/api/session", {"key": team.tokens["Ann"]}))[0] == 204
    assert "COUNSEL_PUBLIC_URL" in caplog.text
