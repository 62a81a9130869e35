"""`POST /api/images`: a picture's bytes into the project's store, as `counsel images add` puts them there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from counsel.agents import images as store
from counsel.engine.context import images
from counsel.errors import FileTooLarge, InvalidArgument
from counsel.http.api.routes import answering
from counsel.requests import Engine
from counsel.settings import Settings


def routes(_engine: Engine, settings: Settings) -> list[BaseRoute]:
    async def add(request: Request) -> Any:
        project = _project(request)
        data = await _received(request, settings.max_image_bytes)
        return await run_in_threadpool(_kept, data, project, settings)

    return [Route("/api/images", answering(add), methods=["POST"])]


def _kept(data: bytes, project: Path, settings: Settings) -> Any:
    image = images.checked(data, "the picture", settings)
    return store.described(image, store.keep(project, image))


def _project(request: Request) -> Path:
    folder = Path(request.query_params.get("project") or Path.cwd())
    if not folder.is_absolute() or not folder.is_dir():
        raise InvalidArgument("project must be a folder on this machine, with its whole path.")
    return folder


async def _received(request: Request, limit: int) -> bytes:
    """No more is kept than a picture may have; the rest is read all the same: who still sends hears no answer."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
    if size > limit:
        hint = "Send a smaller picture, or raise COUNSEL_MAX_IMAGE_BYTES."
        raise FileTooLarge(f"The picture is larger than {limit:,} bytes.", hint=hint, limit=limit)
    return b"".join(parts)
