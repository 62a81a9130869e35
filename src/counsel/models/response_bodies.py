"""Response bodies that are read whole, each with a bound: errors, listings, and JSON where a stream was expected."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

from counsel import strict_json
from counsel.errors import UpstreamError
from counsel.models import answer_limit, compression, http1
from counsel.models.sender import Response
from counsel.models.vendor_errors import ErrorEvent, ErrorReport, parse_error
from counsel.types import Endpoint

_MAX_ERROR_BYTES = 64 * 1024
_MAX_LISTING_BYTES = 8 * 1024 * 1024  # OpenRouter's list of models has 0.6 MB
_ERROR_SECONDS = 2.0  # for the rest of an error's body: the status alone says enough


class JsonAnswer:
    """One JSON document where a stream was requested, as some proxies and compatible servers answer.

    Used in place of an `EventParser`; the document is one event, at the end.
    """

    def __init__(self, most: int) -> None:
        self._received = bytearray()
        self._most = most

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        self._received += chunk
        if len(self._received) > self._most:
            raise ValueError("a body without an end")
        return []

    def end(self) -> list[tuple[str, str]]:
        """Raises `ErrorEvent` for an error that came with status 200, `ValueError` for what is not JSON."""
        text = self._received.decode("utf-8", "replace")
        body: object = strict_json.loads(text)
        if parse_error(200, body).message:
            raise ErrorEvent(body, 200)
        return [("", text)]


async def error_report(response: Response) -> ErrorReport:
    """The error that the vendor reports, from the part of the body that arrives in time."""
    received = bytearray()
    until = asyncio.get_running_loop().time() + _ERROR_SECONDS
    with suppress(OSError, ValueError, http1.DeadlineExceeded):
        await _read(response, _MAX_ERROR_BYTES, received, until)
    body: object = None
    with suppress(ValueError):
        body = strict_json.loads(bytes(received))
    return parse_error(response.status, body, response.headers)


async def json_object(response: Response, endpoint: Endpoint, until: float) -> dict[str, object]:
    """Raises `UpstreamError` for anything else."""
    problem = "something that is not JSON"
    try:
        received = bytearray()
        await _read(response, _MAX_LISTING_BYTES, received, until)
        if len(received) > _MAX_LISTING_BYTES:
            problem = f"more than {answer_limit.megabytes(_MAX_LISTING_BYTES)}"
            received.clear()
        body = strict_json.loads(bytes(received))
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


async def _read(response: Response, most: int, received: bytearray, until: float) -> None:
    """Read a body, which may have no end, into `received`: one byte more than `most` if there is more."""
    decoder = compression.decoder(response.headers.get("content-encoding", ""))
    try:
        while len(received) <= most and (chunk := await response.readany(until)):
            for piece in decoder.feed(chunk):
                received += piece[: most + 1 - len(received)]
                if len(received) > most:
                    break
            await asyncio.sleep(0)
    except zlib.error:
        raise ValueError("it is not compressed as its header says") from None
