"""The caller: the chain of agents before this call, and the settings that a job needs to continue unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from counsel import caller, settings
from counsel.caller import Caller
from counsel.people import Person
from counsel.types import Limits


@pytest.mark.parametrize(
    ("agent", "before", "chain"),
    [
        (None, (), ()),
        (None, ("claude",), ("claude",)),
        ("codex", (), ("codex",)),
        ("codex", ("claude",), ("claude", "codex")),
        ("codex", ("claude", "codex"), ("claude", "codex")),
        ("codex", ("codex", "claude"), ("codex", "claude", "codex")),
    ],
)
def test_an_agent_is_the_last_of_its_chain_once(
    agent: str | None, before: tuple[str, ...], chain: tuple[str, ...]
) -> None:
    assert Caller(agent=agent, chain=before).agent_chain == chain


def test_the_chain_comes_from_the_environment() -> None:
    assert caller.chain({"COUNSEL_CHAIN": " claude, ,codex "}) == ("claude", "codex")
    assert caller.chain({}) == ()


def test_whose_work_it_is_and_where_it_may_look() -> None:
    caller = Caller(cwd=Path("/a"), roots=(Path("/b"),))
    assert (caller.owner, caller.folders) == ("", (Path("/a"), Path("/b")))
    assert Caller(person=Person("p1", "Ada")).owner == "p1"


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("OPENAI_API_KEY", True),
        ("ACME_BASE_URL", True),
        ("GITHUB_TOKEN", True),
        ("COUNSEL_MAX_ATTEMPTS", True),
        ("CLAUDE_CODE_USE_BEDROCK", True),
        ("HTTPS_PROXY", True),
        ("CODEX_HOME", True),
        ("PATH", False),
        ("COUNSEL_HOME", False),
        ("COUNSEL_CHAIN", False),
        ("COUNSEL_SECRET_KEY", False),
        ("COUNSEL_OIDC_CLIENT_SECRET", False),
        ("VSCODE_GIT_TOKEN", False),
    ],
)
def test_a_job_continues_with_the_same_keys_and_addresses(tmp_path: Path, name: str, matters: bool) -> None:
    def fingerprint(**env: str) -> str:
        loaded_settings = settings.load({"COUNSEL_HOME": str(tmp_path), **env})
        return Caller(settings=loaded_settings).fingerprint(b"secret")

    differs = fingerprint(**{name: "x"} if name != "COUNSEL_HOME" else {}) != fingerprint()
    assert differs == matters
    assert len(fingerprint()) == 32
    assert fingerprint() != Caller(settings=settings.load({"COUNSEL_HOME": str(tmp_path)})).fingerprint(
        b"other"
    )


def test_the_embedded_models_address_moves_and_its_callers_stay_the_same(tmp_path: Path) -> None:
    def fingerprint(**env: str) -> str:
        loaded_settings = settings.load({"COUNSEL_HOME": str(tmp_path), **env})
        return Caller(settings=loaded_settings).fingerprint(b"secret")

    first = fingerprint(
        COUNSEL_LOCAL_EMBEDDED="1", COUNSEL_LOCAL_BASE_URL="http://a", COUNSEL_LOCAL_API_KEY="k"
    )
    assert first == fingerprint(
        COUNSEL_LOCAL_EMBEDDED="1", COUNSEL_LOCAL_BASE_URL="http://b", COUNSEL_LOCAL_API_KEY="l"
    )
    assert fingerprint(COUNSEL_LOCAL_BASE_URL="http://a") != fingerprint(COUNSEL_LOCAL_BASE_URL="http://b")


def test_a_call_without_limits_of_its_own_has_these() -> None:
    assert Limits() == Limits(300.0, 10.0, 240.0, 120.0, 3, 16 * 2**20)
