"""`POST /api/images`: stores an image in the project, like `counsel images add`."""

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
        return await run_in_threadpool(_store, data, project, settings)

    return [Route("/api/images", answering(add), methods=["POST"])]


def _store(data: bytes, project: Path, settings: Settings) -> Any:
    image = images.checked(data, "the image", settings)
    return store.described(image, store.keep(project, image))


def _project(request: Request) -> Path:
    folder = Path(request.query_params.get("project") or Path.cwd())
    if not folder.is_absolute() or not folder.is_dir():
        raise InvalidArgument("project must be the absolute path of a folder on this machine.")
    return folder


async def _received(request: Request, limit: int) -> bytes:
    """Keep no more than the limit, but read the rest too: a client that still sends does not read an answer."""
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
