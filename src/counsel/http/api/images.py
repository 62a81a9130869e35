"""`POST /api/images`: stores an image in the project, like `counsel images add`."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from counsel.agents import images as store
from counsel.engine.context import images
from counsel.errors import FileTooLarge
from counsel.http.api.endpoint import ApiCall, folder
from counsel.settings import Settings


async def add(call: ApiCall) -> object:
    project = folder(call.query["project"]) if call.query["project"] else Path.cwd()
    data = await _read_body(call.request, call.settings.max_image_bytes)
    return await run_in_threadpool(_store, data, project, call.settings)


def _store(data: bytes, project: Path, settings: Settings) -> object:
    image = images.checked(data, "the image", settings)
    return store.image_json(image, store.keep(project, image))


async def _read_body(request: Request, limit: int) -> bytes:
    """Keep no more than the limit, but read the rest, too: a client does not read the response while it is sending."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
    if size > limit:
        hint = "Send a smaller image, or raise COUNSEL_MAX_IMAGE_BYTES."
        raise FileTooLarge(f"The image is larger than {limit:,} bytes.", hint=hint, limit=limit)
    return b"".join(parts)
