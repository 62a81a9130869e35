"""The secret that keys callers' fingerprints, and the registry that finds their settings again."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.jobs import callers
from counsel.engine.jobs.callers import CallerRegistry, Secret


def test_a_secret_is_written_once_and_read_again(tmp_path: Path) -> None:
    first = Secret(tmp_path / "home")
    path = tmp_path / "home" / "secret"
    assert first.kept
    assert path.read_bytes() == first.value
    assert len(first.value) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secret(tmp_path / "home").value == first.value


def test_a_secret_that_a_full_disk_cut_short_is_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "secret").write_bytes(b"short")
    secret = Secret(home)
    assert secret.kept
    assert (home / "secret").read_bytes() == secret.value != b"short"


def test_a_secret_that_could_not_be_written_stays_the_same_and_is_written_later(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("in the way")
    secret = Secret(home)
    value = secret.value
    assert len(value) == 32
    assert not secret.kept
    secret.keep()
    assert (secret.value, secret.kept) == (value, False)
    home.unlink()
    secret.keep()
    assert (secret.value, secret.kept) == (value, True)
    assert (home / "secret").read_bytes() == value


def test_a_secret_that_another_process_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("in the way")
    secret = Secret(home)
    home.unlink()
    their_secret = Secret(home)
    secret.keep()
    assert not secret.kept
    assert (home / "secret").read_bytes() == their_secret.value


def secret_with(value: bytes) -> Secret:
    secret = Secret.__new__(Secret)
    secret.value = value
    return secret


@pytest.fixture
def registry(tmp_path: Path) -> CallerRegistry:
    return CallerRegistry(tmp_path, secret_with(b"s" * 32))


def caller(home: Path, key: str) -> Caller:
    return Caller("test", settings=settings.load({"COUNSEL_HOME": str(home), "OPENAI_API_KEY": key}))


def test_a_caller_is_registered_once_and_found_by_its_fingerprint(
    registry: CallerRegistry, tmp_path: Path
) -> None:
    first, second = caller(tmp_path, "sk-one"), caller(tmp_path, "sk-two")
    fingerprint, new = registry.register_caller(first)
    assert new
    assert registry.register_caller(first) == (fingerprint, False)
    assert registry.find(fingerprint) is first.settings
    second_fingerprint, _ = registry.register_caller(second)
    assert second_fingerprint != fingerprint
    assert registry.find(second_fingerprint) is second.settings
    assert registry.find("unknown") is None


def test_the_keys_of_the_home_are_found_without_any_caller(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-home\n")
    (tmp_path / ".env").chmod(0o600)
    registry = CallerRegistry(tmp_path, secret_with(b"s" * 32))
    alone = Caller("test", settings=settings.load({"COUNSEL_HOME": str(tmp_path)}))
    result = registry.find(alone.fingerprint(b"s" * 32))
    assert result is not None


def test_the_oldest_are_forgotten_unless_a_newer_one_has_the_same_keys(
    registry: CallerRegistry, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(callers, "_MOST", 2)
    senders = [caller(tmp_path, key) for key in ("sk-one", "sk-two", "sk-one", "sk-three")]
    first, second, again, third = (registry.register_caller(sender)[0] for sender in senders)
    assert first == again
    assert registry.find(first) is senders[2].settings
    assert registry.find(second) is None
    assert registry.find(third) is senders[3].settings


def test_the_variables_that_hold_a_jobs_keys_are_named_once_each(registry: CallerRegistry) -> None:
    assert registry.names(["gpt-5", "gpt-5-mini", "sonnet", "no-such-model"]) == [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
    ]
