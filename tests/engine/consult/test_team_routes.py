"""Routes through a team's server: what is asked while it is unreachable, and when its list of models is read again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import settings, team_login
from counsel.caller import Caller
from counsel.engine.consult.routes import Router, repeats
from counsel.errors import CounselError, ModelNotFound, ProviderUnavailable, UpstreamError
from counsel.models.team import CONNECT
from counsel.types import Call, Endpoint, Event, Limits, Model, Notice, Text, Turn

URL = "https://team.example"
ABOUT: Any = {
    "counsel": "1.2",
    "models": [{"id": "gpt-5", "provider": "openai", "wire_id": "gpt-5"}],
    "providers": [{"name": "openai", "open": True}],
    "person": {"id": "ada", "name": "Ada"},
}
CALL = Call((Turn("user", "hi"),))


class TransportStub:
    """Answers of the team's server, and of the vendor itself."""

    def __init__(self) -> None:
        self.asked: list[tuple[bool, float]] = []
        self.failure: CounselError | None = None
        self.text = ""
        self.closed = False

    async def stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits
    ) -> AsyncGenerator[Event]:
        assert model.id == "gpt-5"
        self.asked.append((endpoint.team, limits.connect))
        if endpoint.team:
            if self.text:
                yield Text(self.text)
            if self.failure:
                raise self.failure
        yield Text("from the team" if endpoint.team else "from the vendor")

    async def close(self) -> None:
        self.closed = True


class RefreshStub:
    def __init__(self) -> None:
        self.reads: list[bool] = []
        self.waits = 0
        self.closed = False

    def soon(self, _settings: object, *, now: bool = False) -> None:
        self.reads.append(now)

    async def idle(self) -> None:
        self.waits += 1

    async def close(self) -> None:
        self.closed = True


class Setup:
    def __init__(self, home: Path, *, joined: bool = True, **env: str) -> None:
        if joined:
            team_login.write(home, URL, "csl_" + "x" * 40, ABOUT)
        self.caller = Caller("test", settings=settings.load({"COUNSEL_HOME": str(home), **env}))
        self.transport = TransportStub()
        transport: Any = self.transport
        self.router = Router(transport)
        self.refresh = RefreshStub()
        refresh: Any = self.refresh
        self.router._refresh = refresh

    async def events(self) -> list[Event]:
        route = self.router.route("gpt-5", self.caller)
        return [event async for event in route.answer(CALL)]


def unreachable(**fields: Any) -> CounselError:
    return ProviderUnavailable("The team's server cannot be reached.", unreachable=True, **fields)


OWN: dict[str, Any] = {"OPENAI_API_KEY": "sk-own-0000000000000000", "COUNSEL_TEAM_OFFLINE": "local"}


async def test_a_question_goes_to_the_teams_server_which_should_answer_soon(tmp_path: Path) -> None:
    setup = Setup(tmp_path, **OWN)
    assert await setup.events() == [Text("from the team")]
    assert setup.transport.asked == [(True, CONNECT)]
    assert set(setup.refresh.reads) == {False}, "its list of models is read now and then"
    patient = Setup(tmp_path, CONNECT_TIMEOUT_MS="1000")
    await patient.events()
    assert patient.transport.asked == [
        (True, min(CONNECT, patient.caller.settings.connect_timeout_ms / 1000))
    ]


async def test_while_it_is_unreachable_this_machines_own_key_is_used_with_a_notice(tmp_path: Path) -> None:
    setup = Setup(tmp_path, **OWN)
    setup.transport.failure = unreachable()
    notice, text = await setup.events()
    assert isinstance(notice, Notice)
    assert notice.text.startswith(
        "Offline: gpt-5 was asked with this machine's own key, not through the team. "
    )
    assert notice.text.endswith("The team's server cannot be reached.")
    assert notice.data == {"team": URL, "offline": True}
    assert text == Text("from the vendor")
    assert [team for team, _ in setup.transport.asked] == [True, False]


@pytest.mark.parametrize(
    ("failure", "env"),
    [
        (unreachable(partial="half"), OWN),  # it had begun to answer
        (UpstreamError("It broke."), OWN),  # it was reached
        (unreachable(), {"OPENAI_API_KEY": "sk-own-0000000000000000"}),  # not without being asked for
    ],
)
async def test_otherwise_the_own_key_is_not_used(
    tmp_path: Path, failure: CounselError, env: dict[str, Any]
) -> None:
    setup = Setup(tmp_path, **env)
    setup.transport.failure = failure
    hint = failure.hint
    with pytest.raises(CounselError) as excinfo:
        await setup.events()
    assert excinfo.value is failure
    assert failure.hint == hint
    assert [team for team, _ in setup.transport.asked] == [True]


async def test_without_a_key_of_its_own_the_machine_says_how_to_work_offline(tmp_path: Path) -> None:
    setup = Setup(tmp_path, COUNSEL_TEAM_OFFLINE="local")
    setup.transport.failure = unreachable()
    with pytest.raises(ProviderUnavailable) as excinfo:
        await setup.events()
    assert (excinfo.value.hint or "").endswith(
        "this machine needs its own key for openai: `counsel keys set openai`."
    )


async def test_a_model_that_the_server_no_longer_has_makes_its_list_be_read_at_once(tmp_path: Path) -> None:
    setup = Setup(tmp_path, **OWN)
    setup.transport.failure = ModelNotFound("There is no gpt-5.")
    with pytest.raises(ModelNotFound):
        await setup.events()
    assert setup.refresh.reads[-1] is True, "and after a refusal at once"
    assert True not in setup.refresh.reads[:-1]


async def test_who_has_joined_no_team_asks_the_vendor_and_reads_no_list(tmp_path: Path) -> None:
    setup = Setup(tmp_path, joined=False, **OWN)
    assert await setup.events() == [Text("from the vendor")]
    assert setup.refresh.reads == []


async def test_an_end_waits_for_nothing_that_is_still_read(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    await setup.router.wait_for_refresh()
    assert setup.refresh.waits == 1
    await setup.router.close()
    assert (setup.refresh.closed, setup.transport.closed) == (True, True)


def test_routes_that_lead_to_the_same_model_must_not_share_an_answer() -> None:
    def route(provider: str, name: str) -> Any:
        return SimpleNamespace(provider=provider, name=name)

    routes = [route("a", "x"), route("a", "y"), None, route("b", "x"), route("a", "x"), None, route("a", "x")]
    assert repeats(routes) == [False, False, False, False, True, False, True]
