"""The team's login, the keychain, and the folder of the daemon's socket."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import run_paths, team_login
from counsel.errors import InvalidArgument
from counsel.settings import keychain

TOKEN = "csl_" + "x" * 40
ABOUT = {
    "counsel": "1.2",
    "person": {"id": "p_1", "name": "Ada", "role": "admin"},
    "providers": [{"name": "openai"}, {"label": "nameless"}, "text"],
    "models": [{"id": "m", "provider": "openai", "wire_id": "w"}, {"id": "m"}],
}


@pytest.fixture(autouse=True)
def _keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a keychain, unless a test has one."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr(keychain, "_cache", {})


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch, _keyring: None) -> dict[str, str]:
    keys: dict[str, str] = {}

    def get(service: str, account: str) -> str | None:
        assert service == "counsel"
        return keys.get(account)

    backend = SimpleNamespace(
        get_password=get,
        set_password=lambda _, account, key: keys.update({account: key}),
        delete_password=lambda _, account: keys.pop(account),
    )
    monkeypatch.setitem(sys.modules, "keyring", backend)
    return keys


# ── the login ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (" team.example ", "https://team.example"),
        ("https://Team.Example:8443/base/", "https://team.example:8443/base"),
        ("https://team.example/v1", "https://team.example"),
        ("http://127.0.0.1:3157", "http://127.0.0.1:3157"),
        ("http://localhost:3157/", "http://localhost:3157"),
        ("http://[::1]:3157", "http://[::1]:3157"),
    ],
)
def test_an_address(text: str, url: str) -> None:
    assert team_login.checked_url(text) == url


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ftp://team.example", "not an address of a server"),
        ("https://", "not an address of a server"),
        ("https://team.example:0", "not an address of a server"),
        ("https://team.example:99999", "not an address"),
        ("https://ada@team.example", "must not have a user"),
        ("https://team.example/?a=1", "must not have a user"),
        ("https://team.example/#a", "must not have a user"),
        ("http://team.example", "not encrypted"),
        ("http://127.0.0.1.example", "not encrypted"),
        ("https://team example", "not an address of a server"),
        ("http://127.0.0.1:31\n57", "not an address of a server"),
    ],
)
def test_what_is_no_address(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        team_login.checked_url(text)


@pytest.mark.parametrize("text", ["csl_q7RtQ7rT", "CSL_q7RtQ7rT", "https://csl_q7RtQ7rT"])
def test_a_token_in_place_of_the_address_is_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is a token") as refusal:
        team_login.checked_url(text)
    assert "q7RtQ7rT" not in f"{refusal.value} {refusal.value.hint}"


def test_a_login_is_written_read_and_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert team_login.read(home) is None
    assert not team_login.remove(home)
    login = team_login.write(home, "https://team.example", TOKEN, ABOUT)
    assert login == team_login.read(home)
    assert (login.token, login.person, login.name, login.role) == (TOKEN, "p_1", "Ada", "admin")
    assert (login.host, login.release, login.problem, login.in_keychain) == ("team.example", "1.2", "", False)
    assert login.asked_at > 0
    assert login.providers == ({"name": "openai"},), "rows that cannot be used are left out"
    assert [row["wire_id"] for row in login.models] == ["w"]
    assert stat.S_IMODE((home / team_login.FILE).stat().st_mode) == 0o600
    assert TOKEN not in repr(login)
    assert login.identity == "https://team.example p_1"
    assert team_login.remove(home)
    assert list(home.iterdir()) == []


def test_the_token_is_in_the_keychain_if_there_is_one(tmp_path: Path, keyring: dict[str, str]) -> None:
    login = team_login.write(tmp_path, "https://team.example", TOKEN, ABOUT)
    assert (login.token, login.in_keychain) == (TOKEN, True)
    assert TOKEN not in (tmp_path / team_login.FILE).read_text()
    assert list(keyring.values()) == [TOKEN]
    keyring.clear()
    keychain._cache.clear()
    login_without_token = team_login.read(tmp_path)
    assert login_without_token is not None
    assert "is not available" in login_without_token.problem
    assert login_without_token.token == ""
    keyring["COUNSEL_TEAM_TOKEN@" + str(tmp_path)] = TOKEN
    assert team_login.remove(tmp_path)
    assert keyring == {}


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"token": "t"}', '{"url": "https://t"}', '{"url": "ftp://t", "token": "t"}']
)
def test_a_damaged_login_is_a_problem_and_not_none(tmp_path: Path, content: str) -> None:
    (tmp_path / team_login.FILE).write_text(content)
    login = team_login.read(tmp_path)
    assert login is not None
    assert "cannot be used (it is damaged)" in login.problem
    assert login.identity == "a login that cannot be read"


def test_a_login_without_a_token_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / team_login.FILE).write_text('{"url": "https://t", "token": ""}')
    login = team_login.read(tmp_path)
    assert login is not None
    assert login.problem == "it has no token"
    (tmp_path / team_login.FILE).unlink()
    (tmp_path / team_login.FILE).symlink_to(tmp_path / "gone")
    login = team_login.read(tmp_path)
    assert login is not None
    assert "No such file" in login.problem


def test_a_list_of_another_login_is_not_used(tmp_path: Path) -> None:
    team_login.write(tmp_path, "https://team.example", TOKEN, ABOUT)
    file = tmp_path / team_login.MODELS_FILE
    document = json.loads(file.read_text())
    for change in ({"url": "https://other"}, {"person": "p_2"}, {"models": "text"}, {"at": None}):
        file.write_text(json.dumps({**document, **change}))
        login = team_login.read(tmp_path)
        assert login is not None
        assert (login.asked_at, login.models, login.problem) == (0.0, (), "")


# ── the keychain ─────────────────────────────────────────────────────────────────────────────────────


def test_references_are_replaced_by_keys(keyring: dict[str, str]) -> None:
    keychain.store("a", "sk-1")
    problems: list[str] = []
    values = {"A": "keychain:a", "B": "plain", "C": "keychain:none"}
    assert keychain.resolved(values, problems) == {"A": "sk-1", "B": "plain"}
    (problem,) = problems
    assert problem.startswith("C: the keychain has no such key")
    keyring["a"] = "sk-2"
    assert keychain.resolved({"A": "keychain:a"}, [])["A"] == "sk-1", "it is not asked again for a minute"
    keychain.store("a", "sk-3")
    assert keychain.resolved({"A": "keychain:a"}, [])["A"] == "sk-3"
    keychain.remove("a")
    assert keyring == {}
    keychain.remove("a")
    assert keychain.resolved({"A": "keychain:a"}, []) == {}


def test_a_key_is_read_again_after_a_minute(keyring: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(keychain, "time", SimpleNamespace(monotonic=lambda: now))
    for at, key, expected in ((1000.0, "one", "one"), (1060.0, "two", "one"), (1060.1, "two", "two")):
        now = at
        keyring["a"] = key
        assert keychain.resolved({"A": "keychain:a"}, []) == {"A": expected}


def test_a_keychain_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str] = []
    assert keychain.resolved({"A": "keychain:a"}, problems) == {}
    assert "keyring is not installed" in problems[0]

    def refuse(*_: object) -> Any:
        raise RuntimeError("sk-secret")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=refuse))
    with pytest.raises(keychain.KeychainError, match=r"cannot be used \(RuntimeError\)"):
        keychain.remove("a")


# ── the run folder ───────────────────────────────────────────────────────────────────────────────────


def test_the_socket_is_in_the_home_or_in_a_short_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_paths, "_parent_in_tmp", lambda: str(tmp_path / "t"))
    short = tmp_path / "h"
    monkeypatch.setattr(run_paths, "LONGEST", len(f"{short}/run/daemon.sock"))
    assert run_paths.existing_socket(str(short)) is None
    assert run_paths.socket(str(short)) == f"{short}/run/daemon.sock"
    assert stat.S_IMODE((short / "run").stat().st_mode) == 0o700
    assert run_paths.existing_socket(str(short)) is None
    (short / "run" / "daemon.sock").touch()
    assert run_paths.existing_socket(str(short)) == f"{short}/run/daemon.sock"
    long = tmp_path / "hh"
    elsewhere = run_paths.socket(str(long))
    assert elsewhere.startswith(f"{tmp_path}/t/")
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o700
    Path(elsewhere).touch()
    assert run_paths.existing_socket(str(long)) == elsewhere


def test_a_sessions_socket_has_a_short_name_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_paths, "_parent_in_tmp", lambda: str(tmp_path / "t"))
    home = str(tmp_path / "h")
    monkeypatch.setattr(run_paths, "LONGEST", len(f"{home}/run/ask-{'s' * 60}.sock"))
    assert run_paths.ask_socket(home, "s" * 60) == f"{home}/run/ask-{'s' * 60}.sock"
    long = run_paths.ask_socket(home, "s" * 90)
    assert "s" * 90 not in long
    assert long == run_paths.ask_socket(home, "s" * 90)
    assert long != run_paths.ask_socket(home, "s" * 91)


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError):
        run_paths.own_folder(str(tmp_path / "file"))
    (tmp_path / "open").mkdir(0o755)
    run_paths.own_folder(str(tmp_path / "open"))
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(PermissionError, match="another user"):
        run_paths.own_folder(str(tmp_path / "open"))


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("", ""),
        ("{home}", ""),
        ("{home}/new/deep", ""),
        ("relative", "must be an absolute path"),
        ("~nobody-at-all/x", "there is no user nobody-at-all"),
        ("{home}/file", "file is a file, not a folder"),
        ("{home}/file/below", "file is a file, not a folder"),
        ("{home}/link", "is a link to something that does not exist"),
        ("/proc/nothing", "no folder can be made in /"),
    ],
)
def test_why_a_home_cannot_be_used(tmp_path: Path, setting: str, problem: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    reason = run_paths.home_problem({"COUNSEL_HOME": setting.format(home=tmp_path), "HOME": "/home/ada"})
    assert problem in reason
    assert bool(reason) is bool(problem)
    if problem:
        assert reason.startswith("COUNSEL_HOME is ")


def test_the_default_home_is_never_a_problem() -> None:
    default = run_paths.home({"HOME": "/nowhere/ada"})
    assert run_paths.home_problem({"HOME": "/nowhere/ada", "COUNSEL_HOME": default}) == ""
    long = f"/nowhere/{'x' * 200}"
    assert "characters)" in run_paths.home_problem({"HOME": "/nowhere/ada", "COUNSEL_HOME": f"x{long}"})
