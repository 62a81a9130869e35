"""Session tags: one thread per project and tag, for every client, even after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import InvalidArgument
from counsel.requests import ChatRequest
from fake import FakeAPI


async def ask(engine: Engine, caller: Caller, prompt: str = "hello", **fields: Any) -> Any:
    request = ChatRequest(tool="askModel", prompt=prompt, **{"model": "gpt-5", **fields})
    return (await engine.wait(await engine.submit(request, caller))).to_json()


def thread(result: Any) -> tuple[str, int]:
    return result["continuation"]["id"], result["continuation"]["messageCount"]


async def test_a_tag_continues_across_models_sessions_and_restarts(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    engine = await open_engine(home)
    first = await ask(engine, caller("claude-code"), "the first", session_tag="auth-design")
    await engine.close()
    engine = await open_engine(home)
    second = await ask(
        engine, caller("codex-mcp-client"), "the second", session_tag="auth-design", model="sonnet"
    )
    await engine.close()
    assert first["continuation"]["id"].startswith("ask_")
    assert first["continuation"]["tag"] == second["continuation"]["tag"] == "auth-design"
    assert thread(second) == (thread(first)[0], 4)
    assert "gpt-5 says: the first" in str(fake_api.log.requests[-1].body["messages"])


async def test_which_tag_a_call_uses(engine: Engine, caller: Callable[..., Caller]) -> None:
    alone = await ask(engine, caller())
    again = await ask(engine, caller())
    assert "tag" not in alone["continuation"]  # nothing to continue: a thread of its own
    assert thread(again)[1] == 2
    by_session = await ask(engine, caller(SESSION_ID="window-7"))
    assert by_session["continuation"]["tag"] == "window-7"
    by_name = await ask(engine, caller(SESSION_ID="window-7"), session_tag="named")
    assert by_name["continuation"]["tag"] == "named"
    for sender, tag in ((caller(), None), (caller(), "default"), (caller(SESSION_ID="default"), None)):
        assert (await ask(engine, sender, session_tag=tag))["continuation"]["tag"] == "named"
    await ask(engine, caller(SESSION_ID="window-7"))
    newest = await ask(engine, caller(SESSION_ID="other"), session_tag="default")
    assert newest["continuation"]["tag"] == "window-7"


async def test_projects_never_share_a_tag_but_subfolders_do(
    engine: Engine, caller: Callable[..., Caller], project: Path, tmp_path: Path
) -> None:
    first = await ask(engine, caller(), session_tag="same")
    other_project = tmp_path / "elsewhere"
    other_project.mkdir()
    second = await ask(engine, replace(caller(), cwd=other_project), session_tag="same")
    assert thread(second)[0] != thread(first)[0]
    new_project = tmp_path / "untagged"
    new_project.mkdir()
    assert "tag" not in (await ask(engine, replace(caller(), cwd=new_project)))["continuation"]
    (other_project / ".git").mkdir()
    (other_project / "src").mkdir()
    third = await ask(engine, replace(caller(), cwd=other_project / "src"), session_tag="same")
    assert thread(third) == (thread(second)[0], 4)


async def test_five_simultaneous_calls_with_a_new_tag_share_one_thread(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    results = await asyncio.gather(*(ask(engine, caller(), f"q{n}", session_tag="burst") for n in range(5)))
    assert len({thread(result)[0] for result in results}) == 1
    assert sorted(thread(result)[1] for result in results) == [2, 4, 6, 8, 10]


async def test_sessions_are_isolated_from_each_other(engine: Engine, caller: Callable[..., Caller]) -> None:
    first = await ask(engine, caller(), session="one", session_tag="topic")
    second = await ask(engine, caller(), session="two", session_tag="topic")
    outside = await ask(engine, caller(), session_tag="topic")
    assert len({thread(result)[0] for result in (first, second, outside)}) == 3
    assert {result["continuation"]["tag"] for result in (first, second, outside)} == {"topic"}
    newest = await ask(engine, caller(), session="one", session_tag="default")
    assert thread(newest) == (thread(first)[0], 4)
    fresh = await ask(engine, caller(), session="thr", session_tag="default")
    assert (fresh["continuation"]["tag"], thread(fresh)[1]) == ("thr", 2)
    assert thread(await ask(engine, caller()))[0] == thread(outside)[0]  # not the session's, though newer


@pytest.mark.parametrize("tag", ["one:topic", "../x", "a b", "..", "x" * 65, "ä"])
async def test_an_invalid_tag_is_refused(engine: Engine, caller: Callable[..., Caller], tag: str) -> None:
    with pytest.raises(InvalidArgument, match="session tag"):
        await ask(engine, caller(), session_tag=tag)
    with pytest.raises(InvalidArgument, match="session tag"):
        await ask(engine, caller(), session="s", session_tag=tag)
