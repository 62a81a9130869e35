"""`counsel people keys` on a machine that has joined a team: the server is asked, and no database is opened."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import cli
from counsel.cli.team import people_keys, team_database
from counsel.errors import InvalidArgument

STORED = {
    "keys": [
        {"provider": "openai", "stored_at": "2026-11-19T08:30:15Z"},
        {"provider": "xai", "stored_at": None},
    ]
}


class Team:
    """The team's server, as `_request` reaches it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.document: Any = STORED
        self._capsys = capsys
        self.joined, self.database = True, ""
        monkeypatch.setattr(people_keys, "_request", self._request)
        monkeypatch.setattr(people_keys, "run_in_store", self._in_store)
        monkeypatch.setattr(people_keys, "_read_key", lambda provider: f"sk-for-{provider}")
        monkeypatch.setattr("counsel.cli.team.people_keys.user.caller", self._caller)

    def _caller(self) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(team=self.joined or None, database=self.database))

    def _request(self, *arguments: Any) -> Any:
        self.asked.append(arguments)
        return self.document

    def _in_store(self, _work: Any) -> Any:
        raise InvalidArgument("The database was opened.")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = cli.run(["people", "keys", *arguments])
        streams = self._capsys.readouterr()
        return code, streams.out, streams.err


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Team:
    return Team(monkeypatch, capsys)


def test_the_keys_that_are_stored_are_listed(team: Team) -> None:
    code, text, _ = team.run("list")
    assert (code, team.asked) == (0, [("GET", "")])
    assert "openai" in text
    assert "2026-11-19 08:30\n" in text
    assert "xai" not in text
    code, text, _ = team.run("list", "--json")
    assert code == 0
    assert '"stored_at": "2026-11-19T08:30:15Z"' in text
    assert "xai" not in text


def test_without_a_stored_key_it_says_whose_are_used(team: Team) -> None:
    team.document = {"keys": STORED["keys"][1:]}
    assert team.run("list") == (0, "", "No keys of your own: the server's are used.\n")


@pytest.mark.parametrize("provider", ["openai", "a/b c"])
def test_a_key_is_sent_to_the_server(team: Team, provider: str) -> None:
    path = {"openai": "/openai", "a/b c": "/a%2Fb%20c"}[provider]
    assert team.run("set", provider) == (0, "", f"{provider}: the key is stored.\n")
    assert team.asked == [("PUT", path, {"key": f"sk-for-{provider}"})]
    code, text, _ = team.run("remove", provider, "--json")
    assert (code, team.asked[1:]) == (0, [("DELETE", path, None)])
    assert '"removed": true' in text


@pytest.mark.parametrize("command", [["list"], ["set", "openai"], ["remove", "openai"]])
@pytest.mark.parametrize(
    ("joined", "database", "person"),
    [(True, "postgresql://x", []), (False, "", []), (True, "", ["--person", "Ada"])],
)
def test_an_operators_keys_and_those_of_who_has_not_joined_are_in_the_database(
    team: Team, command: list[str], joined: bool, database: str, person: list[str]
) -> None:
    team.joined, team.database = joined, database
    code, _, err = team.run(*command, *person)
    assert code == 1
    assert "The database was opened." in err
    assert not team.asked


def test_without_a_database_an_operator_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: object) -> None:
        raise AssertionError

    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    monkeypatch.delenv("COUNSEL_DATABASE", raising=False)
    with pytest.raises(InvalidArgument, match="No database is configured") as excinfo:
        team_database.run_in_store(work)
    assert "Set COUNSEL_DATABASE" in str(excinfo.value.hint)
    assert not list(tmp_path.glob("*.db"))
