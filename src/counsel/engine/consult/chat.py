"""`chat`: asks one model, or with `auto` the first one that can answer."""

from __future__ import annotations

from counsel.engine import results
from counsel.engine.consult import fallbacks, structured
from counsel.engine.consult.auto_chain import AutoChain, another_may_answer
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route, Router
from counsel.engine.context import conversation, tokens, unchanged_files
from counsel.engine.context.conversation import History
from counsel.engine.jobs import tags
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Message
from counsel.errors import CounselError, ModelNotFound, SelfConsultation, Unavailable
from counsel.lazy_dataclass import replace
from counsel.models.auto import Needs
from counsel.results import (
    AnswerDetails,
    AnswerMetadata,
    AnswerNotice,
    ChatResult,
    Continuation,
    PassedOver,
    QuestionDetails,
)

SLOT = "0"


async def run(consultation: Consultation, router: Router, store: Store, cache: AnswerCache) -> Outcome:
    job = consultation.job
    history = await conversation.load(store, job)
    job.task = unchanged_files.without_unchanged(job.task, history.messages)
    candidates, skipped = await routes(job, router, history, store)
    if job.attempt > 1:
        candidates = await _stored_answer_first(consultation, candidates)
    chain = AutoChain(candidates, skipped)
    reply, passed_over = await _first_answer(consultation, chain, history, store, cache)
    metadata = results.metadata(reply)
    if job.task.sources:
        metadata = replace(metadata, files=job.task.sources)
    if job.task.models[0].lower() == "auto" and reply.model in members(history):
        note = AnswerNotice("member", f"{reply.model} answers because it took part in the consensus.")
        metadata = replace(metadata, notices=(*metadata.notices, note))
    if passed_over:
        cost = _total_cost(reply, passed_over)
        metadata = replace(metadata, passed_over=tuple(passed_over), cost_usd=cost)
    return Outcome(
        status="completed",
        result=_result(job, reply, metadata),
        messages=turn(
            job,
            reply.text,
            AnswerDetails(answer=metadata, has_thinking=consultation.live.slots[SLOT].thought > 0),
        ),
        completed=1,
        provider=reply.provider,
        model=reply.model,
        session=(reply.provider, reply.session) if reply.session else None,
        text=reply.text,
    )


async def routes(
    job: Job, router: Router, history: History, store: Store
) -> tuple[list[Route], list[PassedOver]]:
    """The routes to try, in order, and the names in a chain that cannot be asked.

    The routes are the model by name, or those of the chain; for `auto`, the conversation's last model, then all others.
    """
    name = job.task.models[0]
    if fallbacks.is_chain(name):
        candidates, failures = fallbacks.resolve(name, router, job.caller, needs(job, history))
        if not candidates:
            raise fallbacks.combined_error(failures)
        return candidates, fallbacks.passed_over(failures)
    if name.lower() != "auto":
        return [router.route(name, job.caller)], []
    record = await store.conversation(job.conversation)
    names = [record.model] if record and record.model else members(history)
    own = [route for route in (_usable_route(name, job, router) for name in names) if route]
    try:
        alternatives = router.auto(job.caller, needs(job, history))
    except CounselError:
        if not own:
            raise
        alternatives = []
    own_names = {route.name for route in own}
    return [*own, *(route for route in alternatives if route.name not in own_names)], []


def members(history: History) -> list[str]:
    """The models of the last answer if it was a consensus: a chat that names no model continues with one of them."""
    last = next((message for message in reversed(history.messages) if message.role == "assistant"), None)
    answers = last.details.members if last and isinstance(last.details, AnswerDetails) else ()
    return list(dict.fromkeys(member.model for member in answers))


def _usable_route(name: str | None, job: Job, router: Router) -> Route | None:
    try:
        return router.route(name, job.caller) if name else None
    except (ModelNotFound, Unavailable, SelfConsultation):  # its key is gone, or it is the caller itself
        return None


def needs(job: Job, history: History) -> Needs:
    earlier = sum(tokens.estimate(message.text) for message in history.messages)
    return Needs(
        vision=bool(job.task.images) or history.has_images(),
        web_search=job.task.use_websearch,
        tokens=earlier + tokens.estimate(job.task.text),
        tools=bool(job.task.tools),
    )


async def _stored_answer_first(consultation: Consultation, candidates: list[Route]) -> list[Route]:
    """The candidates, beginning with those whose answer is stored since an earlier attempt."""
    replies = {
        route.name: await consultation.stored_reply(_step(consultation.job, route).key)
        for route in candidates
    }
    return sorted(candidates, key=lambda route: replies[route.name] is None)


async def _first_answer(
    consultation: Consultation, chain: AutoChain, history: History, store: Store, cache: AnswerCache
) -> tuple[Reply, list[PassedOver]]:
    while route := chain.next():
        try:
            call = await conversation.compose_async(consultation.job, history, route, store)
            if chain.retry_deadline is not None:
                call = replace(call, retry_deadline=chain.retry_deadline)
            step = _step(consultation.job, route)
            reply = await cache.ask(consultation, step, route, call)
            if consultation.job.task.schema is not None:
                reply = await structured.valid_reply(consultation, step, route, call, reply)
        except CounselError as error:
            if not another_may_answer(error):
                raise
            chain.record_failure(route, error)
            if next_route := chain.next():
                report_failure(consultation, route, error, next_route)
        else:
            return reply, chain.passed_over()
    raise chain.error()


def _total_cost(reply: Reply, passed_over: list[PassedOver]) -> float | None:
    """The cost of the job including failed calls; None if it is not known completely."""
    costs = [reply.usage.cost_usd, *(failure.spent.cost_usd for failure in passed_over if failure.spent)]
    return None if None in costs else round(sum(cost for cost in costs if cost), 10)


def report_failure(consultation: Consultation, route: Route, error: CounselError, next_route: Route) -> None:
    if consultation.live.slots[SLOT].length:
        consultation.live.restart(
            SLOT, "failed", error.message, model=route.name, after=next_route.name, code=error.code
        )
    else:
        consultation.live.notice(SLOT, "passed_over", f"{route.name}: {error.message}")


def _step(job: Job, route: Route) -> Step:
    """The step that asks this model. The transport limits each request; all requests of a tool loop share one limit."""
    key = f"answer:{route.name}"
    if not job.task.tools or route.is_agent:
        return Step(
            key, SLOT, "answer", last=job.task.schema is None
        )  # with a schema, a correction may follow
    hint = "Ask a narrower question, share fewer tools, or raise REQUEST_TIMEOUT_MS."
    return Step(
        key,
        SLOT,
        "answer",
        job.caller.settings.request_timeout_ms / 1000,
        last=job.task.schema is None,
        hint=hint,
    )


def turn(job: Job, text: str, details: AnswerDetails) -> tuple[Message, ...]:
    task = job.task
    prompt = task.prompt if task.prompt != task.text else None
    question = QuestionDetails(
        sources=task.sources,
        settings=task.settings(),
        files_sent={part.key: part.sha for part in task.parts},
    )
    return (
        Message(
            role="user",
            text=task.text,
            prompt=prompt,
            images=task.images,
            details=question,
            at=job.created,
            job=job.id,
        ),
        Message(role="assistant", text=text, details=details, job=job.id),
    )


def _result(job: Job, reply: Reply, metadata: AnswerMetadata) -> ChatResult:
    return ChatResult(
        content=reply.text,
        continuation=Continuation(
            id=job.conversation,
            provider=reply.provider,
            model=reply.model,
            tag=tags.shown(job.task.tag) if job.task.tag else None,
        ),
        metadata=metadata,
        job_id=job.id,
    )
