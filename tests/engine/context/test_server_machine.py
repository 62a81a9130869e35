"""What people of a team cannot make a server do with its own files and programs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.context import server_machine
from counsel.errors import NotPermitted
from counsel.people import Person
from counsel.requests import ChatRequest, Request, ReviewRequest
from counsel.settings import Settings

PERSON = Person("p_1", "ada", "member")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ChatRequest(prompt="q"), None),
        (ChatRequest(prompt="q", export="/folder"), "does not export to folders"),
        (ChatRequest(prompt="q", tools=("files",)), "cannot use the server"),
        (ReviewRequest(prompt="p", diff="d", models=("a", "b")), None),
        (
            ReviewRequest(prompt="p", diff="d", models=("a", "b"), root="/folder"),
            "does not read its own repositories",
        ),
    ],
)
def test_requests_that_read_write_or_start_something_there_are_refused(
    request_: Request, message: str | None
) -> None:
    if message is None:
        server_machine.check(request_)
    else:
        with pytest.raises(NotPermitted, match=message):
            server_machine.check(request_)


def test_agents_run_there_only_if_the_operator_allows_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    server_machine.check_agent("codex", Caller(cwd=folder))
    with pytest.raises(NotPermitted, match="codex does not run") as excinfo:
        server_machine.check_agent("codex", Caller(cwd=folder, person=PERSON))
    assert "COUNSEL_TEAM_AGENTS" in (excinfo.value.hint or "")
    assert not folder.exists()
    server_machine.check_agent(
        "codex", Caller(cwd=folder, person=PERSON, settings=Settings(team_agents=True))
    )
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
