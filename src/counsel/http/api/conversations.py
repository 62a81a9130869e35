"""`/api/conversations…`: list, search, show, export and delete conversations."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from starlette.responses import Response

from counsel.engine.history.archive import Archive
from counsel.engine.store.protocol import Store
from counsel.errors import NotFound
from counsel.http.api.endpoint import FRESH, ApiCall
from counsel.request_rules import check_name

if TYPE_CHECKING:
    from counsel.engine.team.people.archive import PersonArchive


class HasArchive(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    archive: Archive
    store: Store


async def _archive(call: ApiCall) -> Archive:
    """Flush first: a client that has just seen a job's last event asks for its turn, which may not be on disk yet."""
    engine = cast(HasArchive, call.engine)
    await engine.store.flush()
    return engine.archive


async def page(call: ApiCall) -> object:
    query = call.query
    if query["shared"]:
        archive = await _team_archive(call)
        return await archive.page(query["limit"], query["q"] or "", query["cursor"], shared=True)
    return await (await _archive(call)).page(query["limit"], query["q"] or "", query["cursor"])


async def share(call: ApiCall) -> object:
    return await (await _team_archive(call)).share(call.name)


async def unshare(call: ApiCall) -> object:
    return await (await _team_archive(call)).unshare(call.name)


async def _team_archive(call: ApiCall) -> PersonArchive:
    if call.person is None:
        raise NotFound(
            "This server has no team.", hint="Set COUNSEL_DATABASE to run one for a team (docs/use/team.md)."
        )
    return cast("PersonArchive", await _archive(call))


async def show(call: ApiCall) -> object:
    return await (await _archive(call)).show(call.name)


async def delete(call: ApiCall) -> object:
    await (await _archive(call)).delete(call.name)
    return {"deleted": call.name}


async def export(call: ApiCall) -> Response:
    """The folder that `counsel conversations export` writes, as a ZIP file."""
    files = await (await _archive(call)).contents(call.name)
    name = check_name(call.name, "a file")
    data = await asyncio.to_thread(_zipped, files, name)
    headers = {**FRESH, "content-disposition": f'attachment; filename="{name}.zip"'}
    return Response(data, headers=headers, media_type="application/zip")


def _zipped(files: Mapping[str, bytes], folder: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{folder}/{name}", data)
    return target.getvalue()


async def image(call: ApiCall) -> Response:
    """An image of a conversation.

    Its type was checked when it was stored; `nosniff` keeps browsers from guessing another.
    """
    blob = await (await _archive(call)).image(call.name)
    if blob is None:
        raise NotFound(f"There is no image {call.name[:80]}.", hint="Its conversation may have been deleted.")
    headers = {
        "cache-control": "private, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(blob.data, headers=headers, media_type=blob.media_type)
