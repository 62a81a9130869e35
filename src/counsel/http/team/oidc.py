"""The part of OpenID Connect that the console's server needs: the authorization code flow with PKCE.

authlib and joserfc check tokens; aiohttp sends the requests, to the issuer's own hosts only and without redirects.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
from authlib.common.urls import add_params_to_uri
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from counsel import json_reader as read
from counsel.engine.team.people.names import folded
from counsel.errors import ConfigInvalid
from counsel.http.team.oidc_config import OidcConfig, checked_url
from counsel.lazy_dataclass import dataclass

FRESH_SECONDS = 3600.0  # after this the issuer's metadata and keys are read again
KEYS_AGAIN = 10.0  # seconds between two reads of the keys because a token names an unknown one
SKEW = 60  # seconds by which clocks may differ
SECONDS = 15.0  # for one request to the issuer
LARGEST = 1024 * 1024  # bytes of one answer
LONGEST_TOKEN = 64 * 1024
# Signatures only: never `none`, and no shared secret as a key.
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class SignInFailed(Exception):
    """`problem` is one of a few words that the page knows; the message is for the log and contains no token."""

    def __init__(self, problem: str, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Identity:
    """The person whom the issuer has signed in."""

    issuer: str
    subject: str
    email: str  # verified; "" if there is none
    name: str
    groups: tuple[str, ...] | None  # None: the issuer does not decide about groups


class Issuer:
    def __init__(self, config: OidcConfig, clock: Callable[[], float] = time.time) -> None:
        self.config = config
        self._clock = clock
        self._metadata: tuple[float, Mapping[str, object]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._read_lock = asyncio.Lock()

    # ── the two steps ──

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        metadata = await self.metadata()
        url: str = add_params_to_uri(
            str(metadata["authorization_endpoint"]),
            [
                ("response_type", "code"),
                ("client_id", self.config.client_id),
                ("redirect_uri", self.config.redirect_uri),
                ("scope", self.config.scopes),
                ("state", state),
                ("nonce", nonce),
                ("code_challenge", create_s256_code_challenge(verifier)),
                ("code_challenge_method", "S256"),
            ],
        )
        return url

    async def identity(self, code: str, *, nonce: str, verifier: str) -> Identity:
        """Exchange the code for a token, check the token completely and return whom it identifies."""
        metadata = await self.metadata()
        answer = await self._exchange(metadata, code, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
            raise SignInFailed("invalid", "the issuer sent no ID token")
        claims = await self._claims(metadata, token, nonce, answer.get("access_token"))
        return self._identity(claims)

    async def check_answer(self, issuer: str | None) -> None:
        """Check the answer's issuer (RFC 9207): one that names another issuer does not belong to this request."""
        metadata = await self.metadata()
        requires_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.config.issuer and (issuer is not None or requires_issuer):
            raise SignInFailed("invalid", "the answer names another issuer")

    # ── the issuer's metadata and keys ──

    async def metadata(self) -> Mapping[str, object]:
        async with self._read_lock:
            if self._metadata is None or self._clock() - self._metadata[0] > FRESH_SECONDS:
                try:
                    document = await self._fetch(
                        f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration"
                    )
                    self._metadata = self._clock(), self._checked(document)
                except SignInFailed:
                    if self._metadata is None:
                        raise  # otherwise the previous metadata stays in use
            return self._metadata[1]

    def _checked(self, document: Mapping[str, object]) -> Mapping[str, object]:
        if document.get("issuer") != self.config.issuer:
            raise SignInFailed("provider", "the issuer's metadata names another issuer")
        for name in _ENDPOINTS:
            self._check_host(str(document.get(name, "")), name)
        return document

    def _check_host(self, url: str, name: str) -> None:
        try:
            host = checked_url(url.partition("?")[0], name).netloc.lower()
        except ConfigInvalid as error:
            raise SignInFailed("provider", error.message) from None
        if host not in self.config.hosts:
            raise SignInFailed(
                "provider", f"{name} is on {host}, which is neither the issuer nor in COUNSEL_OIDC_HOSTS"
            )

    async def _key_set(self, metadata: Mapping[str, object], *, refresh: bool = False) -> KeySet:
        async with self._read_lock:
            limit = KEYS_AGAIN if refresh else FRESH_SECONDS
            if self._keys is None or self._clock() - self._keys[0] > limit:
                document = await self._fetch(str(metadata["jwks_uri"]))
                try:
                    self._keys = self._clock(), KeySet.import_key_set(_usable_keys(document))
                except (JoseError, ValueError, TypeError, KeyError) as error:
                    raise SignInFailed("provider", f"the issuer's keys: {type(error).__name__}") from None
            return self._keys[1]

    # ── tokens ──

    async def _exchange(self, metadata: Mapping[str, object], code: str, verifier: str) -> dict[str, object]:
        body = urlencode(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.config.redirect_uri,
                "code_verifier": verifier,
            }
        )
        url = str(metadata["token_endpoint"])
        auth = ClientAuth(self.config.client_id, self.config.client_secret, self._auth_method(metadata))
        headers = {"content-type": "application/x-www-form-urlencoded"}
        url, headers, body = auth.prepare("POST", url, headers, body)
        return await self._fetch(url, headers=headers, body=body.encode() if isinstance(body, str) else body)

    def _auth_method(self, metadata: Mapping[str, object]) -> str:
        if not self.config.client_secret:
            return "none"
        methods = read.values(metadata, "token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"

    async def _claims(
        self, metadata: Mapping[str, object], token: str, nonce: str, access_token: object
    ) -> Mapping[str, object]:
        algorithms = read.values(metadata, "id_token_signing_alg_values_supported") or ["RS256"]
        registry = JWSRegistry(
            algorithms=[name for name in ALGORITHMS if name in algorithms], strict_check_header=False
        )
        try:
            id_token = await self._decode(metadata, token, registry)
            claims = CodeIDToken(
                id_token.claims,
                id_token.header,
                {
                    "iss": {"essential": True, "value": self.config.issuer},
                    "aud": {"essential": True, "value": self.config.client_id},
                    "exp": {"essential": True},
                    "iat": {"essential": True},
                    "sub": {"essential": True},
                },
                {"nonce": nonce, "client_id": self.config.client_id, "access_token": access_token},
            )
            claims.validate(now=int(self._clock()), leeway=SKEW)
        except (JoseError, ValueError, TypeError) as error:  # not with its text, which may quote the token
            raise SignInFailed(
                "invalid",
                f"the ID token was refused: {getattr(error, 'error', None) or type(error).__name__}",
            ) from None
        return dict(claims)

    async def _decode(self, metadata: Mapping[str, object], token: str, registry: JWSRegistry) -> jwt.Token:
        try:
            return jwt.decode(token, await self._key_set(metadata), registry=registry)
        except InvalidKeyIdError:  # the issuer has new keys
            return jwt.decode(token, await self._key_set(metadata, refresh=True), registry=registry)

    def _identity(self, claims: Mapping[str, object]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= 255:
            raise SignInFailed("invalid", "the ID token has no subject")
        email = claims.get("email")
        is_verified = claims.get("email_verified") is True or claims.get("email_verified") == "true"
        name = claims.get("name") or claims.get("preferred_username") or ""
        return Identity(
            self.config.issuer,
            subject,
            _address(email) if is_verified else "",
            name if isinstance(name, str) else "",
            _groups(claims.get(self.config.groups_claim)) if self.config.groups_claim else None,
        )

    # ── requests ──

    async def _fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> dict[str, object]:
        self._check_host(url, urlsplit(url).path or "/")
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=SECONDS),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=True,
                ) as session,
                session.request(
                    "GET" if body is None else "POST",
                    url,
                    data=body,
                    headers={"accept": "application/json", **(headers or {})},
                    allow_redirects=False,
                ) as response,
            ):
                content = await _read_bounded(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise SignInFailed("provider", f"the issuer cannot be reached: {type(error).__name__}") from None
        return _document(response.status, content)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for chunk in response.content.iter_chunked(65536):
        content += chunk
        if len(content) > LARGEST:
            raise SignInFailed("provider", "the issuer's answer is too large")
    return content


def _document(status: int, content: bytes) -> dict[str, object]:
    """Parse a response. Of an error, keep only the code of RFC 6749: the description may quote what was sent."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if status != 200:
        code = document.get("error") if isinstance(document, dict) else None
        reason = code if isinstance(code, str) and code.isascii() and len(code) < 60 else "no reason"
        raise SignInFailed(
            "invalid" if 400 <= status < 500 else "provider", f"the issuer answered {status} ({reason})"
        )
    if not isinstance(document, dict):
        raise SignInFailed("provider", "the issuer's answer is not a JSON object")
    return document


def _usable_keys(document: Mapping[str, object]) -> Any:
    """Only public keys for signatures, of known types."""
    keys = document.get("keys")
    usable = [
        key
        for key in (keys if isinstance(keys, list) else [])
        if isinstance(key, dict) and key.get("kty") in {"RSA", "EC", "OKP"} and key.get("use", "sig") == "sig"
    ]
    return {"keys": usable}


def _address(email: object) -> str:
    """Return the e-mail address if it has both parts, otherwise "".

    People's names are compared in a normalized form. Two different addresses must not become equal by that, such as
    straße.example and strasse.example: they may belong to different people.
    """
    name, _, domain = email.strip().lower().rpartition("@") if isinstance(email, str) else ("", "", "")
    address = f"{name}@{domain}"
    return address if name and domain and folded(address) == address else ""


def _groups(claim: object) -> tuple[str, ...]:
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return tuple(dict.fromkeys(value.strip() for value in values if isinstance(value, str) and value.strip()))
