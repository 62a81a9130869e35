"""An OpenID Connect provider on loopback that can behave like a company's, a broken, or a hostile one."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

CLIENT = "counsel-console"
SECRET = "a-client-secret-of-the-tests"


class OidcProvider:
    """`claims` are added to each ID token, `changes` to the provider's description; `forge` makes the token instead."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "subject-1", "email": "ada@example.com", "email_verified": True}
        self.changes: dict[str, Any] = {}
        self.forge: Callable[[dict[str, Any]], str] | None = None
        self.status = 200  # of everything
        self.requests: list[str] = []  # paths
        self.codes: dict[str, dict[str, str]] = {}
        self.keys: list[ECKey | RSAKey] = [new_key("key-1")]
        self.redirect_uri = ""  # the registered one; "": any

    @property
    def url(self) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host!s}:{port}"

    def rotate(self) -> None:
        """Sign with a new key; the old one is withdrawn."""
        self.keys = [new_key(f"key-{secrets.token_hex(4)}")]

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            **self.changes,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """The address to which the browser is sent. This provider accepts everybody without asking."""
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert not self.redirect_uri or query["redirect_uri"] == self.redirect_uri
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        query = self.codes.pop(form["code"], None)
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if query is None or authorization != f"Basic {expected}":
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != query["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != query["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": query["nonce"]} | (
            self.claims
        )
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.signed(claims)}

    def signed(self, claims: dict[str, Any]) -> str:
        if self.forge:
            return self.forge(claims)
        key = self.keys[0]
        algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
        return jwt.encode({"alg": algorithm, "kid": str(key.kid)}, claims, key)

    @contextmanager
    def running(self) -> Iterator[OidcProvider]:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


def new_key(name: str) -> ECKey:
    """RSA keys take a second to make."""
    return ECKey.generate_key("P-256", {"kid": name, "use": "sig", "alg": "ES256"})


def new_rsa_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})


def _handler(provider: OidcProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            provider.requests.append(parts.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if provider.status != 200:
                self._answer(provider.status, {"error": "down"})
            elif parts.path == "/.well-known/openid-configuration":
                self._answer(200, provider.description())
            elif parts.path == "/keys":
                self._answer(200, dict(KeySet(list(provider.keys)).as_dict(private=False)))
            elif parts.path == "/authorize":
                self.send_response(302)
                self.send_header("location", provider.authorize(query))
                self.send_header("content-length", "0")
                self.end_headers()
            else:
                self._answer(404, {"error": "unknown"})

        def do_POST(self) -> None:
            provider.requests.append(self.path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if provider.status != 200:
                self._answer(provider.status, {"error": "down"})
            else:
                self._answer(*provider.token(form, self.headers.get("authorization", "")))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def query_of(url: str) -> dict[str, str]:
    return {name: unquote(values[0]) for name, values in parse_qs(urlsplit(url).query).items()}
