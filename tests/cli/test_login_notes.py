"""Notes about a team's server after `counsel login`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from counsel import __version__
from counsel.cli.team import login
from counsel.team_login import TeamLogin

NOW = 1_000_000.0
JOINED = TeamLogin("https://team.example", "csl_x", person="ada", name="Ada")


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(time, "time", lambda: NOW)


def notes(**about: Any) -> list[str]:
    info = {"models": [{"id": "gpt-5"}], "counsel": __version__, "time": NOW, "person": {"role": "member"}}
    return login._notes(JOINED, {**info, **about})


def test_a_server_like_this_machine_needs_no_note() -> None:
    assert notes() == []
    assert notes(time=None) == []


@pytest.mark.parametrize(
    ("servers", "note"),
    [
        (NOW - 600, ["this machine's clock is 10 minutes ahead of the server's"]),
        (NOW + 1200, ["this machine's clock is 20 minutes behind the server's"]),
        (NOW + login.MAX_SKEW, []),
        (NOW - login.MAX_SKEW, []),
    ],
)
def test_clocks_that_differ_much_are_named(servers: float, note: list[str]) -> None:
    assert notes(time=servers) == note


def test_missing_permissions_models_and_other_releases_are_noted() -> None:
    assert notes(person={"role": "read-only"}) == ["your role is read-only: you can read, but not ask"]
    assert notes(models=[]) == ["the server offers you no model: it has no provider's key"]
    assert notes(counsel="0.1") == [f"the server runs counsel 0.1, this machine {__version__}"]


def test_certificates_of_one_shell_and_keys_that_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000000000000000")
    first, second = notes()
    assert first == f"SSL_CERT_FILE is set in this shell only: put it in {tmp_path}/.env for other programs"
    assert "own keys are not used" in second
