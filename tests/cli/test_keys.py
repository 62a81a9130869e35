"""`counsel keys`: keys are stored privately, checked, used by a running daemon at once, and never shown."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest

from counsel import settings
from counsel.settings import keychain
from fake import FakeProcess
from support.stdio_client import StdioClient
from support.user import Output, User

KEY = "sk-proj-" + "q7Rt" * 10
OTHER = "sk-proj-" + "Zx91" * 10


@pytest.fixture
def person(user: User, monkeypatch: pytest.MonkeyPatch) -> User:
    user.command = "keys"
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    return user


def store(person: User, monkeypatch: pytest.MonkeyPatch, key: str, *arguments: str) -> Output:
    monkeypatch.setattr(sys, "stdin", io.StringIO(key))
    result = person.run("set", *arguments)
    assert key.strip() not in result.out + result.err
    return result


def test_a_key_is_stored_privately_and_everything_else_stays(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.counsel_home.mkdir(mode=0o700)
    file = person.counsel_home / ".env"
    file.write_text(
        f"# mine\nexport OPENAI_API_KEY='{OTHER}'  # old\nCOUNSEL_PORT=4000\nOPENAI_API_KEY=twice"
    )
    file.chmod(0o644)
    result = store(person, monkeypatch, KEY + "\n", "openai", "--no-check")
    assert result.code == 0, result.err
    assert file.read_text() == f"# mine\nOPENAI_API_KEY={KEY}\nCOUNSEL_PORT=4000\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in person.counsel_home.iterdir() if path.name.startswith(".env")] == [".env"]
    store(person, monkeypatch, "g" * 39, "GEMINI_API_KEY", "--no-check")
    assert f"GOOGLE_API_KEY={'g' * 39}\n" in file.read_text()


def test_the_list_names_sources_and_never_a_key(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    store(person, monkeypatch, KEY, "openai", "--no-check")
    monkeypatch.setenv("XAI_API_KEY", "xai-" + "A1b2" * 10)
    rows = {row["provider"]: row for row in person.json("list")["keys"]}
    assert (rows["openai"]["source"], rows["openai"]["ends_with"]) == (".env", f"…{KEY[-4:]}")
    assert rows["xai"]["source"] == "environment"
    assert rows["mistral"]["source"] == ""
    text = person.counsel("list") + json.dumps(rows)
    assert KEY[:-4] not in text
    assert KEY[4:12] not in text


def test_a_key_is_removed(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    store(person, monkeypatch, KEY, "openai", "--no-check")
    assert person.json("remove", "openai")["removed"] == ["OPENAI_API_KEY"]
    assert (person.counsel_home / ".env").read_text() == ""
    person.counsel("remove", "openai")
    assert "Nothing was changed." in person.err


@pytest.mark.parametrize(
    "key", ["", "  \n", "two words", "line\nbreak", 'quo"te', "it's", "tab\tbed", "é" * 30]
)
def test_text_that_is_not_a_key_is_not_stored(
    person: User, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(key))
    assert person.run("set", "openai", "--no-check").code == 1
    assert not (person.counsel_home / ".env").exists()


def test_an_unknown_provider_is_named_with_the_nearest(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    result = store(person, monkeypatch, KEY, "opnai", "--json")
    assert (result.code, result.json["code"]) == (1, "NOT_FOUND")
    assert "openai" in result.json["hint"]


def test_a_key_is_checked_before_it_is_stored(
    person: User, monkeypatch: pytest.MonkeyPatch, fake_process: FakeProcess
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_process.v1)
    assert store(person, monkeypatch, KEY, "openai", "--json").json["accepted"] is True
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    unknown = store(person, monkeypatch, OTHER, "openai", "--json").json
    assert unknown["accepted"] is None
    assert settings.load().env["OPENAI_API_KEY"] == OTHER


def test_a_rejected_key_is_not_stored(
    person: User, monkeypatch: pytest.MonkeyPatch, fake_process: FakeProcess
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_process.v1)
    fake_process.set(keys=["another"])
    result = store(person, monkeypatch, KEY, "openai", "--json")
    assert (result.code, result.json["code"]) == (1, "AUTHENTICATION_FAILED")
    assert not (person.counsel_home / ".env").exists()


class FakeKeyring(ModuleType):
    def __init__(self) -> None:
        super().__init__("keyring")
        self.stored: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, account: str) -> str | None:
        return self.stored.get((service, account))

    def set_password(self, service: str, account: str, key: str) -> None:
        self.stored[service, account] = key

    def delete_password(self, service: str, account: str) -> None:
        del self.stored[service, account]


def test_a_key_in_the_keychain_is_in_no_file(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", ring)
    assert store(person, monkeypatch, KEY, "openai", "--no-check", "--keychain").code == 0
    assert KEY not in (person.counsel_home / ".env").read_text()
    assert list(ring.stored.values()) == [KEY]
    user_settings = settings.load()
    assert user_settings.env["OPENAI_API_KEY"] == KEY
    assert "OPENAI_API_KEY" not in user_settings.own_env
    assert {row["provider"]: row["source"] for row in person.json("list")["keys"]}["openai"] == "keychain"
    person.counsel("remove", "openai")
    assert ring.stored == {}


def test_a_keychain_that_fails_disables_this_key_alone(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    refusal = store(person, monkeypatch, KEY, "openai", "--no-check", "--keychain")
    assert refusal.code == 1
    assert "counsel[keychain]" in refusal.err
    person.counsel_home.mkdir(exist_ok=True)
    (person.counsel_home / ".env").write_text("OPENAI_API_KEY=keychain:gone\nXAI_API_KEY=xai-there\n")
    keychain._cache.clear()
    user_settings = settings.load()
    assert "OPENAI_API_KEY" not in user_settings.env
    assert user_settings.env["XAI_API_KEY"] == "xai-there"
    assert any("OPENAI_API_KEY" in problem for problem in user_settings.problems)


async def test_a_running_daemon_uses_a_new_key_without_a_restart(
    home: Path, fake_process: FakeProcess
) -> None:
    env = {"OPENAI_BASE_URL": fake_process.v1}
    stdio = [sys.executable, "-m", "counsel", "stdio"]
    async with StdioClient(home, command=stdio, env=env) as client:
        await client.initialize()
        before = await client.call("chat", prompt="hello", model="gpt-5-mini")
        assert before["structuredContent"]["code"] == "PROVIDER_UNAVAILABLE"
        command = (sys.executable, "-m", "counsel", "keys", "set", "openai")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, env=client.env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        out, err = await asyncio.wait_for(process.communicate(KEY.encode()), 60)
        assert process.returncode == 0, err
        assert KEY.encode() not in out + err
        async with asyncio.timeout(30):  # settings are read again within a second
            while (after := await client.call("chat", prompt="hello", model="gpt-5-mini")).get("isError"):
                pass
        assert after["structuredContent"]["content"] == "gpt-5-mini says: hello"
    logs = "".join(path.read_text() for path in (home / "logs").glob("*"))
    assert KEY not in logs
