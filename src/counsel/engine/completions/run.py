"""`completion`: the call of a client that speaks OpenAI's or Anthropic's API."""

from __future__ import annotations

from counsel.engine import results
from counsel.engine.completions import compose, history
from counsel.engine.consult import chat, fallbacks
from counsel.engine.consult.auto_chain import AutoChain, another_may_answer
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route, Router
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.errors import Cancelled, CounselError
from counsel.lazy_dataclass import replace
from counsel.requests import CompletionRequest
from counsel.results import AnswerDetails, ChatResult, Continuation, PassedOver


async def run(consultation: Consultation, router: Router, store: Store, _: AnswerCache) -> Outcome:
    job = consultation.job
    if job.task.completion is None:
        raise Cancelled(
            "The server stopped during this call, and its messages were not stored.",
            hint="Send it again. Calls with `background`, `store` or an Idempotency-Key continue by themselves.",
        )
    request = await history.with_earlier(job.task.completion, job, store)
    candidates, unusable = routes(request, job, router)
    reply, failures = await _first_answer(consultation, candidates, request)
    metadata = replace(results.metadata(reply), passed_over=(*unusable, *failures))
    is_kept = request.continuation_id is not None
    return Outcome(
        status="completed",
        result=ChatResult(
            content=reply.text,
            continuation=Continuation(id=job.conversation, provider=reply.provider, model=reply.model),
            metadata=metadata,
            job_id=job.id,
            parts=reply.parts,
            stopped_by=reply.vendor.get("stop_sequence"),
        ),
        messages=chat.turn(job, reply.text, AnswerDetails(answer=metadata)) if is_kept else (),
        completed=1,
        provider=reply.provider,
        model=reply.model,
        text=reply.text,
    )


def routes(request: CompletionRequest, job: Job, router: Router) -> tuple[list[Route], list[PassedOver]]:
    """The models to try, and the models of a chain that cannot be asked."""
    if fallbacks.is_chain(request.model):
        candidates, failures = fallbacks.resolve(request.model, router, job.caller, compose.needs(request))
        if not candidates:
            raise fallbacks.combined_error(failures)
        return candidates, fallbacks.passed_over(failures)
    if request.model.strip().lower() == "auto":
        return router.auto(job.caller, compose.needs(request)), []
    return [router.route(request.model, job.caller)], []


async def _first_answer(
    consultation: Consultation, candidates: list[Route], request: CompletionRequest
) -> tuple[Reply, list[PassedOver]]:
    chain = AutoChain(candidates)
    while route := chain.next():
        step = Step(f"answer:{route.name}", chat.SLOT, "answer", last=True, may_be_empty=len(candidates) == 1)
        try:
            call = replace(compose.compose(request, route), retry_deadline=chain.retry_deadline)
            reply = await consultation.ask(step, route, call)
        except CounselError as error:
            # Text that a client has read cannot be withdrawn.
            is_read = request.is_streamed and consultation.live.slots[chat.SLOT].is_read
            if is_read or not another_may_answer(error):
                raise
            chain.record_failure(route, error)
            if next_route := chain.next():
                chat.report_failure(consultation, route, error, next_route)
        else:
            return reply, chain.passed_over()
    raise chain.error()
