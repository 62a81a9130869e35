"""Spans of jobs and their calls to models. Prompts and answers only if OpenTelemetry's own variable asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from counsel import request_context, strict_json, tracing
from counsel.engine.consult.routes import Route
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.errors import CounselError
from counsel.redaction import redact
from counsel.tracing import Span, Value
from counsel.tracing import span_names as names
from counsel.types import Call


def of_job(job: Job) -> Span:
    """Start the job's span; everything that this task does from now on is below it."""
    request_context.enter(job.request)
    if not tracing.is_on():
        return tracing.NO_SPAN
    attributes: dict[str, Value] = {
        names.JOB: job.id,
        names.TOOL: job.tool,
        names.ATTEMPT: job.attempt,
        names.CONVERSATION: job.conversation,
    }
    if job.request.id:
        attributes[names.REQUEST] = job.request.id
    if job.caller.person is not None:
        attributes[names.PERSON] = job.caller.person.id
    span = tracing.start(f"job {job.tool}", "internal", attributes)
    tracing.enter(span)
    return span


def of_call(job: Job, route: Route, call: Call) -> Span:
    if not tracing.is_on():
        return tracing.NO_SPAN
    operation = names.INVOKE_AGENT if route.is_agent else names.CHAT
    attributes: dict[str, Value] = {
        names.OPERATION: operation,
        names.PROVIDER: names.PROVIDERS.get(route.provider, route.provider),
        names.JOB: job.id,
        names.CONVERSATION: job.conversation,
        (names.AGENT if route.is_agent else names.REQUEST_MODEL): route.name,
    }
    if tracing.records_content():
        attributes[names.INPUT] = _messages((turn.role, turn.text) for turn in call.turns)
        if call.system:
            attributes[names.SYSTEM] = strict_json.dumps([{"type": "text", "content": redact(call.system)}])
    return tracing.start(f"{operation} {route.name}", "client", attributes)


def answered(span: Span, reply: Reply) -> None:
    if span is not tracing.NO_SPAN:
        attributes: dict[str, Value] = {
            names.RESPONSE_MODEL: reply.vendor_model or reply.model,
            names.FINISH_REASONS: [reply.finish_reason],
            names.INPUT_TOKENS: reply.usage.input,
            names.OUTPUT_TOKENS: reply.usage.output,
        }
        if reply.usage.cost_usd is not None:
            attributes[names.COST] = reply.usage.cost_usd
        if tracing.records_content():
            attributes[names.OUTPUT] = _messages([("assistant", reply.text)])
        span.set(attributes)
    span.end()


def failed(span: Span, error: CounselError) -> None:
    """End the span with the error's code alone, as a vendor's message may repeat the prompt."""
    span.end(error.code)


def _messages(turns: Iterable[tuple[str, str]]) -> str:
    return strict_json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": redact(text)}]} for role, text in turns]
    )
