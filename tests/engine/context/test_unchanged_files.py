"""A file that has not changed is not sent again in the same conversation; every model still sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.store.model import Task
from counsel.errors import CounselError
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI

LONG = "".join(f"line {number} of the file\n" for number in range(200))


@pytest.fixture
def brief_answer(fake_api: FakeAPI) -> None:
    """An answer that repeats no part of the question."""
    fake_api.script(text="seen", times=None)


async def ask(engine: Engine, caller: Caller, conversation: Any = None, **fields: Any) -> Any:
    fields = {
        "prompt": "look",
        "model": "gpt-5",
        "files": ("f.txt",),
        "continuation_id": conversation,
        **fields,
    }
    return (await engine.wait(await engine.submit(ChatRequest(**fields), caller))).to_json()


def last(fake_api: FakeAPI) -> str:
    return json.dumps(fake_api.log.requests[-1].body, ensure_ascii=False)


@pytest.mark.usefixtures("brief_answer")
async def test_an_unchanged_file_is_sent_once_and_a_note_says_where(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    first = await ask(engine, caller())
    name = first["continuation"]["id"]
    os.utime(project / "f.txt", (1, 1))  # touched, not changed
    second = await ask(engine, caller(), name)
    assert last(fake_api).count("line 7 of the file") == 1
    assert "f.txt is unchanged since turn 1" in last(fake_api)
    assert second["metadata"]["files"][0]["unchanged_since_turn"] == 1
    texts = [message.text for message in await engine.store.messages(name) if message.role == "user"]
    assert [text.partition("<file ")[0] for text in texts] == ["look\n\n<files>\n"] * 2
    await ask(engine, caller(), name)
    assert last(fake_api).count("line 7 of the file") == 1
    assert last(fake_api).count("unchanged since turn 1") == 2


@pytest.mark.usefixtures("brief_answer")
async def test_a_changed_file_is_sent_again_also_when_it_was_changed_back(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    name = (await ask(engine, caller()))["continuation"]["id"]
    (project / "f.txt").write_text("new\n")
    assert "unchanged_since_turn" not in (await ask(engine, caller(), name))["metadata"]["files"][0]
    (project / "f.txt").write_text(LONG)
    await ask(engine, caller(), name)
    assert last(fake_api).count("line 7 of the file") == 2
    assert "unchanged since" not in last(fake_api)


@pytest.mark.usefixtures("brief_answer")
async def test_only_the_same_lines_of_the_same_file_count(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    (project / "g.txt").write_text(LONG)
    name = (await ask(engine, caller(), files=("f.txt{1:10}",)))["continuation"]["id"]
    await ask(engine, caller(), name, files=("f.txt", "g.txt", "f.txt{1:10}"))
    assert last(fake_api).count("line 7 of the file") == 3
    assert last(fake_api).count("unchanged since turn 1") == 1


@pytest.mark.usefixtures("brief_answer")
async def test_another_model_another_process_and_a_consensus_have_it_in_their_history(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    engine = await open_engine(home)
    name = (await ask(engine, caller()))["continuation"]["id"]
    await engine.close()
    engine = await open_engine(home)
    await ask(engine, caller(), name, model="sonnet")
    assert last(fake_api).count("line 7 of the file") == 1
    request = ConsensusRequest(
        prompt="which?", models=("gpt-5", "sonnet"), files=("f.txt",), continuation_id=name
    )
    await engine.wait(await engine.submit(request, caller()))
    assert all(str(request_.body).count("line 7 of the file") == 1 for request_ in fake_api.log.requests[-4:])
    await engine.close()


async def test_a_turn_that_failed_has_sent_nothing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    name = (await ask(engine, caller(), files=()))["continuation"]["id"]
    fake_api.script(status=400)
    with pytest.raises(CounselError):
        await ask(engine, caller(), name)
    await ask(engine, caller(), name)
    assert last(fake_api).count("line 7 of the file") == 1
    assert "unchanged since" not in last(fake_api)


async def test_another_conversation_knows_nothing_of_it(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "f.txt").write_text(LONG)
    await ask(engine, caller())
    await ask(engine, caller())
    assert "unchanged since" not in last(fake_api)


def test_a_task_of_an_older_release_has_no_parts() -> None:
    assert Task.load('{"tool": "chat", "prompt": "p", "models": ["m"]}').parts == ()
