"""Which server a name in `tools` means, and what is said about a name that means none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.tools import choose
from counsel.errors import InvalidArgument, NotFound


def row(
    name: str, agent: str, scope: str = "user", *, enabled: bool = True, compared_fields: str = "x"
) -> Any:
    server = SimpleNamespace(
        name=name, enabled=enabled, command="c", args=(), compared_fields=lambda: compared_fields
    )
    return SimpleNamespace(server=server, agent=agent, scope=scope)


def caller(home: Path, agent: str | None = None, **env: str) -> Caller:
    return Caller("test", agent=agent, settings=settings.load({"COUNSEL_HOME": str(home), **env}))


@pytest.fixture(autouse=True)
def _no_counsel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counsel.agents.self_entry.is_ours", lambda server: server.name == "counsel")


ROWS = (
    row("notes", "gemini", compared_fields="other"),
    row("notes", "claude"),
    row("notes", "claude", "local", compared_fields="local"),
    row("notes", "codex", compared_fields="local"),
    row("notes", "codex", "project"),
)


@pytest.mark.parametrize(
    ("agent", "chosen", "differing"),
    [
        (None, ("claude", "local"), ("gemini",)),
        ("claude", ("claude", "local"), ("gemini",)),
        ("gemini", ("gemini", "user"), ("claude", "codex")),
        ("codex", ("codex", "user"), ("gemini",)),
        ("opencode", ("claude", "local"), ("gemini",)),
    ],
)
def test_the_callers_own_strongest_definition_is_used_then_that_of_the_first_agent(
    tmp_path: Path, agent: str | None, chosen: tuple[str, str], differing: tuple[str, ...]
) -> None:
    server = choose._definition("notes", ROWS, caller(tmp_path, agent))
    assert (server.row.agent, server.row.scope) == chosen
    assert set(server.differing) == set(differing)
    assert server.name == "notes"


def test_a_definition_that_is_switched_off_is_not_used(tmp_path: Path) -> None:
    rows = (row("notes", "claude", enabled=False), row("notes", "codex"))
    assert choose._definition("notes", rows, caller(tmp_path, "claude")).row.agent == "codex"


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ((row("notes", "claude", "project"),), InvalidArgument, "defined only in the project's file"),
        (
            (row("notes", "claude", "project"), row("notes", "codex", enabled=False)),
            InvalidArgument,
            "The MCP server notes is disabled (claude, codex).",
        ),
        (
            (row("notes", "claude", enabled=False), row("notes", "claude", "local", enabled=False)),
            InvalidArgument,
            "The MCP server notes is disabled (claude).",
        ),
        ((), NotFound, "No agent has an MCP server 'notes'."),
    ],
)
def test_why_a_server_cannot_be_used_is_said(
    tmp_path: Path, rows: tuple[Any, ...], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as excinfo:
        choose._definition("notes", rows, caller(tmp_path))
    assert words in str(excinfo.value)
    assert getattr(excinfo.value, "fields")["server"] == "notes"  # noqa: B009 - of two classes


def test_near_names_are_those_that_could_be_used(tmp_path: Path) -> None:
    rows = (row("notes", "claude"), row("note", "codex", "local"), row("notez", "codex", "project"))
    with pytest.raises(NotFound) as excinfo:
        choose._definition("notess", rows, caller(tmp_path))
    assert set(excinfo.value.fields["nearest"]) == {"notes", "note"}
    with pytest.raises(NotFound) as excinfo:
        choose._definition("zzz", rows, caller(tmp_path))
    assert excinfo.value.fields.get("nearest") is None


def test_at_most_so_many_servers_are_shared_and_a_name_twice_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(f"s{number}" for number in range(choose.MOST_SERVERS))
    rows = [row(name, "claude") for name in names]
    started: list[str] = []
    monkeypatch.setattr(choose, "listing", lambda *_: SimpleNamespace(servers=rows))
    monkeypatch.setattr("counsel.engine.tools.choose.trust.moved_inside", lambda *_: False)
    monkeypatch.setattr(
        "counsel.engine.tools.choose.starting.start", lambda row_, _: started.append(row_.server.name)
    )
    who = caller(tmp_path, COUNSEL_SHARED_TOOLS="*")
    assert [server.name for server in choose.choose((*names, *names), who)] == list(names)
    assert started == list(names)
    with pytest.raises(InvalidArgument) as excinfo:
        choose.choose((*names, "more"), who)
    most = choose.MOST_SERVERS
    assert str(excinfo.value) == f"`tools` takes at most {most} servers, not {most + 1}."


@pytest.mark.parametrize(
    ("allowed", "is_allowed", "words"),
    [
        ("*", True, ""),
        ("other,notes", True, ""),
        ("other,more", False, "(allowed are: other, more)"),
        ("", False, "(none are allowed)"),
    ],
)
def test_only_what_the_user_allows_is_shared(
    tmp_path: Path, allowed: str, is_allowed: bool, words: str
) -> None:
    values = caller(tmp_path, COUNSEL_SHARED_TOOLS=allowed).settings
    if is_allowed:
        choose._check_allowed("notes", values)
        return
    with pytest.raises(InvalidArgument) as excinfo:
        choose._check_allowed("notes", values)
    assert words in str(excinfo.value)
    wanted = ",".join(part for part in (allowed, "notes") if part)
    assert f"COUNSEL_SHARED_TOOLS={wanted}, or" in str(excinfo.value.hint)
