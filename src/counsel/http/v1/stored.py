"""`/v1/responses/ID`: a stored response, whether it has ended or not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, cast

from counsel import json_reader as read
from counsel.engine.store.records import JobDetail
from counsel.errors import CounselError, NotFound
from counsel.http.v1 import api as v1
from counsel.http.v1 import reading, responses, responses_request, responses_tools
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest, Engine
from counsel.results import ChatResult

MOST_ITEMS = 100  # of one page


class Storing(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    async def completion(self, job_id: str) -> tuple[CompletionRequest, JobDetail]: ...
    async def delete(self, job_id: str) -> None: ...


async def lookup(engine: Engine, name: str) -> tuple[ApiRequest, JobDetail]:
    try:
        completion, job = await cast(Storing, engine).completion(responses_request.job_of(name))
    except CounselError:
        raise NotFound(f"Response with id '{name}' not found.") from None
    body = dict(completion.exact.native.body) if completion.exact.native else {}
    if completion.previous is not None:
        body["previous_response_id"] = f"resp_{completion.previous.partition('_')[2]}"
    elif completion.continuation_id is not None:
        body["conversation"] = completion.continuation_id
    echo = responses_request.echo(body, stored=True, background=job.background)
    tools = responses_tools.read(body).client_tools
    request = ApiRequest(
        completion=completion, echo=echo, created=job.created, finished=job.finished, client_tools=tools
    )
    return request, job


async def document(engine: Engine, name: str) -> dict[str, object]:
    request, job = await lookup(engine, name)
    if job.is_open:
        return responses.open_response(request, job.id)
    if isinstance(job.result, ChatResult):
        return responses.RESPONSES.plain(request, job.id, v1.answer_of(request, job.result))
    error = job.error or NotFound("The response has no answer.")
    refusal = v1.refusal(request, error)
    if refusal is not None:
        return responses.RESPONSES.plain(request, job.id, refusal)
    return responses.failed_response(request, job.id, error)


async def with_items(engine: Engine, body: dict[str, object]) -> dict[str, object]:
    """A request's body, with the stored items in place of their ids."""
    references = responses_request.references(body)
    if not references:
        return body
    items: dict[str, dict[str, object]] = {}
    for job in dict.fromkeys(references.values()):
        with suppress(CounselError):
            response = await document(engine, f"resp_{job.partition('_')[2]}")
            items |= {read.text(item, "id"): item for item in read.parts(response, "output")}
    for name in references:
        if name not in items and not name.startswith("rs_"):
            raise NotFound(
                f"Item with id '{name}' not found. Items are not persisted when `store` is set to false.",
                hint="Remove this item from your input, or send the item itself.",
                param="input",
            )
    return responses_request.with_items(body, items)


async def input_items(engine: Engine, name: str, query: Mapping[str, str]) -> dict[str, object]:
    """The input of a response as OpenAI lists it, the newest item first."""
    request, _ = await lookup(engine, name)
    native = request.completion.exact.native
    items = responses_request.input_items(native.body if native else {}, name.partition("_")[2])
    if reading.choice(query.get("order", "desc"), ("asc", "desc"), "order") == "desc":
        items.reverse()
    if after := query.get("after"):
        names = [item["id"] for item in items]
        if after not in names:
            raise BadRequest(f"Item with id '{after[:100]}' not found.", "after", "invalid_value")
        items = items[names.index(after) + 1 :]
    limit = query.get("limit", "20")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:4]) <= MOST_ITEMS):
        raise BadRequest(f"'limit' must be from 1 to {MOST_ITEMS}.", "limit", "invalid_value")
    page = items[: int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(page) < len(items),
    }


async def delete(engine: Engine, name: str) -> dict[str, object]:
    _, job = await lookup(engine, name)
    await cast(Storing, engine).delete(job.id)
    return {"id": name, "object": "response", "deleted": True}
