"""`counsel login` and `counsel logout`: checked first, stored privately, shown nowhere."""

from __future__ import annotations

import getpass
import io
import json
import ssl
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from counsel import settings
from counsel.models import team
from counsel.settings import keychain
from support.user import Output, User

pytestmark = pytest.mark.thorough  # left out of `make check`: starts processes and waits for time limits

TOKEN = "csl_" + "q7Rt" * 10
ADA = {"id": "p_1", "name": "ada", "role": "member", "groups": []}
ABOUT: dict[str, Any] = {
    "counsel": "9.9.9",
    "version": 1,
    "time": 1,
    "person": ADA,
    "providers": [{"name": "openai", "label": "OpenAI", "open": True}],
    "models": [{"id": "gpt-5", "provider": "openai", "wire_id": "gpt-5"}],
}


class _Server(BaseHTTPRequestHandler):
    about: ClassVar[Any] = ABOUT
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("authorization", ""))
        is_accepted = self.headers.get("authorization") == f"Bearer {TOKEN}"
        document = self.about if is_accepted else {"error": "No.", "code": "AUTHENTICATION_FAILED"}
        body = json.dumps(document).encode()
        self.send_response(200 if is_accepted else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """The answer of a team's server to an unknown conversation and to an ended token."""
        is_accepted = self.headers.get("authorization") == f"Bearer {TOKEN}"
        self.rfile.read(int(self.headers["content-length"]))
        code = "NOT_FOUND" if is_accepted else "AUTHENTICATION_FAILED"
        body = json.dumps({"error": "There is no conversation here.", "code": code, "hint": "`counsel jobs`"})
        self.send_response(404 if is_accepted else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    _Server.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_keychain(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise keychain.KeychainError("none")

    monkeypatch.setattr(keychain, "store", missing)


@pytest.fixture
def person(user: User) -> User:
    user.command = "login"
    return user


def log_in(person: User, monkeypatch: pytest.MonkeyPatch, *arguments: str, token: str = TOKEN) -> Output:
    monkeypatch.setattr(sys, "stdin", io.StringIO(token + "\n"))
    result = person.run(*arguments, "--token-stdin")
    assert token not in result.out + result.err
    return result


def test_login_status_and_logout(person: User, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    result = log_in(person, monkeypatch, url)
    assert result.code == 0, result.err
    assert f"joined {url} as ada (member)" in result.err
    assert "1 model" in result.err
    assert "own keys" not in result.err  # it has none
    assert "clock" in result.err
    file = person.counsel_home / "team.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    login = settings.load().team
    assert login
    assert (login.token, login.person, login.role) == (TOKEN, "p_1", "member")
    text = person.counsel("--status")
    assert url in text
    assert "ada (member)" in text
    document = json.loads(person.counsel("--status", "--json"))
    assert (document["reachable"], document["token_in"], document["release"]) == (True, "file", "9.9.9")
    person.command = "logout"
    assert "left" in person.run().err
    assert not file.exists()
    assert settings.load().team is None
    assert "Nothing was changed" in person.run().err
    person.command = "login"
    assert json.loads(person.counsel("--status", "--json")) == {"joined": False}


def test_a_person_with_keys_learns_that_they_are_not_used(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000000000000000")
    assert "own keys are not used" in log_in(person, monkeypatch, url).err


@pytest.mark.parametrize(("token", "message"), [("", "No token was given"), ("a b", "This is not a token")])
def test_text_that_is_not_a_token_is_reported_as_such(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str, token: str, message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(token + "\n"))
    result = person.run(url, "--token-stdin")
    assert result.code == 1
    assert message in result.err


def test_a_token_that_was_typed_as_an_argument_is_not_shown(person: User, url: str) -> None:
    result = person.run(url, TOKEN)
    assert result.code == 2
    assert TOKEN not in result.out + result.err
    assert "--token-stdin" in result.err
    assert _Server.seen == []


def test_a_token_that_is_refused_is_not_stored(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    result = log_in(person, monkeypatch, url, token="csl_wrong-token-000000000")
    assert result.code == 1
    assert "does not accept this token" in result.err
    assert "logout" not in result.err, "there is nothing to leave"
    assert not (person.counsel_home / "team.json").exists()


def test_before_joining_no_hint_mentions_the_login_status(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(_Server, "do_GET", lambda handler: handler.send_error(404))
    result = log_in(person, monkeypatch, url)
    assert result.code == 1
    assert "There is no counsel server at" in result.err
    assert "--status" not in result.err
    assert "Nothing was changed" in result.err


@pytest.mark.parametrize("status", [403, 429, 500, 502])
def test_a_failing_server_gets_no_advice_for_people_who_have_joined(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str, status: int
) -> None:
    monkeypatch.setattr(_Server, "do_GET", lambda handler: handler.send_error(status))
    result = log_in(person, monkeypatch, url)
    assert result.code == 1
    assert f"answered with {status}" in result.err
    assert "logout" not in result.err
    assert "team_offline" not in result.err
    assert "Nothing was changed" in result.err


def test_a_silent_server_gets_no_advice_about_effort(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    release = threading.Event()
    monkeypatch.setattr(_Server, "do_GET", lambda handler: release.wait(60))
    monkeypatch.setattr(team, "LIMITS", replace(team.LIMITS, total=0.2))
    result = log_in(person, monkeypatch, url)
    release.set()
    assert result.code == 1
    assert "did not finish within" in result.err
    assert "effort" not in result.err
    assert "Nothing was changed" in result.err


def test_a_token_typed_as_the_address_is_sent_nowhere(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    result = log_in(person, monkeypatch, TOKEN)
    assert result.code == 1
    assert "counsel login https://" in result.err


def test_a_conversation_that_is_not_at_the_server_is_not_looked_for_here(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    log_in(person, monkeypatch, url)
    person.command = "conversations"
    assert person.run("share", "last").code == 1
    assert "`counsel jobs`" not in person.err
    assert f"{url} has no conversation of yours with the id last" in person.err


def test_a_conversation_is_shared_in_words_and_as_json(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    def share(handler: _Server) -> None:
        handler.rfile.read(int(handler.headers["content-length"]))
        ada = {"id": "p_1", "name": "ada"}
        body = json.dumps({"shared": ada if handler.path.endswith("/mine/share") else None}).encode()
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    monkeypatch.setattr(_Server, "do_POST", share)
    log_in(person, monkeypatch, url)
    person.command = "conversations"
    for verb, shared, words in (
        ("share", {"id": "p_1", "name": "ada"}, "mine is shared with the team."),
        ("unshare", None, "mine is no longer shared."),
    ):
        done = person.run(verb, "mine")
        assert (done.code, done.out, done.err) == (0, "", f"{words}\n")
        assert person.json(verb, "mine") == {"id": "mine", "shared": shared}


def test_a_question_for_a_token_that_is_broken_off_writes_nothing_to_stdout(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    def broken_off(prompt: str) -> str:
        raise KeyboardInterrupt

    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(getpass, "getpass", broken_off)
    done = person.run(url)
    assert (done.code != 0, done.out) == (True, "")
    assert f"Get a token at {url}/" in done.err


def test_own_keys_are_checked_before_they_are_sent_and_an_ended_login_is_named(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    log_in(person, monkeypatch, url)
    person.command = "people"
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert person.run("keys", "set", "openai").code == 1
    assert "No key was given" in person.err
    (person.counsel_home / "team.json").write_text(
        json.dumps({"url": url, "token": "csl_old", "person": ADA})
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("sk-own-key-0123456789"))
    assert person.run("keys", "set", "openai").code == 1
    assert f"`counsel login {url}`" in person.err


def test_the_token_is_never_sent_unencrypted_to_another_machine(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = log_in(person, monkeypatch, "http://team.example")
    assert result.code == 1
    assert "https://team.example" in result.err


def test_a_server_that_is_down(person: User, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    log_in(person, monkeypatch, url)
    (person.counsel_home / "team.json").write_text(
        json.dumps({"url": "http://127.0.0.1:9", "token": TOKEN, "person": ADA})
    )
    result = person.run("--status")
    assert result.code == 1
    assert "cannot be reached" in result.err
    assert "team_offline" in result.err
    assert json.loads(person.counsel("--status", "--json", code=1))["reachable"] is False


def test_an_untrusted_certificate_is_reported_plainly(
    person: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pem = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"https://localhost:{server.server_port}"
    try:
        _Server.seen.clear()
        result = log_in(person, monkeypatch, url)
        assert result.code == 1
        assert "certificate" in result.err.lower()
        assert "SSL_CERT_FILE" in result.err
        assert not _Server.seen
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        second = log_in(person, monkeypatch, url)
        assert second.code == 0, second.err
        assert "SSL_CERT_FILE is set in this shell only" in second.err
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _certificate(folder: Path) -> Path:
    import subprocess

    key, pem = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(pem)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    pem.write_text(pem.read_text() + key.read_text())
    return pem


def test_the_token_is_in_the_keychain_where_there_is_one(
    person: User, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    entries: dict[tuple[str, str], str] = {}
    ring = ModuleType("keyring")
    ring.set_password = lambda service, name, key: entries.__setitem__((service, name), key)  # type: ignore[attr-defined]
    ring.get_password = lambda service, name: entries.get((service, name))  # type: ignore[attr-defined]
    ring.delete_password = lambda service, name: entries.pop((service, name))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setattr(keychain, "store", _STORE)
    result = log_in(person, monkeypatch, url)
    assert "keychain" in result.err
    assert TOKEN not in (person.counsel_home / "team.json").read_text()
    login = settings.load().team
    assert login
    assert login.token == TOKEN
    entries.clear()
    keychain._cache.clear()
    empty_login = settings.load().team
    assert empty_login
    assert empty_login.problem
    entries["counsel", keychain.account("COUNSEL_TEAM_TOKEN", person.counsel_home)] = TOKEN
    person.command = "logout"
    person.counsel()
    assert not entries


_STORE = keychain.store


def test_other_commands_show_the_team(person: User, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    log_in(person, monkeypatch, url)
    texts = {}
    for command, arguments in (("models", ()), ("config", ("list",)), ("doctor", ()), ("usage", ())):
        person.command = command
        result = person.run(*arguments)
        texts[command] = result.out + result.err
    host = url.partition("://")[2]
    for command in ("models", "config", "doctor", "usage"):
        assert host in texts[command], command
    assert "through the team server" in texts["doctor"]
    person.command = "serve"
    refusal = person.run("--host", "0.0.0.0")
    assert refusal.code == 1
    assert "does not listen on 0.0.0.0" in refusal.err
