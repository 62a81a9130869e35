"""Guards the HTTP server: the right Host, no web page of another origin, and the user's token or session.

One ASGI layer around everything. A web page of another origin never gets a response, not even by DNS rebinding: the
name in `Host` must be this machine's. Another user of the machine does not know the token. The console's cookie gives
access to `/api` only, and only for requests that the console's own page sends.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from counsel import paths
from counsel.errors import AuthenticationFailed, ConfigInvalid, CounselError, RateLimited, Refused
from counsel.http import peer
from counsel.http.chunks import CONNECTION
from counsel.http.console.sessions import ConsoleSession, ConsoleSessions
from counsel.http.proxies import FORWARDED, Proxies
from counsel.http.v1 import errors as v1_errors
from counsel.settings import Settings
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.http.team.access import TeamAccess
    from counsel.http.team.sessions import TeamSession

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

SHORTEST = 16  # characters of a token with which other machines may connect
MOST_HEADERS = 100
OPEN_TO_ALL = frozenset({"/health", "/ready"})
METRICS = "/metrics"
METRICS_ONLY = "counsel.metrics_only"  # in a request's scope: whether it was sent with COUNSEL_METRICS_TOKEN
# The console's page, besides `/assets/`: it contains no data.
PAGE = frozenset(
    {
        "/",
        "/login",
        "/login/methods",
        "/login/oidc",
        "/login/callback",
        "/favicon.ico",
        "/licenses.md",
    }
)
SESSION = "/api/session"
V1 = "/v1/"  # other vendors' APIs: their clients may send the token as `x-api-key`, and read errors in their format
MOST_COOKIES = 8  # with the session's name: servers on other ports of this host can set such cookies, too
SIGNED_IN = "counsel.signed_in"  # in a request's scope, on a team's server: `SignedIn`
TOKEN_ENDED = "counsel.token_ended"  # noqa: S105 - in a request's scope, on a team's server: whether its token has ended
SESSIONS = "counsel.sessions"  # in a request's scope, for the routes of the session
_NO_PAGE = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_CORS_HEADERS = "authorization, content-type, accept, idempotency-key, last-event-id, x-api-key, x-counsel-conversation, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name"
# Other headers that OpenAI's and Anthropic's SDKs send from a browser: many, and more with each release.
_SDK_HEADER = re.compile(r"(?:x-stainless|anthropic|openai)-[a-z0-9-]{1,60}").fullmatch
_LONGEST_NAMES = 4_000  # characters
_EXPOSED_HEADERS = b"location, mcp-session-id, retry-after, request-id, x-request-id, x-should-retry, x-counsel-job, x-counsel-ignored"


# ── the token ────────────────────────────────────────────────────────────────────────────────────────


def token_file(home: Path) -> Path:
    return home / "token"


def token(settings: Settings) -> str:
    """COUNSEL_TOKEN, or the token that was generated at the first start."""
    return settings.token or _stored_token(token_file(settings.home))


def _stored_token(path: Path) -> str:
    try:
        paths.private_folder(path.parent)
        with suppress(FileExistsError):
            paths.write_private(str(path), secrets.token_urlsafe(32).encode(), replace=False)
        value = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{path}: cannot store the token ({error}).", hint="Set COUNSEL_TOKEN.", file=str(path)
        ) from error
    if not value:
        raise ConfigInvalid(f"{path} is empty.", hint="Remove it or set COUNSEL_TOKEN.", file=str(path))
    return value


def is_loopback(host: str) -> bool:
    return host in _LOOPBACK


def check_bind(host: str, secret: str) -> None:
    if not is_loopback(host) and len(secret) < SHORTEST:
        raise ConfigInvalid(
            f"counsel does not listen on {host} with a token of {counted(len(secret), 'character')}.",
            hint=f"Set a COUNSEL_TOKEN of at least {SHORTEST} characters, or listen on 127.0.0.1.",
        )


# ── the guard ────────────────────────────────────────────────────────────────────────────────────────


class Forbidden(Refused):
    code = "INVALID_ARGUMENT"


class Guard:
    def __init__(
        self,
        app: App,
        *,
        secret: str,
        host: str,
        origins: tuple[str, ...] = (),
        public: frozenset[str] = OPEN_TO_ALL,
        sessions: ConsoleSessions | None = None,
        proxies: Proxies | None = None,
        team: TeamAccess | None = None,
        metrics_token: str = "",
    ) -> None:
        self.app = app
        self._secret = secret.encode()
        self._local = is_loopback(host)
        self._proxies = proxies or Proxies()
        self._names = _LOOPBACK | {host, socket.gethostname()} | ({self._proxies.host} - {""})
        self._origins = frozenset(origins)
        self._public = public
        self._sessions = sessions
        self._team = team  # people with tokens of their own, instead of one secret
        self._metrics_token = metrics_token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self._proxies.apply(scope)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        scope[SESSIONS] = {"sessions": self._sessions, "session": None, "team": self._team}
        wrapped_send = _with_cors(send, origin) if origin in self._origins and origin else send
        refusal = self._refusal(scope, headers, origin) or await self._access(scope, headers)
        if refusal is not None:
            await refuse(*refusal, wrapped_send, scope["path"], headers)
        elif _is_preflight(scope, headers):
            await _preflight(wrapped_send, headers.get(b"access-control-request-headers", ""))
        else:
            session = scope[SESSIONS]["session"]
            if session:
                # `_send_to_page` must see everything that is sent.
                scope.get("state", {}).pop(CONNECTION, None)
                wrapped_send = _send_to_page(wrapped_send, session)
            if self._team is not None and (signed_in := scope.get(SIGNED_IN)):
                await self._team.answer(self.app, scope, receive, wrapped_send, signed_in)
            else:
                await self.app(scope, receive, wrapped_send)

    def _refusal(
        self, scope: Scope, headers: dict[bytes, str], origin: str | None
    ) -> tuple[int, CounselError] | None:
        host = headers.get(b"host", "")
        if len(scope["headers"]) > MOST_HEADERS:
            return 431, Forbidden(f"A request may have at most {MOST_HEADERS} headers.")
        if not self._is_own_host(_host_name(host)):
            return 421, Forbidden(
                f"The host {host[:100]!r} is not this machine.",
                hint=f"Use {self._proxies.public_url or 'http://127.0.0.1'}, or set COUNSEL_PUBLIC_URL.",
            )
        if origin is not None and origin not in self._origins and not self._is_own_origin(origin, host):
            return 403, Forbidden(
                f"Pages from {origin[:100]!r} may not use counsel.",
                hint="List the origin in COUNSEL_CORS_ORIGINS.",
            )
        if scope.get("state", {}).get("is_over_limit") and scope["path"] not in self._public:
            return 503, RateLimited(
                "Too many requests are in progress.",
                hint="Try again in a moment, or raise COUNSEL_MAX_CONNECTIONS.",
            )
        return None

    async def _access(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, CounselError] | None:
        """The refusal; None if the sender may use this path."""
        if (
            _is_preflight(scope, headers)
            or self._is_public(scope["path"])
            or self._reads_metrics(scope, headers)
        ):
            return None
        if self._team is not None:
            return await self._team_access(self._team, scope, headers)
        return None if self._has_token(headers, scope["path"]) else self._page_refusal(scope, headers)

    async def _team_access(
        self, team: TeamAccess, scope: Scope, headers: dict[bytes, str]
    ) -> tuple[int, CounselError] | None:
        token = _bearer(headers) or headers.get(b"x-api-key", "").strip()
        try:
            client = scope.get("client")
            signed_in = await team.signed_in(token, str(client[0]) if client else "")
            if signed_in is None and not token and b"authorization" not in headers:
                return await self._team_page_access(team, scope, headers)
        except CounselError as error:
            return 503, team.unreachable(error)
        if signed_in is None:
            return self._no_access(scope, headers)
        scope[SIGNED_IN] = signed_in
        return None

    async def _team_page_access(
        self, team: TeamAccess, scope: Scope, headers: dict[bytes, str]
    ) -> tuple[int, CounselError] | None:
        """Accept the console's cookie, from its own page only, or a request that signs in."""
        if not scope["path"].startswith("/api/") or not is_from_own_page(
            scope["method"], headers, self._is_own_origin
        ):
            return self._no_access(scope, headers)
        session = await team.session(self._cookies(scope, headers, team.cookie))
        if session is None and (scope["path"], scope["method"]) != (SESSION, "POST"):
            return self._no_access(scope, headers)
        if refusal := self._user_refusal(scope):
            return refusal
        if session is not None:
            scope[SESSIONS]["session"] = session
            scope[SIGNED_IN] = session.signed_in
        return None

    def _cookies(self, scope: Scope, headers: dict[bytes, str], name: str) -> list[str]:
        secure = self._proxies.is_over_tls(_host_name(headers.get(b"host", "")))
        return cookies(scope["headers"], name, secure=secure)[:MOST_COOKIES]

    def _page_refusal(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, CounselError] | None:
        """Check a request without the token: it needs a session, unless it signs in."""
        if (
            self._sessions
            and b"authorization" not in headers
            and is_from_own_page(scope["method"], headers, self._is_own_origin)
        ):
            session = self._session(scope, headers)
            if session is not None or (scope["path"], scope["method"]) == (SESSION, "POST"):
                if refusal := self._user_refusal(scope):
                    return refusal
                scope[SESSIONS]["session"] = session
                return None
        return self._no_access(scope, headers)

    def _user_refusal(self, scope: Scope) -> tuple[int, CounselError] | None:
        """Refuse another user of this machine: cookies ignore ports, so their server may have received this one."""
        if not self._local or scope.get(FORWARDED) or _is_own(scope):
            return None
        return 403, Forbidden(
            "This browser belongs to another user of the machine.",
            hint="Run counsel and the browser as the same user.",
        )

    def _no_access(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, CounselError]:
        takes_key = scope["path"].startswith(V1)
        is_wrong = b"authorization" in headers or (takes_key and bool(headers.get(b"x-api-key")))
        return 401, AuthenticationFailed(
            "The token is wrong." if is_wrong else "A token is required.",
            hint=f"Send `Authorization: Bearer TOKEN`{' or `x-api-key: TOKEN`' if takes_key else ''}; "
            + (
                "ask an admin of this server for one (`counsel people`)."
                if self._team
                else "it is COUNSEL_TOKEN or the content of COUNSEL_HOME/token."
            ),
        )

    def _session(self, scope: Scope, headers: dict[bytes, str]) -> ConsoleSession | None:
        if self._sessions is None or not scope["path"].startswith("/api/"):
            return None
        values = self._cookies(scope, headers, self._sessions.cookie)
        return next(filter(None, map(self._sessions.find, values)), None)

    def _is_public(self, path: str) -> bool:
        return path in self._public or path in PAGE or path.startswith("/assets/")

    def _is_own_origin(self, origin: str, host: str) -> bool:
        return _same_origin(origin, host) or self._proxies.is_public_origin(origin)

    def _is_own_host(self, name: str) -> bool:
        return name in self._names or (not self._local and _is_address(name))

    def _has_token(self, headers: dict[bytes, str], path: str) -> bool:
        if self._is_token(_bearer(headers)):
            return True
        return path.startswith(V1) and self._is_token(headers.get(b"x-api-key", "").strip())

    def _reads_metrics(self, scope: Scope, headers: dict[bytes, str]) -> bool:
        """Whether the request reads metrics with the token that allows nothing else."""
        if scope["path"] != METRICS or not self._metrics_token:
            return False
        fits = hmac.compare_digest(_bearer(headers).encode(), self._metrics_token)
        scope[METRICS_ONLY] = fits
        return fits

    def _is_token(self, value: str) -> bool:
        return bool(value) and hmac.compare_digest(value.encode(), self._secret)


def _is_preflight(scope: Scope, headers: dict[bytes, str]) -> bool:
    """Whether a browser asks if a page may send a request. Preflights carry no token; the guard answers them."""
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _bearer(headers: dict[bytes, str]) -> str:
    scheme, _, value = headers.get(b"authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


# ── the console's cookie ─────────────────────────────────────────────────────────────────────────────


def cookie_name(name: str, *, secure: bool) -> str:
    """Browsers accept a `__Host-` cookie only from the host itself, and only over TLS."""
    return f"__Host-{name}" if secure else name


def cookies(headers: list[tuple[bytes, bytes]], name: str, *, secure: bool) -> list[str]:
    """`secure`: over TLS, only cookies with the prefix count, since a sibling domain can set the others."""
    names = {cookie_name(name, secure=True), cookie_name(name, secure=secure)}
    pairs = (
        pair.strip().partition("=")
        for key, value in headers
        if key == b"cookie"
        for pair in value.decode("latin-1").split(";")
    )
    return [value for key, _, value in pairs if key in names]


def is_from_own_page(
    method: str, headers: dict[bytes, str], is_own_origin: Callable[[str, str], bool] | None = None
) -> bool:
    """Whether the console's page has sent this request, so that its cookie is accepted.

    A browser adds `Sec-Fetch-Site` itself (over plain HTTP only on loopback). A page of another origin, even one on
    another port of this machine, cannot send `X-Counsel` without a preflight, which is refused.
    """
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    has_marker = headers.get(b"x-counsel") == "1"
    if origin is not None and not (is_own_origin or _same_origin)(origin, headers.get(b"host", "")):
        return False  # an origin in COUNSEL_CORS_ORIGINS needs the token
    if method not in {"GET", "HEAD"} and not has_marker:
        return False
    return site == "same-origin" or (site is None and (has_marker or origin is not None))


def _send_to_page(send: Send, session: ConsoleSession | TeamSession) -> Send:
    """Wrap `send`: no response can be shown as a page or loaded by another page, and signing out ends streams."""
    ended = False

    async def wrapped_send(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_NO_PAGE]
        elif message.get("more_body") and not ended and session.is_over():
            message = {"type": "http.response.body", "body": b""}
        if not ended:
            ended = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

    return wrapped_send


def _is_own(scope: Scope) -> bool:
    """Whether the client is this user's; looked up once per connection."""
    cache: dict[str, bool] = scope.get("state", {}).get("peer", {})
    if "is_own" not in cache:
        cache["is_own"] = peer.is_own(scope.get("client"), scope.get("server"))
    return cache["is_own"]


def _host_name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    """An IP address cannot be rebound: there is no name to redirect."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, host: str) -> bool:
    return origin.lower() in {f"http://{host.lower()}", f"https://{host.lower()}"}


def _with_cors(send: Send, origin: str) -> Send:
    async def wrapped_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", []),
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
                (b"vary", b"Origin"),
            ]
        await send(message)

    return wrapped_send


async def _preflight(send: Send, request_headers: str) -> None:
    """Answer a preflight. `request_headers`: the names of the headers that the page will send."""
    names = [name.strip().lower() for name in request_headers[:_LONGEST_NAMES].split(",")]
    allowed_headers = [_CORS_HEADERS, *(name for name in names if _SDK_HEADER(name))]
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE, PUT, PATCH"),
        (b"access-control-allow-headers", ", ".join(allowed_headers).encode()),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def failure(error: CounselError, status: int) -> dict[str, object]:
    """The body of every route's error: always with `error`, `code`, `hint` and the response's `status`."""
    document = error.as_dict()
    body = {**document, "hint": error.hint, "status": status}
    return body | {"upstream_status": document["status"]} if "status" in document else body


async def refuse(
    status: int, error: CounselError, send: Send, path: str = "", names: Collection[bytes] = ()
) -> None:
    """Answer with an error. `names`: those of the request's headers."""
    is_v1 = path.startswith(V1)
    document = v1_errors.of_path(path, error, status, names) if is_v1 else failure(error, status)
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="counsel"'))
    if status in {431, 503}:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
