"""The catalog of someone who has joined a team: API questions go to the team's server, with its models and its keys.

Providers that need no key (`local`, one's own server) and agents stay as they are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from counsel.errors import CounselError, UpstreamError
from counsel.models import proxies
from counsel.models.catalog_rows import Rows, fold
from counsel.settings import Settings
from counsel.team_login import TeamLogin, read, write_models
from counsel.types import Endpoint, Limits, Model, Network, Provider

if TYPE_CHECKING:
    from counsel.models.transport import Transport

WIRE = "counsel"
PATH = "/v1/counsel"
FRESH = 300.0  # seconds for which a list of models is not asked for again
ASKING = Limits(total=10.0, connect=3.0, first_event=10.0, idle=10.0)
CONNECT = 3.0  # seconds: whoever is offline should know it soon


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
            return ""  # without a list the server decides
        return f"The team server {self.login.host} does not offer {provider.label}."

    def reason(self, model: Model, provider: Provider) -> str:
        if reason := self.provider_reason(provider):
            return reason
        if not self.login.asked_at:
            return ""
        known = (model.provider, model.id) in self._ids or (model.provider, model.wire_id) in self._wire_ids
        if known or (not model.listed and model.provider in self._open):
            return ""
        return f"The team server {self.login.host} does not offer this model."

    def endpoint(self, provider: Provider) -> Endpoint:
        return endpoint(self.login, self._network, provider)

    def name_of(self, model: Model) -> str:
        """The model's name at the server, with its provider: there a name alone may be someone's alias."""
        if (model.provider, model.id) in self._ids:
            return f"{model.provider}/{model.id.removeprefix(f'{model.provider}/')}"
        return f"{model.provider}/{model.wire_id}"


def endpoint(login: TeamLogin, network: Network, provider: Provider) -> Endpoint:
    """The team's server in place of the provider."""
    replaced = replace(
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
    return Endpoint(replaced, login.url, login.token, network, team=True)


def with_offered(rows: Rows, login: TeamLogin) -> Rows:
    """The rows with the server's models that this release does not know."""
    rows = rows.copy()
    for row in login.providers:
        if (name := row["name"]) not in rows.providers:
            label = str(row.get("label") or name)
            rows.providers[name] = Provider(name, label, WIRE, login.url, open_models=bool(row.get("open")))
            rows.defaults[name] = {}
    known = {(model.provider, model.wire_id) for model in rows.models.values()}
    for row in login.models:
        is_new = (row["provider"], row["wire_id"]) not in known and row["id"] not in rows.models
        if is_new and row["provider"] in rows.providers and fold(row["id"]) not in rows.names:
            model = _model(row)
            rows.models[model.id] = model
            rows.names[fold(model.id)] = model.id
    return rows


def _model(row: Mapping[str, Any]) -> Model:
    low_high = row.get("temperature")
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
        temperature=(float(low_high[0]), float(low_high[1]))
        if isinstance(low_high, list) and len(low_high) == 2
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
    """Share a conversation of the person at the server with the team, or no longer: the conversation."""
    where = endpoint(login, proxies.network(env, login.url), Provider("team", "", WIRE, login.url))
    path = f"/api/conversations/{quote(conversation, safe='')}/{'share' if on else 'unshare'}"
    return await transport.get_json(where, path, ASKING, body=b"{}")


async def ask(transport: Transport, login: TeamLogin, env: Mapping[str, str]) -> Mapping[str, object]:
    """What the server says about itself and this person. Raises `CounselError`, also if it is not counsel."""
    provider = Provider("team", "", WIRE, login.url)
    where = endpoint(login, proxies.network(env, login.url), provider)
    about = await transport.get_json(where, PATH, ASKING)
    if not isinstance(about.get("counsel"), str) or not isinstance(about.get("models"), list):
        raise UpstreamError(
            f"{login.url} is not a counsel server.",
            hint="Check the address, and whether a proxy is in between.",
        )
    return about


def remember(settings: Settings, login: TeamLogin, about: Mapping[str, object]) -> None:
    """Keep what the server offers now."""
    now = read(settings.home)
    if now is not None and now.identity == login.identity:  # nobody has logged in elsewhere meanwhile
        write_models(settings.home, login.url, login.person, about)


class Refresh:
    """Keeps the list of models current, in the background of calls that use it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._asked: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def soon(self, settings: Settings, *, now: bool = False) -> None:
        """`now`: what it said before is wrong."""
        login = settings.team
        if login is None or login.problem:
            return
        age = time.time() - login.asked_at
        recently = time.monotonic() - self._asked.get(login.identity, -FRESH) < (5.0 if now else FRESH)
        if recently or (not now and 0 <= age < FRESH):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a thread: a later call does it
            return
        self._asked[login.identity] = time.monotonic()
        task = loop.create_task(self._ask(login, settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, login: TeamLogin, settings: Settings) -> None:
        try:
            about = await ask(self._transport, login, settings.env)
            await asyncio.to_thread(remember, settings, login, about)
        except (CounselError, OSError):
            return  # the call itself reports what is wrong

    async def idle(self) -> None:
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
