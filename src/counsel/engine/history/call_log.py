"""The log lines of each call: which model, and how it ended. Prompts and answers only if the user wants them there."""

from __future__ import annotations

import logging

from counsel import logs
from counsel.engine.consult.routes import Route
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.errors import CounselError
from counsel.types import Call, Notice

log = logging.getLogger("counsel.calls")
_FACTS = ("status", "limit", "retry_after", "reason")  # fields of a failure without user content


def asked(job: Job, route: Route, call: Call) -> None:
    if not log.isEnabledFor(logging.INFO):  # the level of questions if content is logged
        return
    log.debug("%s: %s asks %s in %s", job.id, job.caller.client, route.name, job.caller.cwd)
    _quote(job, "the question", call.turns[-1].text)


def retries(job: Job, notice: Notice) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in notice.data.items())
    log.info("%s: will be tried again: %s", job.id, facts)


def answered(job: Job, route: Route, reply: Reply) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    usage = reply.usage
    address = f"{route.provider}/{route.name}"
    log.info(
        "%s: %s: %s, %d ms, %d + %d tokens",
        job.id,
        address,
        reply.finish_reason,
        reply.ms,
        usage.input,
        usage.output,
    )
    _quote(job, "the answer", reply.text)


def failed(job: Job, route: Route, error: CounselError) -> None:
    """Log a failure. A vendor's message may repeat the prompt, so it counts as content."""
    facts = ", ".join(
        [error.code, *(f"{name} {error.fields[name]}" for name in _FACTS if name in error.fields)]
    )
    level = logging.INFO if error.code == "CANCELLED" else logging.WARNING
    log.log(level, "%s: %s/%s: %s", job.id, route.provider, route.name, facts)
    _quote(job, "the failure", error.message)


def _quote(job: Job, subject: str, text: str) -> None:
    settings = job.caller.settings
    level = logging.INFO if settings.log_content else logging.DEBUG
    if log.isEnabledFor(level):
        log.log(level, "%s: %s: %s", job.id, subject, logs.content(text, settings))
