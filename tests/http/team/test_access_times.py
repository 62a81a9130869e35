"""How long a token is remembered, and how often its use is written down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.store.people import SignedIn
from counsel.engine.team.people import names
from counsel.http.team import access
from counsel.http.team.access import TeamAccess
from counsel.people import Person

TOKEN = "csl_" + "x" * 40


class Times:
    """A clock, and a team's store that counts what it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        self.looked_up = 0
        self.marked: list[str] = []
        self.notes: list[tuple[str, str]] = []
        self.found: SignedIn | None = SignedIn(Person("p_1", "Ann"), "t_1")
        monkeypatch.setattr(
            access, "time", SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now + 5)
        )
        store: Any = SimpleNamespace(people=self)

        async def opened() -> Any:
            return store

        self.access = TeamAccess(opened, "the-operators-token")
        log: Any = SimpleNamespace(note=lambda _sender, action, _name, how: self.notes.append((action, how)))
        self.access._audit = log
        monkeypatch.setattr(self.access, "_watch", lambda: None)

    async def signed_in(self, _sha: str) -> SignedIn | None:
        self.looked_up += 1
        return self.found

    def mark_used(self, token: str, at: float) -> None:
        assert at == self.now + 5
        self.marked.append(token)

    async def after(self, seconds: float, address: str = "10.0.0.1") -> SignedIn | None:
        self.now += seconds
        return await self.access.signed_in(TOKEN, address)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


async def test_a_token_is_looked_up_once_a_second(times: Times) -> None:
    counts = []
    for seconds in (0, 0.5, 0.25, 0.25, 0.5):
        assert await times.after(seconds) == times.found
        counts.append(times.looked_up)
    assert counts == [1, 1, 1, 2, 2]


async def test_a_token_that_expires_is_not_remembered_after_that(times: Times) -> None:
    times.found = SignedIn(Person("p_1", "Ann"), "t_1", expires=times.now + 5.5)
    assert await times.after(0)
    assert await times.after(0.5)
    assert times.looked_up == 1
    times.found = None
    assert await times.after(0.25) is None
    assert await times.after(0.25) is None
    assert times.looked_up == 2, "that there is none is remembered, too"


async def test_a_tokens_use_is_marked_once_a_minute(times: Times) -> None:
    counts = []
    for seconds in (0, 59, 1, 59, 30):
        await times.after(seconds)
        counts.append(len(times.marked))
    assert counts == [1, 1, 2, 2, 3]
    assert set(times.marked) == {"t_1"}


async def test_a_tokens_use_is_in_the_audit_log_once_an_hour_for_each_address(times: Times) -> None:
    counts = []
    for seconds, address in ((0, "a"), (0, "b"), (3599, "a"), (1, "a"), (0, "b"), (3599, "a")):
        await times.after(seconds, address)
        counts.append(len(times.notes))
    assert counts == [1, 2, 2, 3, 4, 4]
    assert set(times.notes) == {("signed in", "token")}


async def test_every_refusal_is_in_the_audit_log(times: Times) -> None:
    times.found = None
    for _ in range(3):
        assert await times.after(0) is None
    assert times.notes == [("refused", "token")] * 3
    assert await times.access.signed_in("", "a") is None
    assert len(times.notes) == 3, "nobody tried"


@pytest.mark.parametrize(
    ("token", "looked_up"),
    [
        ("csl_" + "x" * (names.LONGEST_TOKEN - 4), 1),
        ("csl_" + "x" * (names.LONGEST_TOKEN - 3), 0),
        ("sk-" + "x" * 40, 0),
        ("the-operators-token", 0),
        ("the-operators-token2", 0),
    ],
)
async def test_only_what_may_be_a_token_is_looked_up(times: Times, token: str, looked_up: int) -> None:
    signed_in = await times.access.signed_in(token, "a")
    assert times.looked_up == looked_up
    assert (signed_in is not None) == bool(looked_up or token == "the-operators-token")


async def test_the_oldest_are_forgotten_when_too_many_are_remembered(
    times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_REMEMBERED", 2)
    for token in ("csl_a", "csl_b", "csl_a", "csl_b"):
        await times.access.signed_in(token, token)
    assert times.looked_up == 2
    await times.access.signed_in("csl_c", "csl_c")
    await times.access.signed_in("csl_a", "csl_a")
    assert times.looked_up == 4


async def test_an_unreachable_database_is_logged_every_ten_seconds(
    times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    from counsel.errors import Internal

    counts = []
    for seconds in (0.0, 9.5, 0.5, 9.5):
        times.now += seconds
        shown = times.access.unreachable(Internal("host=db.internal user=counsel"))
        assert "db.internal" not in f"{shown} {shown.hint}"
        counts.append(caplog.text.count("host=db.internal user=counsel"))
    assert counts == [1, 1, 2, 2]
