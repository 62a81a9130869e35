"""Providers' keys: where they come from, and how they are checked and stored."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from counsel import settings
from counsel.errors import AuthenticationFailed, InvalidArgument, NotFound
from counsel.models import provider_keys
from counsel.models.catalog import ProviderRow
from counsel.settings import Settings, keychain
from fake import FakeAPI

KEY = "sk-test-0123456789abcdef"


def load(home: Path, **env: str) -> Settings:
    return settings.load({"COUNSEL_HOME": str(home), **env})


def row(home: Path, name: str = "openai", **env: str) -> ProviderRow:
    return provider_keys.row_of(name, load(home, **env))


def test_a_provider_by_its_name_or_its_variable(tmp_path: Path) -> None:
    assert row(tmp_path, "OpenAI").provider.name == "openai"
    assert row(tmp_path, "ANTHROPIC_API_KEY").provider.name == "anthropic"
    with pytest.raises(NotFound, match="'opnai' that takes a key") as excinfo:
        row(tmp_path, "opnai")
    assert excinfo.value.hint == "Did you mean openai?"
    with pytest.raises(NotFound) as excinfo:
        row(tmp_path, "zzz")
    assert "Providers with a key: openai" in str(excinfo.value.hint)


def test_where_a_key_comes_from(tmp_path: Path) -> None:
    def source(**env: str) -> tuple[str, str]:
        user_settings = load(tmp_path, **env)
        key_row = provider_keys.row_of("openai", user_settings)
        return provider_keys.source(key_row, user_settings), provider_keys.ending(key_row, user_settings)

    assert source() == ("", "")
    assert source(OPENAI_API_KEY=" ") == ("", "")
    assert source(OPENAI_API_KEY=KEY) == ("environment", "…cdef")
    assert source(OPENAI_API_KEY="x" * 20)[1] == "…xxxx"
    assert source(OPENAI_API_KEY="x" * 19)[1] == "", "the rest of a short key could be guessed"
    provider_keys.store(row(tmp_path), KEY, tmp_path)
    assert source() == (".env", "…cdef")


def test_the_variable_that_holds_a_key(tmp_path: Path) -> None:
    google = row(tmp_path, "google")
    first, second = google.provider.key_envs[:2]
    assert provider_keys.variable(google, load(tmp_path)) == first
    assert provider_keys.variable(google, load(tmp_path, **{second: KEY})) == second
    assert provider_keys.shadowing(google, {}) is None
    assert provider_keys.shadowing(google, {first: "", second: KEY}) == second


def test_the_form_of_a_key(tmp_path: Path) -> None:
    assert provider_keys.is_well_formed(row(tmp_path), KEY)
    assert not provider_keys.is_well_formed(row(tmp_path), "nonsense")


@pytest.mark.parametrize("text", [KEY, f"  {KEY}\n", "a" * provider_keys.LONGEST])
def test_a_key_that_was_typed(text: str) -> None:
    assert provider_keys.parsed(text) == text.strip()


@pytest.mark.parametrize(
    "text", ["two words", 'with"quote', "with'quote", "a\nb", "ü", "a" * (provider_keys.LONGEST + 1)]
)
def test_text_that_cannot_be_a_key(text: str) -> None:
    with pytest.raises(InvalidArgument, match="This is not a key"):
        provider_keys.parsed(text)


def test_no_key_was_typed() -> None:
    with pytest.raises(InvalidArgument, match="No key was given"):
        provider_keys.parsed("  \n")


async def test_a_provider_accepts_or_rejects_a_key(tmp_path: Path, fake_api: FakeAPI) -> None:
    env = {"COUNSEL_HOME": str(tmp_path), "OPENAI_BASE_URL": fake_api.v1, "OPENAI_API_KEY": "sk-other"}
    assert await provider_keys.is_accepted(row(tmp_path), KEY, env) is True
    assert fake_api.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    fake_api.keys = {"another"}
    with pytest.raises(AuthenticationFailed, match="does not accept this key; it was not stored") as excinfo:
        await provider_keys.is_accepted(row(tmp_path), KEY, env)
    assert excinfo.value.fields["provider"] == "openai"


async def test_a_key_is_neither_accepted_nor_rejected_when_the_provider_cannot_be_reached(
    tmp_path: Path,
) -> None:
    env = {"COUNSEL_HOME": str(tmp_path), "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert await provider_keys.is_accepted(row(tmp_path), KEY, env) is None


# ── COUNSEL_HOME/.env ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "OPENAI_API_KEY={}\n"),
        ("A=1\n", "A=1\nOPENAI_API_KEY={}\n"),
        ("A=1", "A=1\nOPENAI_API_KEY={}\n"),
        ("A=1\r\nB=2", "A=1\r\nB=2\r\nOPENAI_API_KEY={}\r\n"),
        ("OPENAI_API_KEY=old\nA=1\n", "OPENAI_API_KEY={}\nA=1\n"),
        ("# k\n export OPENAI_API_KEY = old\nA=1\nOPENAI_API_KEY=older\n", "# k\nOPENAI_API_KEY={}\nA=1\n"),
        ("OPENAI_API_KEY_2=x\n", "OPENAI_API_KEY_2=x\nOPENAI_API_KEY={}\n"),
    ],
)
def test_a_key_replaces_its_line_and_nothing_else(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / ".env"
    file.write_bytes(before.encode())
    assert provider_keys.store(row(tmp_path), KEY, tmp_path) == str(file)
    assert file.read_bytes().decode() == after.format(KEY)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_bytes_that_are_not_text_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    provider_keys.store(row(tmp_path), KEY, tmp_path)
    assert (tmp_path / ".env").read_bytes() == b"A=\xff\nOPENAI_API_KEY=" + KEY.encode() + b"\n"


def test_a_key_is_removed(tmp_path: Path) -> None:
    openai = row(tmp_path)
    assert provider_keys.remove(openai, tmp_path) == ([], [])
    assert not (tmp_path / ".env").exists()
    (tmp_path / ".env").write_text(f"A=1\nOPENAI_API_KEY={KEY}\n")
    assert provider_keys.remove(openai, tmp_path) == (["OPENAI_API_KEY"], [])
    assert (tmp_path / ".env").read_text() == "A=1\n"


def test_a_key_in_the_keychain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, str] = {}
    monkeypatch.setattr(keychain, "store", keys.__setitem__)
    monkeypatch.setattr(keychain, "remove", keys.pop)
    openai = row(tmp_path)
    assert provider_keys.store(openai, KEY, tmp_path, in_keychain=True) == "the system's keychain"
    account = keychain.account("OPENAI_API_KEY", tmp_path)
    assert keys == {account: KEY}
    assert (tmp_path / ".env").read_text() == f"OPENAI_API_KEY=keychain:{account}\n"
    assert provider_keys.remove(openai, tmp_path) == (["OPENAI_API_KEY"], [])
    assert keys == {}


def test_a_keychain_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object) -> None:
        raise keychain.KeychainError("it is locked")

    monkeypatch.setattr(keychain, "store", locked)
    monkeypatch.setattr(keychain, "remove", locked)
    openai = row(tmp_path)
    with pytest.raises(InvalidArgument, match="was not stored: it is locked"):
        provider_keys.store(openai, KEY, tmp_path, in_keychain=True)
    assert not (tmp_path / ".env").exists()
    (tmp_path / ".env").write_text("OPENAI_API_KEY=keychain:x\n")
    removed_names, notes = provider_keys.remove(openai, tmp_path)
    assert removed_names == ["OPENAI_API_KEY"]
    assert notes == ["it is locked; the key may still be in the keychain"]
