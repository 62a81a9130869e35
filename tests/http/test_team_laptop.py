"""A laptop that has joined a team: its API questions go through the team's server, and nothing else changes."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from counsel import settings, team_login
from counsel.caller import Caller
from counsel.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    Cancelled,
    ContentFiltered,
    CounselError,
    InvalidArgument,
    ProviderUnavailable,
    RateLimited,
    UpstreamError,
)
from counsel.models.catalog import Catalog
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI
from support.api_client import TOKEN, Api
from support.team import Laptop, address, join, laptop, server

pytestmark = pytest.mark.thorough  # left out of `make check`: starts processes and waits for time limits

OWN_KEY = "sk-own-laptop-key-000000000000"
ASK = ChatRequest(prompt="hello", model="gpt-5")


@dataclass
class Team:
    api: Api
    url: str
    laptop: Laptop
    fake: FakeAPI


@pytest.fixture
async def team(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Team]:
    async with joined_laptop(tmp_path, fake_api) as new_team:
        yield new_team


@asynccontextmanager
async def joined_laptop(folder: Path, fake: FakeAPI, **server_env: str) -> AsyncIterator[Team]:
    own = {"OPENAI_API_KEY": OWN_KEY, "OPENAI_BASE_URL": fake.v1}
    async with (
        server(folder / "server", fake, **server_env) as api,
        laptop(folder / "laptop", **own) as machine,
    ):
        await join(machine.home, address(api))
        yield Team(api, address(api), machine, fake)


def keys_used(fake: FakeAPI) -> set[str]:
    return {
        call.headers.get("authorization", call.headers.get("x-api-key", "")).removeprefix("Bearer ")
        for call in fake.calls
    }


async def test_the_server_asks_with_its_own_keys_and_the_answer_has_its_cost(team: Team) -> None:
    answer = await team.laptop.ask(ASK)
    assert answer.content == "gpt-5 says: hello"
    assert keys_used(team.fake) == {"sk-test-openai-0000000000000000"}
    assert answer.metadata.cost_usd


async def test_a_consensus_and_auto_work_as_before(team: Team) -> None:
    both = ConsensusRequest(prompt="hello", models=("gpt-5", "claude-sonnet-4-5"))
    result = await team.laptop.ask(both)
    assert set(result.answers) == {"gpt-5", "claude-sonnet-4-5"}
    assert (await team.laptop.ask(ChatRequest(prompt="hello"))).content.endswith("hello")
    assert OWN_KEY not in keys_used(team.fake)


async def test_only_what_the_server_offers_can_be_asked(team: Team) -> None:
    catalog = Catalog.load(team.laptop.caller().settings)
    providers = {row.model.provider for row in catalog.models() if row.available}
    assert providers == {"openai", "anthropic", "google", "deepseek"}
    with pytest.raises(ProviderUnavailable, match="not available") as error:
        await team.laptop.ask(ChatRequest(prompt="hello", model="grok-4"))
    assert "does not offer" in (error.value.hint or "")
    assert not team.fake.calls


async def test_a_model_that_only_the_server_knows_can_be_asked(tmp_path: Path, fake_api: FakeAPI) -> None:
    home = tmp_path / "server" / "counsel"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f'[providers.inhouse]\nlabel = "In-house"\nwire = "openai_chat"\nbase_url = "{fake_api.v1}"\napi_key = "k-12345678"\n'
        '[models.owl]\nprovider = "inhouse"\nwire_id = "owl-1"\ncontext = 5000\n'
        "input_price = 1000\noutput_price = 0.0\n"
    )
    async with joined_laptop(tmp_path, fake_api) as team:
        answer = await team.laptop.ask(ChatRequest(prompt="hello", model="owl"))
        assert answer.content == "owl-1 says: hello"
        expected = answer.metadata.usage.input * 1000 / 1_000_000
        assert answer.metadata.cost_usd == pytest.approx(expected), "as the server computes it"
        assert (
            await team.laptop.ask(ChatRequest(prompt="hello", model="inhouse/new"))
        ).content == "new says: hello"


async def test_without_a_list_of_models_the_server_decides_and_the_list_is_asked_for(team: Team) -> None:
    file = team.laptop.home / "team-models.json"
    file.unlink()
    assert (await team.laptop.ask(ASK)).content == "gpt-5 says: hello"
    await asyncio.wait_for(team.laptop.engine.router.wait_for_refresh(), 30)
    assert file.exists()
    file.unlink()
    error = await failure(team, ChatRequest(prompt="hello", model="grok-4"))
    assert error.code == "PROVIDER_UNAVAILABLE"


async def test_a_local_model_stays_local(team: Team, fake_api: FakeAPI) -> None:
    team.laptop.env |= {"COUNSEL_LOCAL_BASE_URL": f"{fake_api.url}/mine/v1"}
    await team.laptop.ask(ChatRequest(prompt="hello", model="local"))
    (call,) = fake_api.calls
    assert call.path.startswith("/mine/")
    assert TOKEN not in str(call.headers)


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────


async def failure(team: Team, request: Any = ASK) -> CounselError:
    with pytest.raises(CounselError) as error:
        await team.laptop.ask(request)
    return error.value


async def test_the_servers_budget_arrives_with_its_numbers(tmp_path: Path, fake_api: FakeAPI) -> None:
    async with joined_laptop(tmp_path, fake_api, COUNSEL_BUDGET_DAY="0") as team:
        error = await failure(team)
    assert isinstance(error, BudgetExceeded)
    assert (error.limit_usd, error.spent_usd) == (0, 0)
    assert error.until
    assert not fake_api.calls


async def test_a_vendors_failures_keep_their_codes_and_are_not_repeated(team: Team) -> None:
    team.fake.script(error="rate_limit", retry_after=4000, times=None)
    rate_limit = await failure(team)
    assert isinstance(rate_limit, RateLimited)
    assert rate_limit.retry_after == 4000
    calls = len(team.fake.calls)
    assert calls == 1, "the server does not wait so long, and the laptop does not ask again"
    team.fake.reset()
    team.fake.script(finish="filtered", text="No")
    error = await failure(team)
    assert isinstance(error, ContentFiltered)
    team.fake.reset()
    team.fake.script(text="one two three", cut_after=2, times=None)
    broken = await failure(team)
    assert broken.code == "UPSTREAM_ERROR"
    assert broken.partial
    assert broken.usage
    assert len(team.fake.calls) == 1


async def test_a_token_that_was_revoked(team: Team) -> None:
    token_file = team.laptop.home / "team.json"
    token_file.write_text(token_file.read_text().replace(TOKEN, "csl_" + "x" * 40))
    error = await failure(team)
    assert isinstance(error, AuthenticationFailed)
    assert "counsel login" in (error.hint or "")
    assert "csl_" not in str(error.as_dict())
    automatic = await failure(team, ChatRequest(prompt="hello"))
    assert isinstance(automatic, AuthenticationFailed), "and no other model is tried at the same server"


async def test_the_key_that_a_vendor_refuses_is_the_servers(team: Team) -> None:
    team.fake.script(error="auth", times=None)
    error = await failure(team)
    assert isinstance(error, AuthenticationFailed)
    assert "team server" in (error.hint or "")


async def test_a_server_that_is_gone_is_named_within_seconds(tmp_path: Path, fake_api: FakeAPI) -> None:
    own = {"OPENAI_API_KEY": OWN_KEY, "OPENAI_BASE_URL": fake_api.v1}
    async with laptop(tmp_path / "laptop", **own) as machine:
        async with server(tmp_path / "server", fake_api) as api:
            await join(machine.home, address(api))
        team = Team(api, "", machine, fake_api)
        for request in (ASK, ChatRequest(prompt="hello")):
            error = await failure(team, request)
            assert isinstance(error, ProviderUnavailable)
            assert "team server" in error.message
            assert "team_offline" in (error.hint or "")
        assert not fake_api.calls
        machine.env["COUNSEL_TEAM_OFFLINE"] = "local"
        answer = await machine.ask(ASK)
        assert answer.content == "gpt-5 says: hello"
        assert keys_used(fake_api) == {OWN_KEY}
        (notice,) = [notice for notice in answer.metadata.notices if notice.kind == "warning"]
        assert "own key" in notice.text
        no_key = await failure(team, ChatRequest(prompt="hello", model="claude-sonnet-4-5"))
        assert "team server" in no_key.message, "there is no key of that provider here"
        assert "counsel keys set anthropic" in (no_key.hint or "")
        assert "team_offline" not in (no_key.hint or ""), "that is set already"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path, status: int) -> None:
    tokens: list[str] = []

    async def record_token(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("authorization", ""))
        return web.json_response({"counsel": "1", "models": []})

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"location": "/stolen"})

    async with served_by({"/v1/counsel": redirect, "/stolen": record_token}) as url:
        with pytest.raises(UpstreamError, match="redirect"):
            await join(tmp_path, url)
    assert not tokens


async def test_another_server_is_no_counsel(tmp_path: Path) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.json_response({"hello": "world"})

    async with served_by({"/v1/counsel": page}) as url:
        with pytest.raises(UpstreamError, match="not a counsel server"):
            await join(tmp_path, url)
        with pytest.raises(UpstreamError, match="no counsel server"):
            await join(tmp_path, f"{url}/elsewhere")


@asynccontextmanager
async def served_by(routes: dict[str, Any]) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.route("*", path, handler) for path, handler in routes.items()])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# ── a call is made once ──────────────────────────────────────────────────────────────────────────────


async def test_a_laptop_that_stops_in_the_middle_gets_the_same_answer_later(
    team: Team, tmp_path: Path
) -> None:
    team.fake.script(text="a paid answer", gate="slow", gate_after=1)
    job = await team.laptop.engine.submit(ASK, team.laptop.caller(), background=True)
    await team.fake.wait_for(state="answering", deltas=1)
    await team.laptop.engine.close()
    team.fake.open_gate("slow")
    async with laptop(tmp_path / "laptop", **team.laptop.env) as again:
        again.engine.register_caller(again.caller())
        answer = await again.engine.wait(job)
    assert answer.content == "a paid answer"
    assert len(team.fake.calls) == 1


async def test_a_cancelled_call_also_ends_at_the_server(team: Team) -> None:
    team.fake.script(text="one two three", hang_after=1)
    job = await team.laptop.engine.submit(ASK, team.laptop.caller(), background=True)
    await team.fake.wait_for(state="answering", deltas=1)
    await team.laptop.engine.cancel(job)
    with pytest.raises(Cancelled):
        await team.laptop.engine.wait(job)
    await team.fake.wait_for(state="disconnected")


async def test_the_server_says_that_it_does_not_know_a_call_that_is_to_end(team: Team) -> None:
    assert await team.api.post("/v1/counsel/cancel", {"key": "unknown"}) == (200, {"cancelled": False})


async def test_a_broken_connection_to_the_server_costs_nothing(team: Team, tmp_path: Path) -> None:
    """The proxy in between breaks the first stream after its first bytes."""
    broken = asyncio.Event()

    async def relay(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: request.headers[name] for name in request.headers if name.lower() != "host"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, f"{team.url}{request.path}", data=body or None, headers=headers
            ) as answer,
        ):
            response = web.StreamResponse(status=answer.status, headers={"content-type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
                if request.method == "POST" and not broken.is_set():
                    broken.set()
                    assert request.transport
                    request.transport.abort()
                    team.fake.open_gate("slow")
                    return response
            return response

    async with served_by({"/v1/{rest:.*}": relay}) as url:
        await join(team.laptop.home, url)
        team.fake.script(text="one two three four", deltas=4, gate="slow", gate_after=2)
        answer = await team.laptop.ask(ASK)
    assert broken.is_set()
    assert answer.content == "one two three four"
    assert len(team.fake.calls) == 1


# ── the login ────────────────────────────────────────────────────────────────────────────────────────


async def test_the_login_is_private_and_a_damaged_one_uses_no_other_key(team: Team) -> None:
    file = team.laptop.home / "team.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TOKEN not in repr(team.laptop.caller().settings)
    file.write_text("{")
    error = await failure(team)
    assert isinstance(error, ProviderUnavailable)
    assert "counsel login" in (error.hint or "")
    assert not team.fake.calls
    file.write_text('{"url": "http://evil.example", "token": "csl_x"}')
    assert "cannot be used" in str((await failure(team)).hint)


async def test_a_running_job_ends_with_the_login_with_which_it_began(team: Team) -> None:
    team.fake.script(text="one two", gate="slow", gate_after=1)
    job = await team.laptop.engine.submit(ASK, team.laptop.caller(), background=True)
    await team.fake.wait_for(state="answering", deltas=1)
    assert team_login.remove(team.laptop.home)
    team.fake.open_gate("slow")
    assert (await team.laptop.engine.wait(job)).content == "one two"
    assert (await team.laptop.ask(ASK)).content == "gpt-5 says: hello"
    assert keys_used(team.fake) == {"sk-test-openai-0000000000000000", OWN_KEY}


def test_a_job_continues_only_with_the_same_login(tmp_path: Path) -> None:
    def fingerprint(home: Path) -> str:
        return Caller(settings=settings.load({"COUNSEL_HOME": str(home)})).fingerprint(b"secret")

    def about(person: str) -> dict[str, Any]:
        return {"counsel": "1", "models": [], "person": {"id": person, "name": "Ada", "role": "member"}}

    alone = fingerprint(tmp_path)
    team_login.write(tmp_path, "https://team.example", "csl_one", about("p1"))
    first = fingerprint(tmp_path)
    team_login.write(tmp_path, "https://team.example", "csl_rotated", about("p1"))
    assert fingerprint(tmp_path) == first != alone, "a rotated token is the same login"
    team_login.write(tmp_path, "https://team.example", "csl_other", about("p2"))
    assert fingerprint(tmp_path) not in {first, alone}
    team_login.write(tmp_path, "https://other.example", "csl_one", about("p1"))
    assert fingerprint(tmp_path) not in {first, alone}


def test_a_hostile_folder_names_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for name in (".env", "config.toml", "team.json", ".counsel/team.json"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(
            'COUNSEL_TEAM_URL=https://evil.example\n{"url": "https://evil.example", "token": "csl_evil"}'
        )
    variables = {
        "HOME": str(tmp_path),
        "COUNSEL_TEAM_URL": "https://evil.example",
        "COUNSEL_TEAM_TOKEN": "csl_evil",
        "CLIENT_CWD": str(project),
    }
    assert settings.load(variables).team is None


@pytest.mark.parametrize(
    "url",
    ["http://team.example", "ftp://team.example", "https://user:pw@team.example", "https://", "https://x/?a=1", "https://[",
     "http://localhost.evil.example"],
)  # fmt: skip
def test_an_address_must_be_https_and_plain(url: str) -> None:
    with pytest.raises(InvalidArgument):
        team_login.checked_url(url)


def test_forms_of_an_address() -> None:
    assert team_login.checked_url("team.example") == "https://team.example"
    assert team_login.checked_url("https://Team.example/counsel/v1/") == "https://team.example/counsel"
    for url in ("http://127.0.0.1:3157", "http://localhost:1", "http://[::1]:1"):
        assert team_login.checked_url(url) == url


# ── the server's side ────────────────────────────────────────────────────────────────────────────────


async def test_a_laptops_own_server_relays_for_nobody(team: Team, tmp_path: Path, fake_api: FakeAPI) -> None:
    home = tmp_path / "second" / "counsel"
    home.mkdir(parents=True)
    await join(home, team.url)
    async with server(tmp_path / "second", fake_api) as second:
        with pytest.raises(CounselError, match="has joined"):
            await join(tmp_path / "third", address(second))
        status, _ = await second.post("/v1/counsel", {"version": 1, "request": {}})
        assert status == 409


async def test_bad_requests_are_refused_before_anything_is_sent(team: Team) -> None:
    turn = {"role": "user", "text": "x"}
    for request in (
        {},
        {"model": "gpt-5", "turns": []},
        {"model": "gpt-5", "turns": [{"role": "root", "text": "x"}]},
        {"model": "gpt-5", "turns": [{**turn, "images": [{"media_type": "image/png", "data": "%%"}]}]},
        {"model": "gpt-5", "turns": [{**turn, "images": [{"media_type": "image/png", "data": "AAAA"}]}]},
        {"model": "gpt-5", "turns": [turn], "temperature": "hot"},
        {"model": "gpt-5", "turns": [turn], "max_output": -1_000_000},
        {"model": "gpt-5", "turns": [turn], "output_limit": 0},
    ):
        status, document = await team.api.post("/v1/counsel", {"version": 1, "request": request})
        assert (status, document["code"]) == (400, "INVALID_ARGUMENT"), document
    status, document = await team.api.post("/v1/counsel", {"version": 2, "request": {}})
    assert status == 400
    assert "version" in document["error"]
    async with aiohttp.ClientSession() as stranger, stranger.get(f"{team.url}/v1/counsel") as answer:
        assert answer.status == 401
        assert (await answer.json())["code"] == "AUTHENTICATION_FAILED"
    assert not team.fake.calls
