"""`/v1/responses/ID`: a response that is stored, whether it has ended or not."""

from __future__ import annotations

from typing import Protocol, cast

from counsel.engine.store.records import JobDetail
from counsel.errors import CounselError, NotFound
from counsel.http.v1 import api as v1
from counsel.http.v1 import responses, responses_request
from counsel.http.v1.api import Asked
from counsel.requests import CompletionRequest, Engine
from counsel.results import ChatResult
from counsel.types import Json


class Storing(Protocol):
    """An engine with the database: the real one, not one at the other end of a socket."""

    async def completion(self, job_id: str) -> tuple[CompletionRequest, JobDetail]: ...
    async def delete(self, job_id: str) -> None: ...


async def found(engine: Engine, name: str) -> tuple[Asked, JobDetail]:
    try:
        request, job = await cast(Storing, engine).completion(responses_request.job_of(name))
    except CounselError:
        raise NotFound(f"Response with id '{name}' not found.") from None
    body = request.exact.native.body if request.exact.native else {}
    echo = responses_request.echo(body, stored=True, background=job.background)
    return Asked(request=request, echo=echo, created=job.created), job


async def shown(engine: Engine, name: str) -> Json:
    asked, job = await found(engine, name)
    if job.is_open:
        return responses.open_response(asked, job.id)
    if isinstance(job.result, ChatResult):
        return responses.RESPONSES.plain(asked, job.id, v1.ended(asked, job.result))
    error = job.error or NotFound("The response has no answer.")
    refusal = v1.refused(asked, error)
    if refusal is not None:
        return responses.RESPONSES.plain(asked, job.id, refusal)
    return responses.failed(asked, job.id, error)


async def deleted(engine: Engine, name: str) -> Json:
    _, job = await found(engine, name)
    await cast(Storing, engine).delete(job.id)
    return {"id": name, "object": "response", "deleted": True}
