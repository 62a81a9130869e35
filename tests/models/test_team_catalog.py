"""The catalog of someone who has joined a team: what the server offers, and when the list is requested again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel import settings, team_login
from counsel.errors import ProviderUnavailable, UpstreamError
from counsel.models import team
from counsel.models.catalog import Catalog
from counsel.settings import Settings
from counsel.types import Endpoint, Limits

URL = "https://team.example"
OFFERED = [
    {"id": "gpt-5", "provider": "openai", "wire_id": "gpt-5"},
    {"id": "renamed-here", "provider": "anthropic", "wire_id": "claude-opus-4-1-20250805"},
    {
        "id": "inhouse-1", "provider": "inhouse", "wire_id": "i1", "label": "Inhouse", "context": 5000, "output": 700,
        "vision": True, "tools": True, "web_search": True, "verbosity": True, "media_resolution": True,
        "temperature": [0, 2], "efforts": ["low", 3, "high"], "auto_rank": 4,
    },
    {"id": "inhouse-2", "provider": "inhouse", "wire_id": "i2", "context": 0, "output": "x", "vision": "yes"},
    {"id": "stray", "provider": "nobody", "wire_id": "s"},
]  # fmt: skip
ABOUT = {
    "counsel": "1.2",
    "models": OFFERED,
    "providers": [
        {"name": "openai", "open": True},
        {"name": "anthropic"},
        {"name": "inhouse", "label": "In house", "open": True},
    ],
    "person": {"id": "ada", "name": "Ada"},
}


def joined_settings(home: Path, about: Any = ABOUT, *, has_asked: bool = True, **env: str) -> Settings:
    team_login.write(home, URL, "csl_" + "x" * 40, about)
    if not has_asked:
        (home / team_login.MODELS_FILE).unlink()
    return settings.load({"COUNSEL_HOME": str(home), **env})


def test_questions_go_to_the_server_with_its_own_names(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path))
    target = catalog.resolve("gpt-5")
    assert target.endpoint.base_url == URL
    assert target.endpoint.team
    assert target.endpoint.model_name == "openai/gpt-5"
    assert target.endpoint.key == "csl_" + "x" * 40
    assert target.endpoint.provider.label == "The team server team.example"
    route = catalog.resolve("opus-4.1")
    assert route.endpoint.model_name == "anthropic/claude-opus-4-1-20250805", (
        "the server has another name for it"
    )
    assert catalog.team == "team.example"


def test_models_that_the_server_does_not_offer_are_not_asked(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path, XAI_API_KEY="xai-own"))
    with pytest.raises(ProviderUnavailable, match="not available") as excinfo:
        catalog.resolve("gpt-5-mini")
    assert "does not offer this model" in str(excinfo.value.hint)
    with pytest.raises(ProviderUnavailable) as excinfo:
        catalog.resolve("grok-4")
    assert "does not offer X" in str(excinfo.value.hint)
    rows = {row.provider.name: row for row in catalog.providers()}
    assert (rows["openai"].available, rows["openai"].team) == (True, URL)
    assert not rows["xai"].available, "its own key is not used beside the team's"
    assert "does not offer" in rows["xai"].reason
    assert rows["local"].team == "", "needs no key: it stays as it is"


def test_lists_give_the_reason_why_a_model_is_not_available(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path))
    reasons = {row.model.id: row.reason for row in catalog.models()}
    assert reasons["gpt-5"] == ""
    assert reasons["gpt-5-mini"] == "The team server team.example does not offer this model."


def test_ids_that_no_catalog_lists_are_for_providers_that_are_open(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path))
    assert catalog.resolve("openai/brand-new").endpoint.model_name == "openai/brand-new"
    with pytest.raises(ProviderUnavailable):
        catalog.resolve("anthropic/brand-new")


def test_without_a_list_the_server_decides(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path, has_asked=False))
    assert catalog.resolve("gpt-5-mini").endpoint.model_name == "openai/gpt-5-mini"
    assert catalog.resolve("grok-4").endpoint.base_url == URL


def test_a_login_that_cannot_be_read_sends_nothing(tmp_path: Path) -> None:
    joined_settings(tmp_path)
    (tmp_path / team_login.FILE).write_text("{")
    catalog = Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path), "OPENAI_API_KEY": "sk-own"}))
    with pytest.raises(ProviderUnavailable) as excinfo:
        catalog.resolve("gpt-5")
    assert "counsel logout" in str(excinfo.value.hint)


def test_the_servers_own_models_are_known_with_their_facts(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path))
    model = catalog.lookup("inhouse-1")
    assert (model.provider, model.wire_id, model.label) == ("inhouse", "i1", "Inhouse")
    assert (model.context, model.output, model.auto_rank) == (5000, 700, 4)
    assert model.vision
    assert model.tools
    assert model.web_search
    assert model.verbosity
    assert model.media_resolution
    assert model.temperature == (0.0, 2.0)
    assert model.efforts == {"low": "low", "high": "high"}
    assert catalog.resolve("inhouse-1").endpoint.model_name == "inhouse/inhouse-1"
    rows = {row.provider.name: row for row in catalog.providers()}
    assert rows["inhouse"].provider.label == "In house"
    assert rows["inhouse"].provider.open_models


def test_implausible_facts_are_replaced(tmp_path: Path) -> None:
    model = Catalog.load(joined_settings(tmp_path)).lookup("inhouse-2")
    assert (model.context, model.output, model.auto_rank) == (128_000, 8_192, None)
    assert (model.vision, model.tools, model.web_search) == (False, False, False)
    assert (model.verbosity, model.media_resolution) == (False, False)
    assert model.temperature is None
    assert model.efforts == {}


def test_a_row_neither_replaces_a_known_model_nor_comes_without_a_provider(tmp_path: Path) -> None:
    alone = Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path / "alone")}))
    catalog = Catalog.load(joined_settings(tmp_path))
    names = {row.model.id for row in catalog.models()} - {row.model.id for row in alone.models()}
    assert names == {"inhouse-1", "inhouse-2"}
    assert catalog.lookup("gpt-5") == alone.lookup("gpt-5")


def test_ones_own_key_answers_while_the_server_cannot_be_reached(tmp_path: Path) -> None:
    catalog = Catalog.load(joined_settings(tmp_path, OPENAI_API_KEY="sk-own"))
    own = catalog.own_target(catalog.lookup("gpt-5"))
    assert own is not None
    assert own.endpoint.key == "sk-own"
    assert not own.endpoint.team
    assert catalog.own_target(catalog.lookup("opus-4.1")) is None, "there is no key"
    assert catalog.own_target(catalog.lookup("inhouse-1")) is None, "only the server has it"


# ── asking the server again ──────────────────────────────────────────────────────────────────────────


class Server:
    """Answers in place of the transport, and records the requests."""

    def __init__(self, answer: Any = ABOUT) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, str | None]] = []

    async def get_json(self, endpoint: Endpoint, path: str, limits: Limits, body: bytes | None = None) -> Any:
        del limits
        self.asked.append((endpoint.base_url, path, body.decode() if body is not None else None))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def outdated(user_settings: Settings, age: float = team.FRESH_SECONDS + 1) -> Settings:
    assert user_settings.team
    return replace(user_settings, team=replace(user_settings.team, asked_at=time.time() - age))


async def refresh(server: Any, *calls: tuple[Settings, bool]) -> None:
    refresher = team.Refresh(server)
    for user_settings, now in calls:
        refresher.soon(user_settings, now=now)
        await refresher.idle()
    await refresher.close()


async def test_an_old_list_is_asked_for_once_and_kept(tmp_path: Path) -> None:
    user_settings = outdated(joined_settings(tmp_path, {**ABOUT, "models": []}))
    server = Server()
    await refresh(server, (user_settings, False), (user_settings, False), (user_settings, True))
    assert server.asked == [(URL, "/v1/counsel", None)], (
        "even `now` waits a few seconds after the last request"
    )
    login = team_login.read(tmp_path)
    assert login is not None
    assert len(login.models) == len(OFFERED)


async def test_a_fresh_list_is_asked_for_only_when_it_was_wrong(tmp_path: Path) -> None:
    user_settings = joined_settings(tmp_path)
    server = Server()
    await refresh(server, (user_settings, False))
    assert server.asked == []
    await refresh(server, (user_settings, True))
    assert len(server.asked) == 1


async def test_a_list_from_the_future_is_asked_for(tmp_path: Path) -> None:
    server = Server()
    await refresh(server, (outdated(joined_settings(tmp_path), -3600), False))
    assert len(server.asked) == 1


async def test_no_server_is_asked_without_a_team_or_with_a_broken_login(tmp_path: Path) -> None:
    server = Server()
    alone = settings.load({"COUNSEL_HOME": str(tmp_path / "alone")})
    joined_settings(tmp_path)
    (tmp_path / team_login.FILE).write_text("{")
    broken = settings.load({"COUNSEL_HOME": str(tmp_path)})
    await refresh(server, (alone, True), (broken, True))
    assert server.asked == []


async def test_a_server_that_fails_leaves_the_list_as_it_is(tmp_path: Path) -> None:
    user_settings = outdated(joined_settings(tmp_path))
    for answer in (
        ProviderUnavailable("gone"),
        OSError("full"),
        {"counsel": 3, "models": []},
        {"counsel": "1"},
    ):
        await refresh(Server(answer), (user_settings, False))
    login = team_login.read(tmp_path)
    assert login is not None
    assert len(login.models) == len(OFFERED)


async def test_a_list_is_dropped_if_the_person_has_logged_in_elsewhere_meanwhile(tmp_path: Path) -> None:
    before = outdated(joined_settings(tmp_path))
    team_login.write(tmp_path, "https://other.example", "csl_" + "y" * 40, {**ABOUT, "models": []})
    await refresh(Server(), (before, False))
    login = team_login.read(tmp_path)
    assert login is not None
    assert (login.url, login.models) == ("https://other.example", ())
    team_login.remove(tmp_path)
    await refresh(Server(), (before, False))
    assert team_login.read(tmp_path) is None


async def test_closing_cancels_a_request_in_progress(tmp_path: Path) -> None:
    request_began, request_ended = asyncio.Event(), asyncio.Event()

    class Hanging:
        async def get_json(self, *_: object) -> None:
            request_began.set()
            try:
                await asyncio.Event().wait()
            finally:
                request_ended.set()

    refresher = team.Refresh(Hanging())  # type: ignore[arg-type]
    refresher.soon(outdated(joined_settings(tmp_path)))
    await request_began.wait()
    await asyncio.wait_for(refresher.close(), 30)
    assert request_ended.is_set()


def test_a_thread_without_a_loop_leaves_it_to_a_later_call(tmp_path: Path) -> None:
    server: Any = Server()
    refresher = team.Refresh(server)
    refresher.soon(outdated(joined_settings(tmp_path)))
    assert server.asked == []


async def test_another_program_at_the_address_is_not_a_counsel_server(tmp_path: Path) -> None:
    login = joined_settings(tmp_path).team
    assert login is not None
    answers: tuple[object, ...] = ({"counsel": "1"}, {"models": []}, {"counsel": "1", "models": {}})
    for answer in answers:
        with pytest.raises(UpstreamError, match="not a counsel server"):
            await team.ask(Server(answer), login, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(("on", "verb"), [(True, "share"), (False, "unshare")])
async def test_sharing_a_conversation(tmp_path: Path, on: bool, verb: str) -> None:
    login, server = joined_settings(tmp_path).team, Server({"id": "a/b"})
    assert login is not None
    assert await team.share(server, login, {}, "a/b", on=on) == {"id": "a/b"}  # type: ignore[arg-type]
    assert server.asked == [(URL, f"/api/conversations/a%2Fb/{verb}", "{}")]
