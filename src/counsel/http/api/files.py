"""`POST /api/files`: stores a file for `files` of a question."""

from __future__ import annotations

import asyncio

from counsel import resource_errors
from counsel.engine.context import uploads
from counsel.errors import FileTooLarge, Internal, InvalidArgument
from counsel.http.api.endpoint import ApiCall

_PIECE = 1 << 20  # bytes that are written at once


async def add(call: ApiCall) -> object:
    if not call.query["name"]:
        raise InvalidArgument("name is missing: the file's name, with its ending.")
    settings = call.settings
    limit = max(settings.max_file_bytes, settings.max_pdf_bytes, settings.max_image_bytes)
    try:
        await asyncio.to_thread(uploads.sweep, settings.home)
        upload = await asyncio.to_thread(uploads.create, settings.home, call.query["name"])
        try:
            size = await _receive(call, upload, limit)
        except BaseException:
            upload.discard()
            raise
    except OSError as error:
        lack = resource_errors.failure(error, "The file could not be stored")
        raise lack or Internal(f"The file could not be stored: {error.strerror}.") from error
    upload.file.close()
    if size > limit:
        upload.discard()
        raise FileTooLarge(
            f"The file is larger than {limit:,} bytes.",
            hint="Send a part of it, or raise COUNSEL_MAX_FILE_BYTES or COUNSEL_MAX_PDF_BYTES.",
            limit=limit,
        )
    return {"path": str(upload.path), "size": size}


async def _receive(call: ApiCall, upload: uploads.Upload, limit: int) -> int:
    """Store no more than the limit, but read the rest too: a client that still sends does not read an answer."""
    size, buffer = 0, bytearray()
    async for part in call.request.stream():
        size += len(part)
        if size <= limit:
            buffer += part
        if len(buffer) >= _PIECE:
            await asyncio.to_thread(upload.file.write, bytes(buffer))
            buffer.clear()
    await asyncio.to_thread(upload.file.write, bytes(buffer))
    return size
