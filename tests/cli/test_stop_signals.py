"""What ends a chat's wait for an answer, and the exit code that others see."""

from __future__ import annotations

import asyncio
import os
import signal

import click
import pytest

from counsel.cli import connect
from counsel.cli.terminal import closed_window
from counsel.cli.terminal.stopped import Stopped


async def wait_for_signal(number: signal.Signals | None) -> str:
    if number is not None:
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)
    return "answered"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_with_its_code(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    silenced: list[tuple[int, ...]] = []
    monkeypatch.setattr(closed_window, "write_nowhere", lambda *files: silenced.append(files))
    monkeypatch.setattr(os, "isatty", lambda file: file == 2)
    with connect.Loop() as loop, pytest.raises(click.exceptions.Exit) as exit_:
        loop.run(wait_for_signal(number))
    assert exit_.value.exit_code == 128 + number
    assert silenced == ([(2,)] if number == signal.SIGHUP else []), "only a terminal that has gone"
    assert signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}


def test_ctrl_c_stops_the_work_alone() -> None:
    with connect.Loop() as loop:
        with pytest.raises(Stopped):
            loop.run(wait_for_signal(signal.SIGINT))
        assert loop.run(wait_for_signal(None)) == "answered"


def test_the_teams_server_is_asked_through_the_shells_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Like all its other calls."""
    from types import SimpleNamespace

    import aiohttp

    from counsel.cli import user
    from counsel.cli.team import people_keys
    from counsel.errors import AuthenticationFailed

    proxies: list[bool] = []

    class Session:
        def __init__(self, *, headers: object, trust_env: bool) -> None:
            proxies.append(trust_env)
            raise aiohttp.ClientError

    login = SimpleNamespace(token="csl_x", url="https://team.example", host="team.example")
    monkeypatch.setattr(aiohttp, "ClientSession", Session)
    monkeypatch.setattr(user, "caller", lambda: SimpleNamespace(settings=SimpleNamespace(team=login)))
    with pytest.raises(AuthenticationFailed, match=r"team\.example did not answer"):
        people_keys._request("GET", "")
    assert proxies == [True]
