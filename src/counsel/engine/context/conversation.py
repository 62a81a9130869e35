"""Builds the turns to send to a model from the stored conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from counsel.engine.consult import prompts
from counsel.engine.consult.routes import Route
from counsel.engine.context import tokens
from counsel.engine.context.images import fit
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Task
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import AgentSession, Message
from counsel.errors import Internal, Refused
from counsel.lazy_dataclass import dataclass, replace
from counsel.text import is_blank
from counsel.types import Call, Image, Model, Turn


@dataclass(frozen=True, slots=True)
class History:
    """A conversation before the new question, with the images of both."""

    messages: tuple[Message, ...]
    images: dict[str, Image]

    @property
    def count(self) -> int:
        return len(self.messages)

    def has_images(self) -> bool:
        return any(message.images for message in self.messages)


async def load(store: Store, job: Job) -> History:
    messages = tuple(await store.messages(job.conversation)) if job.continues else ()
    shas = set(job.task.images).union(*(message.images for message in messages))
    if not shas:
        return History(messages, {})
    blobs = await store.blobs(shas)
    images = {sha: Image(blob.media_type, blob.data, name=sha[:12]) for sha, blob in blobs.items()}
    return History(messages, images)


async def compose_async(job: Job, history: History, route: Route, store: Store) -> Call:
    """Like `compose`, but scales images in a thread, since scaling takes time."""
    session = None if route.model else await store.agent_session(job.conversation, route.provider)
    if history.images:
        return await asyncio.to_thread(compose, job, history, route, session)
    return compose(job, history, route, session)


def compose(job: Job, history: History, route: Route, session: AgentSession | None) -> Call:
    """The call for one model. Raises `ContextLengthExceeded` or `InvalidArgument` before anything is sent."""
    task = job.task
    call = Call(
        turns=(*turns(history, route.model), _question(job, history, route)),
        system=_system(task),
        model_settings=task.model_settings,
        schema=task.schema,
    )
    if route.model is not None:
        size = tokens.check_window(call, route.model)
        return replace(call, tokens=size)
    return _for_agent(call, job, history, session)


def _system(task: Task) -> str:
    own = _own_system(task)
    if task.system is not None:
        return own or ""
    return f"{prompts.CONSULTED}\n\n{own}" if own else prompts.CONSULTED


def _own_system(task: Task) -> str | None:
    """The caller's part of the system prompt: its own text, and its schema."""
    parts = [task.system, prompts.structured(task.schema) if task.schema is not None else None]
    return "\n\n".join(filter(None, parts)) or None


def _question(job: Job, history: History, route: Route) -> Turn:
    images = _fitting(job.task.images, history, route.model)
    if len(images) < len(job.task.images):
        raise Internal(
            "An image of this question is missing from the database.", hint="Ask again with the image."
        )
    if images and route.model and not route.model.vision:
        raise Refused(
            f"{route.name} cannot see images.",
            hint="Ask a model that can (`counsel models` lists them), or leave the images out.",
            model=route.name,
        )
    return Turn("user", job.task.text, images)


def turns(history: History, model: Model | None) -> list[Turn]:
    has_vision = model is None or model.vision
    return [
        Turn(message.role, _readable(message), _fitting(message.images, history, model))
        if has_vision or not message.images
        else Turn(message.role, message.text + prompts.unseen(len(message.images)))
        for message in history.messages
    ]


def _readable(message: Message) -> str:
    """The message's text, with a placeholder for empty answers, which older releases stored: no vendor accepts them,
    and many require alternating roles."""
    return prompts.NO_ANSWER if message.role == "assistant" and is_blank(message.text) else message.text


def _fitting(shas: Sequence[str], history: History, model: Model | None) -> tuple[Image, ...]:
    if not shas:
        return ()
    images = [history.images[sha] for sha in shas if sha in history.images]
    return tuple(fit(image, model) if model else image for image in images)


def _for_agent(call: Call, job: Job, history: History, session: AgentSession | None) -> Call:
    """The call for an agent, which reads files itself and continues its own session with the turns that it missed."""
    new_turns = list(call.turns)
    new_turns[-1] = replace(new_turns[-1], text=job.task.prompt)
    if session and session.messages < history.count:
        missed_turns = [(message.role, message.text) for message in history.messages[session.messages :]]
        new_turns[-1] = replace(new_turns[-1], text=prompts.missed_turns(missed_turns) + new_turns[-1].text)
    return replace(
        call,
        turns=tuple(new_turns),
        system=_own_system(job.task),
        cwd=job.caller.cwd,
        files=tuple(Path(path) for path in job.task.files),
        ranges=job.task.ranges,
        session=session.id if session else None,
    )
