"""A load balancer without sticky sessions: each request goes to the next server."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

_OWN = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}


class RoundRobin:
    def __init__(self, servers: list[str]) -> None:
        self.url = ""
        self.servers = servers
        self.taken: list[str] = []  # the server of each request
        self._next = itertools.cycle(servers)
        self._session = aiohttp.ClientSession(auto_decompress=False)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        server = next(self._next)
        self.taken.append(server)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN]
        async with self._session.request(
            request.method,
            f"{server}{request.raw_path}",
            headers=[*headers, ("Host", request.headers["Host"])],
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            end_to_end = [(name, value) for name, value in answer.headers.items() if name.lower() not in _OWN]
            response = web.StreamResponse(status=answer.status, headers=end_to_end)
            await response.prepare(request)
            async for data, _ in answer.content.iter_chunks():
                await response.write(data)
            await response.write_eof()
            return response

    async def close(self) -> None:
        await self._session.close()


@asynccontextmanager
async def balanced(*servers: str) -> AsyncIterator[RoundRobin]:
    proxy = RoundRobin(list(servers))
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await runner.cleanup()
        await proxy.close()
