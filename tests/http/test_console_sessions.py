"""Sessions and one-time links of the console, as the files that they are."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from counsel.errors import AuthenticationFailed, CounselError, RateLimited
from counsel.http.console import sessions
from counsel.http.console.sessions import ConsoleSessions

TOKEN = "a-token-for-the-console"


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ConsoleSessions:
    return ConsoleSessions(tmp_path, TOKEN, clock)


def test_a_link_expires_after_five_minutes(store: ConsoleSessions, clock: Clock) -> None:
    early, late = store.new_link(), store.new_link()
    clock.now += sessions.LINK_SECONDS
    assert store.sign_in(early)
    clock.now += 1
    with pytest.raises(CounselError, match="works once, and for five minutes"):
        store.sign_in(late)


def test_after_wrong_tokens_the_wait_ends_a_minute_after_the_first(
    store: ConsoleSessions, clock: Clock
) -> None:
    for _ in range(sessions.WRONG_TRIES):
        with pytest.raises(AuthenticationFailed):
            store.sign_in("guess")
        clock.now += 1
    for seconds in (0, 20):
        clock.now += seconds
        with pytest.raises(RateLimited) as error:
            store.sign_in(TOKEN)
        assert error.value.retry_after == sessions.TRIES_SECONDS - sessions.WRONG_TRIES - seconds
    clock.now += sessions.TRIES_SECONDS
    assert store.sign_in(TOKEN)


def test_a_session_ends_after_twelve_idle_hours(store: ConsoleSessions, clock: Clock) -> None:
    value = store.sign_in(TOKEN)
    for _ in range(4):
        clock.now += sessions.IDLE_SECONDS
        assert store.find(value) is not None
    clock.now += sessions.IDLE_SECONDS + 1
    assert store.find(value) is None


def test_a_session_ends_after_seven_days_however_much_it_is_used(
    store: ConsoleSessions, clock: Clock
) -> None:
    value, began = store.sign_in(TOKEN), clock.now
    while clock.now - began + 3600 <= sessions.LONGEST_SECONDS:
        clock.now += 3600
        session = store.find(value)
        assert session is not None
        assert session.expires_at <= began + sessions.LONGEST_SECONDS
    clock.now += 3600
    assert store.find(value) is None


def test_a_session_cannot_be_made_longer_by_its_owner(store: ConsoleSessions, clock: Clock) -> None:
    began, _, secret = store.sign_in(TOKEN).partition(".")
    assert store.find(f"{began}.{secret}")
    assert store.find(f"{int(began, 16) + 9999:x}.{secret}") is None


def test_another_token_ends_every_session_and_link(
    tmp_path: Path, store: ConsoleSessions, clock: Clock
) -> None:
    value, link = store.sign_in(TOKEN), store.new_link()
    other_store = ConsoleSessions(tmp_path, "another token", clock)
    assert other_store.find(value) is None
    with pytest.raises(CounselError, match="not valid"):
        other_store.sign_in(link)
    assert ConsoleSessions(tmp_path, TOKEN, clock).find(value)


def test_what_is_stored_lets_nobody_in_and_is_private(tmp_path: Path, store: ConsoleSessions) -> None:
    value, link = store.sign_in(TOKEN), store.new_link("/a/project")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        for secret in (value, value.partition(".")[2], link, TOKEN):
            assert secret not in f"{path} {path.read_text()}"
        assert store.find(path.name) is None
        with pytest.raises(CounselError, match="not valid"):
            store.sign_in(path.name)


def test_sessions_and_links_are_bounded(tmp_path: Path, store: ConsoleSessions, clock: Clock) -> None:
    values, links = [], []
    for _ in range(sessions.MOST + 5):
        clock.now += 1
        values.append(store.sign_in(TOKEN))
        links.append(store.new_link())
    valid = [value for value in values if store.find(value)]
    assert valid == values[-sessions.MOST :]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2 * sessions.MOST
    clock.now += sessions.LONGEST_SECONDS
    store.sign_in(TOKEN)
    store.new_link()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_a_link_that_two_processes_use_at_once_signs_one_of_them_in(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    link = ConsoleSessions(tmp_path, TOKEN).new_link()

    def attempt(_: int) -> bool:
        try:
            return bool(ConsoleSessions(tmp_path, TOKEN).sign_in(link))
        except AuthenticationFailed:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(attempt, range(16))).count(True) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, store: ConsoleSessions) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "console").write_text("in the way")
    with pytest.raises(CounselError, match=r"cannot write to .*run/console/sessions"):
        store.sign_in(TOKEN)
