"""A browser's requests to a team's servers, without a browser: its cookies, and the headers that it adds."""

from __future__ import annotations

from http.cookies import SimpleCookie
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from support.oidc_provider import OidcProvider, query_of


class TeamBrowser:
    """`server`: which one the load balancer chooses for the next request."""

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
        """From the page."""
        return self._session.get(
            self.server + path, headers={"x-counsel": "1", "sec-fetch-site": "same-origin", **self._cookie()}
        )

    async def fetch(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """As the console's own page does."""
        own = {"x-counsel": "1", "sec-fetch-site": "same-origin", **self._cookie(), **headers}
        async with self._session.request(method, self.server + path, json=body, headers=own) as answer:
            self._keep(answer)
            return answer.status, await answer.json() if answer.content_type == "application/json" else None

    async def go(self, path: str) -> tuple[int, str]:
        """A navigation: the status, and where it redirects to."""
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **self._cookie()}
        async with self._session.get(self.server + path, headers=headers, allow_redirects=False) as answer:
            self._keep(answer)
            return answer.status, answer.headers.get("location", "")

    async def sign_in(self, provider: OidcProvider, *, returns_to: str = "") -> tuple[int, str]:
        """Through the issuer, back to `returns_to`."""
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
