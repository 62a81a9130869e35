"""`/v1/responses/ID`: a response that is stored, whether it has ended or not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, cast

from counsel import json_reader as read
from counsel.engine.store.records import JobDetail
from counsel.errors import CounselError, NotFound
from counsel.http.v1 import api as v1
from counsel.http.v1 import reading, responses, responses_request, responses_tools
from counsel.http.v1.api import Asked
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest, Engine
from counsel.results import ChatResult

MOST_ITEMS = 100  # of one page


class Storing(Protocol):
    """An engine with the database: the real one, not one at the other end of a socket."""

    async def completion(self, job_id: str) -> tuple[CompletionRequest, JobDetail]: ...
    async def delete(self, job_id: str) -> None: ...


async def lookup(engine: Engine, name: str) -> tuple[Asked, JobDetail]:
    try:
        request, job = await cast(Storing, engine).completion(responses_request.job_of(name))
    except CounselError:
        raise NotFound(f"Response with id '{name}' not found.") from None
    body = dict(request.exact.native.body) if request.exact.native else {}
    if request.previous is not None:
        body["previous_response_id"] = f"resp_{request.previous.partition('_')[2]}"
    elif request.continuation_id is not None:
        body["conversation"] = request.continuation_id
    echo = responses_request.echo(body, stored=True, background=job.background)
    tools = responses_tools.read(body).renamed
    asked = Asked(request=request, echo=echo, created=job.created, finished=job.finished, tools=tools)
    return asked, job


async def document(engine: Engine, name: str) -> dict[str, object]:
    asked, job = await lookup(engine, name)
    if job.is_open:
        return responses.open_response(asked, job.id)
    if isinstance(job.result, ChatResult):
        return responses.RESPONSES.plain(asked, job.id, v1.ended(asked, job.result))
    error = job.error or NotFound("The response has no answer.")
    refusal = v1.refused(asked, error)
    if refusal is not None:
        return responses.RESPONSES.plain(asked, job.id, refusal)
    return responses.failed(asked, job.id, error)


async def with_items(engine: Engine, body: dict[str, object]) -> dict[str, object]:
    """A request's body with the stored items that it refers to by their ids."""
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
    """What a response was asked, the newest item first, as OpenAI lists it."""
    asked, _ = await lookup(engine, name)
    native = asked.request.exact.native
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


async def deleted(engine: Engine, name: str) -> dict[str, object]:
    _, job = await lookup(engine, name)
    await cast(Storing, engine).delete(job.id)
    return {"id": name, "object": "response", "deleted": True}
