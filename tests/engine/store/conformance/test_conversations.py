"""Conversations: messages, search, agents' sessions, tags, titles, deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Message
from counsel.results import QuestionDetails
from support.stored import DAY, completed, fence, new_job, turn


async def say(store: Store, conversation: str, text: str = "answer", **fields: Any) -> None:
    """One turn."""
    new = new_job(conversation, **fields)
    await store.submit(new)
    await store.finish(fence(new), completed(new, text))


async def test_a_conversation_is_what_its_first_job_began(store: Store) -> None:
    new = new_job(tag="tag")
    await store.submit(new)
    conversation = await store.conversation("conversation")
    assert conversation is not None
    assert (conversation.id, conversation.tool, conversation.title) == ("conversation", "chat", new.title)
    assert (conversation.project, conversation.client, conversation.tag) == ("/project", "client", "tag")
    assert (conversation.messages, conversation.provider, conversation.model) == (0, None, None)
    await store.finish(fence(new), completed(new))
    conversation = await store.conversation("conversation")
    assert conversation is not None
    assert (conversation.messages, conversation.provider, conversation.model) == (2, "openai", "gpt-5")
    assert await store.conversation("unknown") is None


async def test_messages_are_read_as_they_were_written(store: Store) -> None:
    new = new_job()
    question = Message(
        role="user",
        text="with file",
        prompt="without",
        images=("a", "b"),
        details=QuestionDetails.from_json({"sources": [{"name": "a", "size": 1}], "é": [1]}),
        at=5.0,
        job=new.id,
    )
    await store.submit(new)
    end = completed(
        new, turn=turn(new, messages=(question, Message(role="assistant", text="answer", job=new.id)))
    )
    await store.finish(fence(new), end)
    first, second = await store.messages("conversation")
    assert first == question
    assert (second.role, second.text, second.prompt, second.images, second.details.to_json()) == (
        "assistant",
        "answer",
        None,
        (),
        {},
    )
    assert second.at > 5.0
    assert await store.conversation_size("conversation") == len("with file" + "answer")
    assert await store.conversation_size("unknown") == 0


async def test_half_characters_do_not_fail_a_write(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), completed(new, "half \ud83d"))
    assert len(await store.messages("conversation")) == 2


async def test_an_expired_conversation_does_not_exist(store: Store, later: Callable[[float], None]) -> None:
    await say(store, "conversation")
    later(31 * DAY)
    assert await store.conversation("conversation") is None
    assert await store.conversations(10) == []
    assert await store.search("answer", 10) == []


async def test_conversations_are_listed_by_their_last_use(
    store: Store, later: Callable[[float], None]
) -> None:
    for name in ("a", "b", "c", "a"):
        await say(store, name)
        later(1)
    await store.submit(new_job("without messages"))
    assert [conversation.id for conversation in await store.conversations(10)] == ["a", "c", "b"]
    assert [conversation.id for conversation in await store.conversations(1, offset=1)] == ["c"]


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        ("lighthouse", ["a", "b"]),
        ("LIGHT tide", ["a"]),
        ("tide keeper", []),
        ("100%", ["b"]),
        ("_", []),
        ("question", ["a", "b"]),
        ("nothing", []),
    ],
)
async def test_search_finds_conversations_in_which_every_word_occurs(
    store: Store, later: Callable[[float], None], words: str, hits: list[str]
) -> None:
    await say(store, "b", "The lighthouse keeper is 100% sure.")
    later(1)
    await say(store, "a", "The Lighthouse stands in the tide.")
    assert [hit.conversation.id for hit in await store.search(words, 10)] == hits


async def test_search_shows_the_newest_message_with_the_first_word(store: Store) -> None:
    await say(store, "a", "tide one")
    await say(store, "a", "tide two")
    await say(store, "b", "other", title="about the tide")
    hits = {hit.conversation.id: hit.text for hit in await store.search("tide", 10)}
    assert hits == {"a": "tide two", "b": None}
    assert len(await store.search("tide", 1)) == 1


async def test_an_agents_session_knows_how_much_it_has_seen(store: Store) -> None:
    for session in ("first", "second"):
        new = new_job()
        await store.submit(new)
        await store.finish(fence(new), completed(new, turn=turn(new, session=("codex", session))))
    agent_session = await store.agent_session("conversation", "codex")
    assert agent_session is not None
    assert (agent_session.id, agent_session.messages) == ("second", 4)
    assert await store.agent_session("conversation", "claude") is None


async def test_the_newest_tag_of_a_project_or_of_a_session(
    store: Store, later: Callable[[float], None]
) -> None:
    for tag in ("old", "new", "session:inner", "other:inner"):
        await say(store, f"conversation-{tag}", tag=tag)
        later(1)
    assert await store.newest_tag("/project") == "new"
    assert await store.newest_tag("/project", "session") == "session:inner"
    assert await store.newest_tag("/project", "sess") is None
    assert await store.newest_tag("/elsewhere") is None
    await say(store, "conversation-old", tag="old")
    assert await store.newest_tag("/project") == "old"


async def test_a_title_replaces_only_the_one_that_it_was_made_for(store: Store) -> None:
    new = new_job()
    await store.submit(new)

    async def title() -> str | None:
        conversation = await store.conversation("conversation")
        assert conversation is not None
        return conversation.title

    await store.set_title("conversation", "better", instead_of=new.title)
    assert await title() == "better"
    await store.set_title("conversation", "late", instead_of=new.title)
    assert await title() == "better"


async def test_a_deleted_conversation_takes_its_finished_jobs_along(store: Store) -> None:
    await say(store, "other")
    over, running = new_job(), new_job()
    await store.submit(over)
    await store.submit(running)
    await store.finish(fence(over), completed(over))
    assert await store.delete_conversation("conversation")
    assert await store.conversation("conversation") is None
    assert await store.messages("conversation") == []
    assert await store.existing_jobs([over.id, running.id]) == {running.id}
    assert not await store.delete_conversation("conversation")
    assert len(await store.messages("other")) == 2
