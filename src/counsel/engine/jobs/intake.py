"""Turns a request into a job; refuses whatever can be refused before anything is sent or written."""

from __future__ import annotations

import asyncio
import hashlib
import time

from counsel import size_limits
from counsel.agents import registry
from counsel.caller import Caller
from counsel.engine.completions import intake as completions
from counsel.engine.consult import fallbacks, recursion, structured
from counsel.engine.consult.consensus import panel, terms
from counsel.engine.consult.review import intake as reviews
from counsel.engine.consult.routes import Router
from counsel.engine.context import build, server_machine
from counsel.engine.history.export_files import destination
from counsel.engine.jobs import arguments, ids, tags
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import ReviewSubject, Task
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob
from counsel.errors import InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass, replace
from counsel.request_rules import check_name
from counsel.requests import (
    DEFAULT_MODEL,
    ChatRequest,
    CompletionRequest,
    ConsensusRequest,
    Request,
    ReviewRequest,
    chain,
)
from counsel.text import counted, is_encodable, without_surrogates
from counsel.types import Image

_KINDS = {"chat": "conv", "askModel": "ask", "consensus": "consensus", "review": "review"}


@dataclass(frozen=True, slots=True)
class Arrival:
    job: Job
    image_blobs: tuple[Blob, ...]
    continues: bool  # the conversation may have turns or running jobs


async def receive(
    request: Request | CompletionRequest,
    caller: Caller,
    router: Router,
    store: Store,
    *,
    background: bool,
    key: str | None,
) -> Arrival:
    if isinstance(request, CompletionRequest):
        job = await completions.receive(request, caller, router, store, background=background, key=key)
        return Arrival(job, (), job.continues)
    request = _checked(request, caller)
    if isinstance(request, ChatRequest) and request.model.strip().lower() == DEFAULT_MODEL:
        request = replace(request, model=await _default_model(request, store, caller))
    members = _members(request, router, caller)
    models = tuple([member.model for member in members])
    if request.tools:
        await _check_tools(request, models, caller)
    export = tuple(str(path) for path in destination(request.export, caller)) if request.export else ()
    tool = arguments.tool_of(request)
    if request.continuation_id is None:
        name = ids.new(_KINDS[tool])
    else:
        name = await _conversation(request.continuation_id, store, caller)
    project = tags.project(caller.cwd)
    tag = await tags.resolve(request, caller, project, store) if tool == "askModel" else None
    context, review = await build.build_async(request, caller), None
    if isinstance(request, ReviewRequest):
        change = await asyncio.to_thread(reviews.prepare, request, caller)
        context, review = replace(context, prompt=change.text), change.about
    if isinstance(request, ConsensusRequest) and request.check_models:
        panel.check_limits(models, context, router, caller)
    image_blobs = tuple([Blob(_sha(image), image.media_type, image.data) for image in context.images])
    task = _task(
        request,
        context,
        tool=tool,
        models=models,
        images=tuple([blob.sha for blob in image_blobs]),
        export=export,
        tag=tag,
        project=project,
        review=review,
    )
    task = terms.applied(task, request, members, router, caller)
    may_continue = request.continuation_id is not None or tag is not None
    job = Job(ids.of_call(key), name, task, caller, background, time.time(), key, continues=may_continue)
    return Arrival(job, image_blobs, may_continue)


def _checked(request: Request, caller: Caller) -> Request:
    """The request with texts that vendors accept. Raises for invalid arguments."""
    request = arguments.checked(request)
    # `rpc_client` has checked this, but other programs use the socket, too
    size_limits.check(request, caller.settings)
    if not is_encodable(request.prompt):  # vendors refuse lone surrogates
        request = replace(request, prompt=without_surrogates(request.prompt))
    if request.system:
        request = replace(request, system=without_surrogates(request.system))
    if isinstance(request, ChatRequest) and request.schema is not None:
        structured.check_schema(request.schema)
    return request


def _task(
    request: Request,
    context: build.Context,
    *,
    tool: str,
    models: tuple[str, ...],
    images: tuple[str, ...],
    export: tuple[str, ...],
    tag: str | None,
    project: str,
    review: ReviewSubject | None,
) -> Task:
    """The task of any request. Built in one step: copying so many fields takes as long as handling two of a vendor's
    events."""
    return Task(
        tool=tool,
        prompt=request.prompt,
        text=context.prompt,
        models=models,
        images=images,
        export=export,
        tag=tag,
        project=project,
        review=review,
        files=tuple(map(str, context.files)),
        ranges=context.ranges,
        sources=context.sources,
        parts=context.parts,
        temperature=request.temperature,
        reasoning_effort=request.reasoning_effort,
        verbosity=request.verbosity,
        use_websearch=request.use_websearch,
        media_resolution=request.media_resolution,
        tools=request.tools,
        system=request.system,
        schema=request.schema if isinstance(request, ChatRequest) else None,
        max_cost_usd=None if request.max_cost_usd is None else float(request.max_cost_usd),
    )


async def _default_model(request: ChatRequest, store: Store, caller: Caller) -> str:
    """A conversation continues with its own model; only a new one gets the user's default."""
    name = request.continuation_id
    continues = name is not None and await store.conversation(name) is not None
    return "auto" if continues else caller.settings.default_model or "auto"


def _members(request: Request, router: Router, caller: Caller) -> tuple[panel.Member, ...]:
    members = _checked_members(request, router, caller)
    if caller.person is not None:
        server_machine.check(request)
    return members


def _checked_members(request: Request, router: Router, caller: Caller) -> tuple[panel.Member, ...]:
    if isinstance(request, ChatRequest):
        if fallbacks.is_chain(request.model):
            fallbacks.check(request.model, router, caller)
        elif request.model.lower() == "auto":
            recursion.check(caller)
        else:
            router.route(request.model, caller)
        return (panel.Member(request.model),)
    members = panel.choose(request, router, caller)
    if chain_name := next((member.model for member in members if fallbacks.is_chain(member.model)), None):
        raise InvalidArgument(
            f"A member of a consensus is one model, not {chain_name[:80]!r}.",
            hint="Nothing was sent. Name each model on its own; chains are for `chat` and `askModel`.",
        )
    if request.check_models:
        panel.check_names(tuple(member.model for member in members), router, caller)
    return members


async def _check_tools(request: Request, models: tuple[str, ...], caller: Caller) -> None:
    """Check the shared servers, unless all models are agents, which use their own."""
    if not all(registry.resolve(name) for model in models for name in chain(model)):
        from counsel.engine.tools import choose  # imports the modules of agents, which few calls need

        await asyncio.to_thread(choose.choose, request.tools, caller)


async def _conversation(continuation: str, store: Store, caller: Caller) -> str:
    """The name of a conversation that the caller continues, or begins under a name of its own."""
    name = check_name(continuation, "a conversation", ", or leave continuation_id out")
    if ids.is_ours(name) and await store.conversation(name) is None:
        raise NotFound(
            f"There is no conversation {name}.",
            hint=f"It may be mistyped, deleted, or older than {counted(caller.settings.conversation_days, 'day')}. "
            "`counsel conversations list` shows what is there; leave continuation_id out to start afresh.",
        )
    size_limits.check_history(await store.conversation_size(name), caller.settings)
    return name


def _sha(image: Image) -> str:
    return hashlib.sha256(image.data).hexdigest()
