"""What the console's server accepts from an OpenID Connect issuer, and what it never does."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from counsel import settings as settings_
from counsel.errors import ConfigInvalid
from counsel.http.team import oidc_config
from counsel.http.team.oidc import FRESH_SECONDS, KEYS_AGAIN, SKEW, Identity, Issuer, SignInFailed
from support.oidc_provider import CLIENT, SECRET, OidcProvider, new_key, new_rsa_key, query_of

PUBLIC = "https://counsel.example.com"
VERIFIER = "v" * 43


class Clock:
    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.time() + self.skipped


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider().running() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


def oidc_settings(issuer: str, **changes: str) -> oidc_config.OidcConfig:
    env = {
        "COUNSEL_OIDC_ISSUER": issuer,
        "COUNSEL_OIDC_CLIENT_ID": CLIENT,
        "COUNSEL_OIDC_CLIENT_SECRET": SECRET,
        "COUNSEL_PUBLIC_URL": PUBLIC,
        "HOME": "/nonexistent",
    }
    config = oidc_config.read(settings_.load(env | changes))
    assert config is not None
    return config


@pytest.fixture
def issuer(provider: OidcProvider, clock: Clock) -> Issuer:
    return Issuer(oidc_settings(provider.url), clock)


async def sign_in(issuer: Issuer, provider: OidcProvider, *, nonce: str = "n-1") -> Identity:
    url = await issuer.authorization_url(state="s-1", nonce="n-1", verifier=VERIFIER)
    answer = provider.authorize(query_of(url))
    return await issuer.identity(query_of(answer)["code"], nonce=nonce, verifier=VERIFIER)


async def refusal(issuer: Issuer, provider: OidcProvider, **options: Any) -> SignInFailed:
    with pytest.raises(SignInFailed) as error:
        await sign_in(issuer, provider, **options)
    assert SECRET not in str(error.value)
    return error.value


async def test_the_browser_is_sent_to_the_issuer_with_pkce_state_and_nonce(
    issuer: Issuer, provider: OidcProvider
) -> None:
    url = await issuer.authorization_url(state="s-1", nonce="n-1", verifier=VERIFIER)
    assert url.startswith(f"{provider.url}/authorize?")
    query = query_of(url)
    assert query["redirect_uri"] == f"{PUBLIC}/login/callback"
    assert query["code_challenge_method"] == "S256"
    assert (query["state"], query["nonce"], query["scope"]) == ("s-1", "n-1", "openid email profile")
    assert VERIFIER not in url
    assert SECRET not in url


async def test_a_code_becomes_an_identity(issuer: Issuer, provider: OidcProvider) -> None:
    provider.claims |= {"name": "Ada", "email": " Ada@Example.com"}
    identity = await sign_in(issuer, provider)
    assert identity == Identity(provider.url, "subject-1", "ada@example.com", "Ada", None)


async def test_keys_of_every_usual_kind_are_known(issuer: Issuer, provider: OidcProvider) -> None:
    provider.keys = [new_rsa_key("rsa")]
    assert (await sign_in(issuer, provider)).subject == "subject-1"


async def test_an_address_that_the_issuer_has_not_verified_does_not_count(
    issuer: Issuer, provider: OidcProvider
) -> None:
    for value in (False, None, "false", 1, ["true"]):
        provider.claims["email_verified"] = value
        assert (await sign_in(issuer, provider)).email == ""


async def test_a_code_works_only_with_its_verifier(issuer: Issuer, provider: OidcProvider) -> None:
    url = await issuer.authorization_url(state="s-1", nonce="n-1", verifier=VERIFIER)
    code = query_of(provider.authorize(query_of(url)))["code"]
    with pytest.raises(SignInFailed, match="invalid_grant"):
        await issuer.identity(code, nonce="n-1", verifier="w" * 43)


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"nonce": "another"}, "invalid_claim"),
        ({"nonce": None}, "invalid_claim"),
        ({"aud": "another-client"}, "invalid_claim"),
        ({"aud": [CLIENT, "another-client"]}, "missing_claim"),  # without azp
        ({"aud": [CLIENT, "another-client"], "azp": "another-client"}, "invalid_claim"),
        ({"iss": "https://elsewhere.example"}, "invalid_claim"),
        ({"exp": -SKEW - 30}, "expired_token"),
        ({"exp": None}, "missing_claim"),
        ({"iat": None}, "missing_claim"),
        ({"iat": SKEW + 600}, ""),
        ({"nbf": SKEW + 600}, ""),
        ({"sub": ""}, ""),
        ({"sub": 7}, ""),
    ],
)
async def test_a_token_that_is_not_for_this_sign_in_is_refused(
    issuer: Issuer, provider: OidcProvider, claims: dict[str, Any], word: str
) -> None:
    now = int(time.time())  # times are relative to now: the test may run long after it was collected
    moments = {name: now + claims[name] for name in ("exp", "iat", "nbf") if claims.get(name) is not None}
    provider.claims |= claims | moments
    failure = await refusal(issuer, provider)
    assert failure.problem == "invalid"
    assert word in str(failure)


async def test_another_nonce_is_refused(issuer: Issuer, provider: OidcProvider) -> None:
    assert (await refusal(issuer, provider, nonce="n-2")).problem == "invalid"


async def test_clocks_may_differ_by_a_minute(issuer: Issuer, provider: OidcProvider, clock: Clock) -> None:
    provider.claims |= {"exp": int(time.time()) - SKEW + 30, "iat": int(time.time()) + SKEW - 30}
    assert (await sign_in(issuer, provider)).subject == "subject-1"
    clock.skipped = 2 * SKEW
    assert "expired_token" in str(await refusal(issuer, provider))


async def test_a_token_without_a_signature_is_refused(issuer: Issuer, provider: OidcProvider) -> None:
    def unsigned(claims: dict[str, Any]) -> str:
        parts = ({"alg": "none", "kid": "key-1"}, claims)
        return ".".join(
            [*(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts), ""]
        )

    provider.forge = unsigned
    provider.changes = {"id_token_signing_alg_values_supported": ["none", "HS256", "ES256"]}
    assert (await refusal(issuer, provider)).problem == "invalid"


async def test_the_clients_secret_signs_nothing(issuer: Issuer, provider: OidcProvider) -> None:
    provider.changes = {"id_token_signing_alg_values_supported": ["HS256", "ES256"]}
    provider.forge = lambda claims: jwt.encode(
        {"alg": "HS256", "kid": "key-1"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"]
    )
    assert (await refusal(issuer, provider)).problem == "invalid"


async def test_a_signature_of_another_key_is_refused(issuer: Issuer, provider: OidcProvider) -> None:
    other_key = new_key("key-1")
    provider.forge = lambda claims: jwt.encode({"alg": "ES256", "kid": "key-1"}, claims, other_key)
    assert (await refusal(issuer, provider)).problem == "invalid"


async def test_new_keys_of_the_issuer_are_read_when_they_are_used(
    issuer: Issuer, provider: OidcProvider, clock: Clock
) -> None:
    await sign_in(issuer, provider)
    provider.rotate()
    await refusal(issuer, provider)  # not more often than every ten seconds
    assert provider.requests.count("/keys") == 1
    clock.skipped = KEYS_AGAIN + 1
    assert (await sign_in(issuer, provider)).subject == "subject-1"
    assert provider.requests.count("/keys") == 2
    clock.skipped = 2 * KEYS_AGAIN + 2
    await sign_in(issuer, provider)
    assert provider.requests.count("/keys") == 2


async def test_an_issuer_that_is_down_says_so_and_is_asked_again(
    issuer: Issuer, provider: OidcProvider, clock: Clock
) -> None:
    provider.status = 503
    assert (await refusal(issuer, provider)).problem == "provider"
    provider.status = 200
    await sign_in(issuer, provider)
    provider.status = 500
    assert (await refusal(issuer, provider)).problem == "provider"
    clock.skipped = FRESH_SECONDS + 1
    assert await issuer.metadata()  # its earlier answer still holds


async def test_no_issuer_at_all_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    issuer = Issuer(oidc_settings(f"http://127.0.0.1:{port}"))
    with pytest.raises(SignInFailed, match="cannot be reached") as error:
        await issuer.metadata()
    assert error.value.problem == "provider"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": "https://elsewhere.example/token"},
        {"jwks_uri": "https://elsewhere.example/keys"},
        {"authorization_endpoint": "https://elsewhere.example/authorize"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"jwks_uri": None},
    ],
)
async def test_no_other_host_than_the_issuer_is_used(
    issuer: Issuer, provider: OidcProvider, changes: dict[str, Any]
) -> None:
    provider.changes = changes
    assert (await refusal(issuer, provider)).problem == "provider"
    assert set(provider.requests) == {"/.well-known/openid-configuration"}


async def test_a_second_host_can_be_allowed(provider: OidcProvider) -> None:
    with OidcProvider().running() as second:
        provider.changes = {"jwks_uri": f"{second.url}/keys"}
        second.keys = provider.keys
        host = second.url.removeprefix("http://")
        issuer = Issuer(oidc_settings(provider.url, COUNSEL_OIDC_HOSTS=host))
        assert (await sign_in(issuer, provider)).subject == "subject-1"
        assert second.requests == ["/keys"]


async def test_an_answer_that_names_another_issuer_is_refused(issuer: Issuer, provider: OidcProvider) -> None:
    await issuer.check_answer(None)
    await issuer.check_answer(provider.url)
    with pytest.raises(SignInFailed):
        await issuer.check_answer("https://elsewhere.example")


async def test_groups_come_from_the_claim_that_is_named(provider: OidcProvider) -> None:
    issuer = Issuer(oidc_settings(provider.url, COUNSEL_OIDC_GROUPS_CLAIM="roles"))
    provider.claims |= {"roles": ["ops", "ops", " web ", 7, ""]}
    assert (await sign_in(issuer, provider)).groups == ("ops", "web")
    provider.claims |= {"roles": "ops"}
    assert (await sign_in(issuer, provider)).groups == ("ops",)
    del provider.claims["roles"]
    assert (await sign_in(issuer, provider)).groups == ()


@pytest.mark.parametrize(
    "env",
    [
        {"COUNSEL_OIDC_ISSUER": "http://login.example.com"},
        {"COUNSEL_OIDC_ISSUER": "login.example.com"},
        {"COUNSEL_OIDC_ISSUER": "https://user:password@login.example.com"},
        {"COUNSEL_OIDC_CLIENT_ID": ""},
        {"COUNSEL_PUBLIC_URL": ""},
        {"COUNSEL_PUBLIC_URL": "http://counsel.example.com"},
        {"COUNSEL_OIDC_ROLES": "ops"},
        {"COUNSEL_OIDC_ROLES": "ops=king"},
        {"COUNSEL_OIDC_ISSUER": "https://accounts.google.com", "COUNSEL_OIDC_CREATE": "member"},
        {"COUNSEL_OIDC_ISSUER": "https://GitLab.com", "COUNSEL_OIDC_CREATE": "member"},
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(env: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid) as error:
        oidc_settings(env.get("COUNSEL_OIDC_ISSUER", "https://login.example.com"), **env)
    assert "password" not in str(error.value)


def test_whoever_has_an_account_at_a_public_issuer_is_added_only_with_a_domain() -> None:
    google, member = "https://accounts.google.com", {"COUNSEL_OIDC_CREATE": "member"}
    assert oidc_settings(google, **member, COUNSEL_OIDC_ALLOWED_DOMAINS="example.com").creates
    assert not oidc_settings(google).creates
    assert oidc_settings("https://login.example.com", **member).creates


def test_the_clients_secret_is_not_shown() -> None:
    assert SECRET not in repr(oidc_settings("https://login.example.com"))
