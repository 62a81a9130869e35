"""Response bodies that are read as a whole, up to a limit: errors, listings, and JSON where a stream was expected."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

from counsel import strict_json
from counsel.errors import UpstreamError
from counsel.models import answer_limit
from counsel.models.connections import compression, http1
from counsel.models.connections.sender import Response
from counsel.models.vendor_errors import ErrorEvent, ErrorReport, parse_error, stated_status
from counsel.types import Endpoint

_MAX_ERROR_BYTES = 64 * 1024
_MAX_LISTING_BYTES = 8 * 1024 * 1024  # OpenRouter's list of models has 0.6 MB
_ERROR_SECONDS = 2.0  # for the rest of an error's body: the status alone says enough


_ANSWERS = ("choices", "output", "content", "candidates")  # a gateway may add `"message": "success"`


class JsonAnswer:
    """One JSON document in place of the requested stream: some proxies and compatible servers answer like this.

    Used in place of an `EventParser`; the document is one event, at the end.
    """

    def __init__(self, limit: int) -> None:
        self._data = bytearray()
        self._limit = limit

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        self._data += chunk
        if len(self._data) > self._limit:
            raise ValueError("a body without an end")
        return []

    def end(self) -> list[tuple[str, str]]:
        """Raises `ErrorEvent` for an error that came with status 200, `ValueError` for anything that is not JSON."""
        text = self._data.decode("utf-8", "replace")
        body: object = strict_json.loads(text)
        is_error = isinstance(body, list) or (isinstance(body, dict) and bool(body.get("error")))
        is_answer = isinstance(body, dict) and any(map(body.get, _ANSWERS)) and not is_error
        if not isinstance(body, str) and not is_answer and parse_error(200, body).message:
            raise ErrorEvent(body, stated_status(body) or (None if is_error else 200))
        return [("", text)]


async def error_report(response: Response) -> ErrorReport:
    """The error that the vendor reports, from the part of the body that arrives in time."""
    data = bytearray()
    until = asyncio.get_running_loop().time() + _ERROR_SECONDS
    with suppress(OSError, ValueError, http1.DeadlineExceeded):
        await _read(response, _MAX_ERROR_BYTES, data, until)
    body: object
    try:
        body = strict_json.loads(bytes(data))
    except ValueError:  # llama.cpp, TGI and some proxies answer in plain text
        is_page = response.content_type == "text/html"
        body = None if is_page else data.decode("utf-8", "replace").strip()
    return parse_error(response.status, body, response.headers)


async def json_object(response: Response, endpoint: Endpoint, until: float) -> dict[str, object]:
    """The body as a JSON object. Raises `UpstreamError` for anything else."""
    problem = "something that is not JSON"
    try:
        data = bytearray()
        await _read(response, _MAX_LISTING_BYTES, data, until)
        if len(data) > _MAX_LISTING_BYTES:
            problem = f"more than {answer_limit.megabytes(_MAX_LISTING_BYTES)}"
            data.clear()
        body = strict_json.loads(bytes(data))
    except ValueError:
        body = None
    if not isinstance(body, dict):
        provider = endpoint.provider
        raise UpstreamError(
            f"{provider.label} answered with {problem}.",
            hint=f"Check {provider.base_url_env or 'the base URL'} ({endpoint.base_url}).",
            provider=provider.name,
        )
    return body


async def _read(response: Response, limit: int, data: bytearray, until: float) -> None:
    """Append a body, which may have no end, to `data`: at most one byte more than `limit`."""
    decoder = compression.decoder(response.headers.get("content-encoding", ""))
    try:
        while len(data) <= limit and (chunk := await response.readany(until)):
            for piece in decoder.feed(chunk):
                data += piece[: limit + 1 - len(data)]
                if len(data) > limit:
                    break
            await asyncio.sleep(0)
    except zlib.error:
        raise ValueError("it is not compressed as its header says") from None
