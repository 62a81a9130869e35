"""The catalog of someone who has joined a team: questions to APIs go to the team's server, with its models and keys.

Providers that need no key (`local`, a server of one's own) and agents stay as they are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from counsel.errors import CounselError, UpstreamError
from counsel.models.catalog_rows import Rows, fold
from counsel.models.connections import proxies
from counsel.settings import Settings
from counsel.team_login import TeamLogin, read, write_models
from counsel.types import Endpoint, Limits, Model, Network, Provider

if TYPE_CHECKING:
    from counsel.models.transport import Transport

WIRE = "counsel"
PATH = "/v1/counsel"
FRESH_SECONDS = 300.0  # seconds before the list of models is requested again
LIMITS = Limits(total=10.0, connect=3.0, first_event=10.0, idle=10.0)
CONNECT = 3.0  # seconds: someone who is offline should learn it soon


class TeamCatalog:
    """Which models the server offers to this person, and the endpoint for them."""

    def __init__(self, login: TeamLogin, settings: Settings) -> None:
        self.login = login
        self._network = proxies.network(settings.env, login.url)
        self._open = {row["name"] for row in login.providers if row.get("open")}
        self._providers = {row["name"] for row in login.providers}
        self._ids = {(row["provider"], row["id"]) for row in login.models}
        self._wire_ids = {(row["provider"], row["wire_id"]) for row in login.models}

    def takes(self, provider: Provider) -> bool:
        return provider.key_required

    def provider_reason(self, provider: Provider) -> str:
        if self.login.problem:
            return f"{self.login.problem} Run `counsel login` again, or `counsel logout`."
        if not self.login.asked_at or provider.name in self._providers:
            return ""  # without a list, the server decides
        return f"The team server {self.login.host} does not offer {provider.label}."

    def reason(self, model: Model, provider: Provider) -> str:
        if reason := self.provider_reason(provider):
            return reason
        if not self.login.asked_at:
            return ""
        is_offered = (model.provider, model.id) in self._ids or (
            model.provider,
            model.wire_id,
        ) in self._wire_ids
        if is_offered or (not model.listed and model.provider in self._open):
            return ""
        return f"The team server {self.login.host} does not offer this model."

    def endpoint(self, provider: Provider) -> Endpoint:
        return endpoint(self.login, self._network, provider)

    def name_of(self, model: Model) -> str:
        """The model's name for the server, with its provider: without it, the name may be someone's alias there."""
        if (model.provider, model.id) in self._ids:
            return f"{model.provider}/{model.id.removeprefix(f'{model.provider}/')}"
        return f"{model.provider}/{model.wire_id}"


def endpoint(login: TeamLogin, network: Network, provider: Provider) -> Endpoint:
    """The team's server in place of the provider."""
    server = replace(
        provider,
        label=f"The team server {login.host}",
        wire=WIRE,
        base_url=login.url,
        base_url_env="",
        key_envs=(),
        key_url="",
        headers={},
        options={},
    )
    return Endpoint(server, login.url, login.token, network, team=True)


def with_offered(rows: Rows, login: TeamLogin) -> Rows:
    """The rows, with models of the server that this release does not know."""
    rows = rows.copy()
    for row in login.providers:
        if (name := row["name"]) not in rows.providers:
            label = str(row.get("label") or name)
            rows.providers[name] = Provider(name, label, WIRE, login.url, open_models=bool(row.get("open")))
            rows.defaults[name] = {}
    known_ids = {(model.provider, model.wire_id) for model in rows.models.values()}
    for row in login.models:
        is_new = (row["provider"], row["wire_id"]) not in known_ids and row["id"] not in rows.models
        if is_new and row["provider"] in rows.providers and fold(row["id"]) not in rows.names:
            model = _model(row)
            rows.models[model.id] = model
            rows.names[fold(model.id)] = model.id
    return rows


def _model(row: Mapping[str, Any]) -> Model:
    temperature = row.get("temperature")
    return Model(
        id=row["id"],
        provider=row["provider"],
        wire_id=row["wire_id"],
        label=str(row.get("label") or ""),
        context=_number(row, "context", 128_000),
        output=_number(row, "output", 8_192),
        vision=row.get("vision") is True,
        tools=row.get("tools") is True,
        web_search=row.get("web_search") is True,
        temperature=(float(temperature[0]), float(temperature[1]))
        if isinstance(temperature, list) and len(temperature) == 2
        else None,
        efforts={level: level for level in row.get("efforts") or () if isinstance(level, str)},
        verbosity=row.get("verbosity") is True,
        media_resolution=row.get("media_resolution") is True,
        auto_rank=row["auto_rank"] if isinstance(row.get("auto_rank"), int) else None,
    )


def _number(row: Mapping[str, Any], name: str, default: int) -> int:
    value = row.get(name)
    return value if isinstance(value, int) and value > 0 else default


# ── asking the server ────────────────────────────────────────────────────────────────────────────────


async def share(
    transport: Transport, login: TeamLogin, env: Mapping[str, str], conversation: str, *, on: bool
) -> Mapping[str, object]:
    """Share the person's conversation with the team, or stop sharing it. Returns the conversation."""
    server = endpoint(login, proxies.network(env, login.url), Provider("team", "", WIRE, login.url))
    path = f"/api/conversations/{quote(conversation, safe='')}/{'share' if on else 'unshare'}"
    return await transport.get_json(server, path, LIMITS, body=b"{}")


async def ask(transport: Transport, login: TeamLogin, env: Mapping[str, str]) -> Mapping[str, object]:
    """What the server says about itself and this person. Raises `CounselError`, also if it is not a counsel server."""
    provider = Provider("team", "", WIRE, login.url)
    server = endpoint(login, proxies.network(env, login.url), provider)
    document = await transport.get_json(server, PATH, LIMITS)
    if not isinstance(document.get("counsel"), str) or not isinstance(document.get("models"), list):
        raise UpstreamError(
            f"{login.url} is not a counsel server.",
            hint="Check the address, and whether a proxy is in between.",
        )
    return document


def remember(settings: Settings, login: TeamLogin, document: Mapping[str, object]) -> None:
    """Store what the server offers now."""
    current = read(settings.home)
    if current is not None and current.identity == login.identity:  # the login has not changed since
        write_models(settings.home, login.url, login.person, document)


class Refresh:
    """Keeps the list of models up to date, in the background of calls that use it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._asked_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def soon(self, settings: Settings, *, now: bool = False) -> None:
        """Request the list in the background if it is old; with `now`, even if it is recent, because it was wrong."""
        login = settings.team
        if login is None or login.problem:
            return
        age = time.time() - login.asked_at
        is_recent = time.monotonic() - self._asked_at.get(login.identity, -FRESH_SECONDS) < (
            5.0 if now else FRESH_SECONDS
        )
        if is_recent or (not now and 0 <= age < FRESH_SECONDS):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a thread: a later call does it
            return
        self._asked_at[login.identity] = time.monotonic()
        task = loop.create_task(self._ask(login, settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, login: TeamLogin, settings: Settings) -> None:
        try:
            document = await ask(self._transport, login, settings.env)
            await asyncio.to_thread(remember, settings, login, document)
        except (CounselError, OSError):
            return  # the call itself reports what is wrong

    async def idle(self) -> None:
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
