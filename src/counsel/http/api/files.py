"""`POST /api/files`: stores a file for `files` of a question."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from counsel import resource_errors
from counsel.caller import Caller
from counsel.engine.context import uploads
from counsel.engine.store.protocol import Uploads
from counsel.errors import CounselError, FileTooLarge, Internal, InvalidArgument, NotFound, NotPermitted
from counsel.http.api.endpoint import ApiCall, refused
from counsel.http.envelope import RefusedRequest
from counsel.requests import Engine

_PIECE = 1 << 20  # bytes that are written at once


async def add(call: ApiCall) -> object:
    if not call.query["name"]:
        raise InvalidArgument("name is missing: the file's name, with its ending.")
    settings = call.settings
    limit = max(settings.max_file_bytes, settings.max_pdf_bytes, settings.max_image_bytes)
    if (shared := shared_uploads(call.engine)) is not None:
        return await _share(call, shared, limit)
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
        raise _too_large(limit)
    return {"path": str(upload.path), "size": size}


def _too_large(limit: int) -> FileTooLarge:
    return FileTooLarge(
        f"The file is larger than {limit:,} bytes.",
        hint="Send a part of it, or raise COUNSEL_MAX_FILE_BYTES or COUNSEL_MAX_PDF_BYTES.",
        limit=limit,
    )


# ── several servers ──────────────────────────────────────────────────────────────────────────────────

PATH = "/uploads"  # a file in the database has a path of this folder, which no server has
_SHARED = re.compile(rf"{PATH}/([0-9a-f]{{32}})/[^/{{]*").match


class HasUploads(Protocol):
    """An engine with the database: the real one, not one at the other end of a socket."""

    @property
    def uploads(self) -> Uploads | None: ...


def shared_uploads(engine: Engine) -> Uploads | None:
    return cast(HasUploads, engine).uploads


async def _share(call: ApiCall, shared: Uploads, limit: int) -> dict[str, object]:
    """Store a file in the database: the question that names it may reach another server."""
    if call.person is not None and not call.person.may_ask:
        raise NotPermitted(f"{call.person.name} may only look: the role is {call.person.role}.")
    try:
        data = await call.context.bodies.whole(call.request.receive, limit)
    except RefusedRequest as error:
        raise refused(error, limit) from None
    if data is None:
        raise _too_large(limit)
    name, file = secrets.token_hex(16), uploads.safe_name(call.query["name"])
    await shared.add(name, call.caller().owner, file, bytes(data))
    return {"path": f"{PATH}/{name}/{file}", "size": len(data)}


async def fetched(engine: Engine, caller: Caller, paths: list[str], copies: dict[str, str]) -> list[str]:
    """The same paths, with those of files in the database replaced by those of copies on this server.

    `copies` gets each copy's path, with the one that the client knows.
    """
    shared = shared_uploads(engine)
    return paths if shared is None else [await _fetched(shared, caller, path, copies) for path in paths]


async def _fetched(shared: Uploads, caller: Caller, path: str, copies: dict[str, str]) -> str:
    match = _SHARED(path)
    if match is None:
        return path
    stored = await shared.read(match[1], caller.owner)
    if stored is None:
        raise NotFound(
            f"There is no upload {path[:200]}.", hint="Send the file again: one is kept for a day."
        )
    local = await asyncio.to_thread(uploads.copy, caller.settings.home, *stored)
    copies[str(local)] = path[: match.end()]
    return f"{local}{path[match.end() :]}"


@contextmanager
def named_by_client(copies: Mapping[str, str]) -> Iterator[None]:
    """Errors name an upload as its client does: the paths of copies are no business of theirs."""
    try:
        yield
    except CounselError as error:
        known = error.copy()
        known.message = _renamed(error.message, copies)
        known.hint = _renamed(error.hint, copies)
        known.fields = _renamed(error.fields, copies)
        raise known from None


def _renamed(value: Any, copies: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for copy, path in copies.items():
            value = value.replace(copy, path)
        return value
    if isinstance(value, dict):
        return {key: _renamed(each, copies) for key, each in value.items()}
    return [_renamed(each, copies) for each in value] if isinstance(value, list) else value


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
