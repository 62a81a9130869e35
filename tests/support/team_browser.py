"""Requests like a browser's to a team's servers, with its cookies and headers."""

from __future__ import annotations

from http.cookies import SimpleCookie
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from support.oidc_provider import OidcProvider, query_of


class TeamBrowser:
    """`server`: the one that the load balancer chooses for the next request."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.cookies: dict[str, str] = {}
        self.attributes: dict[str, dict[str, str]] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def stream(self, path: str) -> Any:
        """A stream, requested by the page."""
        return self._session.get(
            self.server + path, headers={"x-counsel": "1", "sec-fetch-site": "same-origin", **self._cookie()}
        )

    async def fetch(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """A request like those of the console's page."""
        own = {"x-counsel": "1", "sec-fetch-site": "same-origin", **self._cookie(), **headers}
        async with self._session.request(method, self.server + path, json=body, headers=own) as answer:
            self._keep(answer)
            return answer.status, await answer.json() if answer.content_type == "application/json" else None

    async def go(self, path: str) -> tuple[int, str]:
        """Navigate. Return the status and the address of the redirect."""
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **self._cookie()}
        async with self._session.get(self.server + path, headers=headers, allow_redirects=False) as answer:
            self._keep(answer)
            return answer.status, answer.headers.get("location", "")

    async def sign_in(self, provider: OidcProvider, *, returns_to: str = "") -> tuple[int, str]:
        """Sign in with the issuer, which redirects back to `returns_to`."""
        _, away = await self.go("/login/oidc")
        assert away.startswith(f"{provider.url}/authorize"), away
        back = urlsplit(provider.authorize(query_of(away)))
        self.server = returns_to or self.server
        return await self.go(f"{back.path}?{back.query}")

    def _cookie(self) -> dict[str, str]:
        pairs = [f"{name}={value}" for name, value in self.cookies.items()]
        return {"cookie": "; ".join(pairs)} if pairs else {}

    def _keep(self, answer: aiohttp.ClientResponse) -> None:
        for header in answer.headers.getall("set-cookie", []):
            for name, morsel in SimpleCookie(header).items():
                self.attributes[name] = {key: str(value) for key, value in morsel.items()}
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
