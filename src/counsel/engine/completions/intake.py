"""Turns a completion into a job, and refuses what can be refused at this point."""

from __future__ import annotations

import time

from counsel.caller import Caller
from counsel.engine.completions import compose, history
from counsel.engine.consult import fallbacks, recursion
from counsel.engine.consult.routes import Router
from counsel.engine.jobs import ids, tags
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Task
from counsel.engine.store.protocol import Store
from counsel.request_rules import check_name
from counsel.requests import CompletionRequest
from counsel.text import without_surrogates

_PROMPT = 80  # characters of the last question to store, for the job's title


async def receive(
    request: CompletionRequest,
    caller: Caller,
    router: Router,
    store: Store,
    *,
    background: bool,
    key: str | None,
) -> Job:
    recursion.check(caller)
    if fallbacks.is_chain(request.model):
        fallbacks.check(request.model, router, caller)
    elif request.model.strip().lower() != "auto":
        compose.check(request, router.route(request.model, caller))
    if request.previous is not None:
        history.with_tool_names((*await history.earlier(request.previous, store), *request.turns))
    is_kept = request.continuation_id is not None
    name = (
        check_name(request.continuation_id, "a conversation")
        if request.continuation_id is not None
        else ids.new("conv")
    )
    question = next((turn.text for turn in reversed(request.turns) if turn.role == "user" and turn.text), "")
    question = without_surrogates(question if is_kept else question[:_PROMPT])
    task = Task(
        tool="completion",
        prompt=question,
        text=question,
        models=(request.model,),
        temperature=request.temperature,
        reasoning_effort=request.reasoning_effort,
        verbosity=request.verbosity,
        use_websearch=request.web_search,
        media_resolution=request.media_resolution,
        project=tags.project(caller.cwd),
        completion=request,
        stateless=not is_kept,
    )
    return Job(ids.of_call(key), name, task, caller, background, time.time(), key, continues=is_kept)
