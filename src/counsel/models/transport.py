"""HTTP to the model vendors: the one place of connections, time limits, retries and cancelling.

`Transport.stream` is an async generator. Closing it, or cancelling the task that reads it, closes the connection
to the vendor at once: nothing goes on upstream.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from counsel.errors import CounselError, ProviderUnavailable, RateLimited, TimedOut, UpstreamError
from counsel.models.clock import Clock
from counsel.models.failures import Complained, Complaint, as_error, scrubbed, understand
from counsel.models.pauses import resumed
from counsel.models.sse import EventParser
from counsel.models.wires import WIRES
from counsel.types import Call, Endpoint, Event, Json, Limits, Model, Notice, Prepared, StreamReader, Text

USUAL = Limits()
IN_A_HURRY = 5.0  # seconds; the longest wait for a try when another model can answer
BACKOFF = 0.5  # seconds before the second try; doubled for each further one
_MOST_ERROR_BYTES = 64 * 1024


class Transport:
    """One pool of connections for all calls of a process. `close` it at the end."""

    def __init__(
        self, *, backoff: float = BACKOFF, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._backoff = backoff
        self._sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, str | None] = {}

    def stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits = USUAL
    ) -> AsyncGenerator[Event]:
        """One answer. Only a vendor that uses tools of its own pauses in the middle of one."""
        ends = asyncio.get_running_loop().time() + limits.total
        if not call.knobs.web_search:
            return self._stream(call, model, endpoint, limits, ends)
        return resumed(lambda asked: self._stream(asked, model, endpoint, limits, ends), call)

    async def _stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits, ends: float
    ) -> AsyncGenerator[Event]:
        prepared = WIRES[endpoint.provider.wire].prepare(call, model, endpoint)
        for name in prepared.left_out:
            yield Notice("left_out", f"{model.id} does not take {name}: it was left out.", {"setting": name})
        loop = asyncio.get_running_loop()
        body = json.dumps(prepared.body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        for attempt in range(1, limits.attempts + 1):
            exchange = _Exchange(self, prepared, body, Clock(limits, ends, endpoint), model)
            try:
                await exchange.open()
                while (events := await exchange.read()) is not None:
                    for event in events:
                        yield event
            except _Transient as transient:
                failed = transient
            else:
                return
            finally:
                exchange.close()
            wait = self._wait(attempt, failed.retry_after)
            too_long = loop.time() + wait >= ends or (call.hurry and wait > IN_A_HURRY)
            if exchange.passed_on or attempt == limits.attempts or too_long:
                raise failed.error
            yield _announcement(attempt, wait, failed.error, limits)
            await self._sleep(wait)

    async def get_json(self, endpoint: Endpoint, path: str, limits: Limits = USUAL) -> Json:
        """One GET below the provider's base URL: a listing of models, or the proof that a key is taken."""
        url = _below(endpoint.base_url, path)
        clock = Clock(limits, asyncio.get_running_loop().time() + limits.total, endpoint)
        nobody = Model(id=path, provider=endpoint.provider.name, wire_id=path)
        try:
            async with clock.until("total", clock.ends):
                response = await self._send(
                    "GET", url, WIRES[endpoint.provider.wire].headers(endpoint), None, limits
                )
                async with response:
                    if response.status != 200:
                        raise as_error(await _complaint(response), endpoint, nobody)
                    return await _json_body(response, endpoint)
        except aiohttp.ClientError as error:
            raise _unreachable(endpoint, error) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return retry_after
        return self._backoff * (1 << (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter, no secret)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> aiohttp.ClientResponse:
        return await self._opened().request(
            method,
            url,
            data=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
            allow_redirects=False,  # a key goes to the address that was set, and nowhere else
            proxy=self._proxy(url),
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Compressed streams arrive in lumps.
                headers={
                    "content-type": "application/json",
                    "accept-encoding": "identity",
                    "user-agent": "counsel",
                },
            )
        return self._session

    def _proxy(self, url: str) -> str | None:
        """HTTPS_PROXY and friends, looked up once per host: aiohttp's own `trust_env` does it for every request."""
        parts = urlsplit(url)
        host = f"{parts.scheme}://{parts.netloc}"
        if host not in self._proxies:
            here = parts.hostname in {"localhost", "127.0.0.1", "::1"}
            direct = here or proxy_bypass(parts.hostname or "")
            self._proxies[host] = None if direct else getproxies().get(parts.scheme)
        return self._proxies[host]


class _Transient(Exception):
    """A failure that another try may not have. `error` is what the caller gets when no try is left."""

    def __init__(self, error: CounselError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


class _Broken(Exception):
    """The stream stopped where it should not have."""

    def __init__(self, how: str = "ended before the answer did") -> None:
        super().__init__(how)


class _Exchange:
    """One try of one call: request out, events in."""

    def __init__(
        self, transport: Transport, prepared: Prepared, body: bytes, clock: Clock, model: Model
    ) -> None:
        self._transport, self._prepared, self._body = transport, prepared, body
        self._clock, self._endpoint, self._model = clock, clock.endpoint, model
        self._reader: StreamReader = WIRES[clock.endpoint.provider.wire].reader()
        self._parser = EventParser()
        self._response: aiohttp.ClientResponse | None = None
        self._text: list[str] = []
        self._failed: Exception | None = None
        self._ended = False
        self.passed_on = False

    async def open(self) -> None:
        try:
            async with self._clock.first():
                self._response = await self._transport._send(  # noqa: SLF001 (its own other half)
                    "POST", self._prepared.url, self._prepared.headers, self._body, self._clock.limits
                )
                if self._response.status != 200:
                    raise self._refused(await _complaint(self._response))
                if self._response.content_type in {"text/html", "application/json"}:
                    raise await self._not_a_stream(self._response)
        except aiohttp.ConnectionTimeoutError:
            raise _Transient(self._clock.passed("connect")) from None
        except aiohttp.ClientError as error:
            raise _Transient(_unreachable(self._endpoint, error)) from None

    async def read(self) -> list[Event] | None:
        """The next events, none of them empty; None after the last."""
        while not self._ended:
            if self._failed is not None:
                raise self._as_error(self._failed)
            events = self._understood(await self._chunk())
            if events:
                self.passed_on = True
                self._text += [event.delta for event in events if type(event) is Text]
                return events
        return None

    def close(self) -> None:
        if self._response is not None:
            if self._ended:
                self._response.release()
            else:
                self._response.close()

    async def _chunk(self) -> bytes | None:
        """Bytes, empty at the end of the stream; None when it broke but all had been said."""
        assert self._response is not None  # noqa: S101 (open came first)
        try:
            async with self._clock.idle() if self.passed_on else self._clock.first():
                return await self._response.content.readany()
        except TimedOut as late:
            late.fields |= self._partial()
            self._failed = late
        except (aiohttp.ClientError, OSError) as error:
            self._failed = _Broken(f"broke off ({type(error).__name__})")
        return None

    def _understood(self, chunk: bytes | None) -> list[Event]:
        """Events up to the first that cannot be read: what came before it is the caller's."""
        events: list[Event] = []
        try:
            found = self._parser.feed(chunk) if chunk else self._parser.end()
            for name, data in found:
                events += self._reader.feed(name, data)
            if not chunk:
                events += self._reader.finish()
                self._ended = True
        except (CounselError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._failed = self._failed or (error if chunk or isinstance(error, Complained) else _Broken())
        return events

    def _as_error(self, failed: Exception) -> Exception:
        if isinstance(failed, Complained):
            return self._refused(failed.complaint)
        if isinstance(failed, _Broken):
            return self._broken(str(failed))
        return failed if isinstance(failed, CounselError) else self._nonsense(type(failed).__name__)

    def _refused(self, complaint: Complaint) -> Exception:
        error = as_error(complaint, self._endpoint, self._model, **self._partial())
        return _Transient(error, complaint.retry_after) if complaint.retryable else error

    def _broken(self, how: str) -> _Transient:
        label, name = self._endpoint.provider.label, self._endpoint.provider.name
        kept = " What came before is kept." if self._text else ""
        return _Transient(
            UpstreamError(
                f"The stream from {label} {how}.{kept}", hint="Try again.", provider=name, **self._partial()
            )
        )

    def _nonsense(self, what: str) -> UpstreamError:
        return UpstreamError(
            f"{self._endpoint.provider.label} sent an event that cannot be read ({what}).",
            hint="If it is behind a proxy or a compatible server, check that one.",
            provider=self._endpoint.provider.name,
            **self._partial(),
        )

    async def _not_a_stream(self, response: aiohttp.ClientResponse) -> Exception:
        complaint = await _complaint(response)
        if response.content_type == "application/json" and complaint.words:
            return self._refused(complaint)
        provider = self._endpoint.provider
        return UpstreamError(
            f"{provider.label} answered with {response.content_type} instead of a stream.",
            hint=f"Check {provider.base_url_env or 'the base URL'} ({self._endpoint.base_url}).",
            provider=provider.name,
            status=response.status,
        )

    def _partial(self) -> Json:
        return {"partial": "".join(self._text)} if self._text else {}


def _below(base: str, path: str) -> str:
    """The path after the base URL; a version that a person wrote into both is said once."""
    base, version = base.rstrip("/"), "/" + path.split("/")[1]
    return base + (path.removeprefix(version) if base.endswith(version) else path)


async def _complaint(response: aiohttp.ClientResponse) -> Complaint:
    raw = b""
    with suppress(aiohttp.ClientError):  # the status says enough
        raw = await response.content.read(_MOST_ERROR_BYTES)
    try:
        body: Any = json.loads(raw)
    except ValueError:
        body = None
    return understand(response.status, body, response.headers)


async def _json_body(response: aiohttp.ClientResponse, endpoint: Endpoint) -> Json:
    try:
        body = json.loads(await response.read())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        label, url = endpoint.provider.label, endpoint.base_url
        hint = f"Check {endpoint.provider.base_url_env or 'the base URL'} ({url})."
        raise UpstreamError(
            f"{label} answered with something that is not JSON.", hint=hint, provider=endpoint.provider.name
        )
    return body


def _unreachable(endpoint: Endpoint, error: Exception) -> ProviderUnavailable:
    provider = endpoint.provider
    reason = scrubbed(str(getattr(error, "os_error", None) or error) or type(error).__name__, endpoint.key)
    return ProviderUnavailable(
        f"{provider.label} could not be reached at {endpoint.base_url}: {reason}",
        hint=f"Check the network{f' and {provider.base_url_env}' if provider.base_url_env else ''}.",
        provider=provider.name,
    )


def _announcement(attempt: int, wait: float, error: CounselError, limits: Limits) -> Notice:
    why = "rate limit" if isinstance(error, RateLimited) else error.code
    return Notice(
        "retry",
        f"Try {attempt + 1} of {limits.attempts} in {wait:.1f} s: {error.message}",
        {"attempt": attempt + 1, "wait": wait, "reason": why},
    )
