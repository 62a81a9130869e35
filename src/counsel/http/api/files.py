"""`POST /api/files`: stores a file, whose path a question can name in `files`."""

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
from counsel.errors import CounselError, FileTooLarge, Internal, InvalidArgument, NotFound
from counsel.http.api.endpoint import ApiCall, body_error
from counsel.http.envelope import RefusedRequest
from counsel.requests import Engine

_PIECE = 1 << 20  # bytes per write


async def add(call: ApiCall) -> object:
    if not call.query["name"]:
        raise InvalidArgument("name is missing: give the file's name, with its extension.")
    settings = call.settings
    limit = max(settings.max_file_bytes, settings.max_pdf_bytes, settings.max_image_bytes)
    if (store := shared_uploads(call.engine)) is not None:
        return await _add_to_database(call, store, limit)
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

PATH = "/uploads"  # files in the database have paths in this folder, which exists on no server
_SHARED = re.compile(rf"{PATH}/([0-9a-f]{{32}})/[^/{{]*").match


class HasUploads(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    @property
    def uploads(self) -> Uploads | None: ...


def shared_uploads(engine: Engine) -> Uploads | None:
    return cast(HasUploads, engine).uploads


async def _add_to_database(call: ApiCall, store: Uploads, limit: int) -> dict[str, object]:
    """Store a file in the database, since the question that names it may reach another server."""
    if call.person is not None:
        call.person.refuse_if_read_only("send files")
    try:
        data = await call.context.bodies.raw_or_none(call.request.receive, limit)
    except RefusedRequest as error:
        raise body_error(error, limit) from None
    if data is None:
        raise _too_large(limit)
    name, file = secrets.token_hex(16), uploads.safe_name(call.query["name"])
    await store.add(name, call.caller().owner, file, bytes(data))
    return {"path": f"{PATH}/{name}/{file}", "size": len(data)}


async def local_paths(engine: Engine, caller: Caller, paths: list[str], copies: dict[str, str]) -> list[str]:
    """Return the paths. Those of files in the database are replaced by the paths of copies on this server.

    Adds to `copies`: each copy's path, with the one that the client knows.
    """
    store = shared_uploads(engine)
    return paths if store is None else [await _local_path(store, caller, path, copies) for path in paths]


async def _local_path(store: Uploads, caller: Caller, path: str, copies: dict[str, str]) -> str:
    match = _SHARED(path)
    if match is None:
        return path
    upload = await store.read(match[1], caller.owner)
    if upload is None:
        raise NotFound(
            f"There is no upload {path[:200]}.", hint="Send the file again: uploads are kept for a day."
        )
    copy = await asyncio.to_thread(uploads.copy, caller.settings.home, *upload)
    copies[str(copy)] = path[: match.end()]
    return f"{copy}{path[match.end() :]}"


@contextmanager
def errors_with_client_paths(copies: Mapping[str, str]) -> Iterator[None]:
    """Let errors name an upload by its client's path instead of the copy's."""
    try:
        yield
    except CounselError as error:
        client_error = error.copy()
        client_error.message = _with_client_paths(error.message, copies)
        client_error.hint = _with_client_paths(error.hint, copies)
        client_error.fields = _with_client_paths(error.fields, copies)
        raise client_error from None


def _with_client_paths(value: Any, copies: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for copy, path in copies.items():
            value = value.replace(copy, path)
        return value
    if isinstance(value, dict):
        return {key: _with_client_paths(item, copies) for key, item in value.items()}
    return [_with_client_paths(item, copies) for item in value] if isinstance(value, list) else value


async def _receive(call: ApiCall, upload: uploads.Upload, limit: int) -> int:
    """Store no more than the limit, but read the rest, too: a client does not read the response while it is sending."""
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
