"""Routes: from a name to the model or agent that answers, with this caller's keys and settings."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import field, replace

from counsel import logs
from counsel.agents import registry
from counsel.caller import Caller
from counsel.engine.consult import recursion
from counsel.engine.context import server_machine
from counsel.errors import CounselError, ModelNotFound
from counsel.lazy_dataclass import dataclass
from counsel.models import prices
from counsel.models.auto import Needs, candidates, no_candidates
from counsel.models.catalog import Catalog, Target
from counsel.models.team import CONNECT, Refresh
from counsel.models.transport import Transport
from counsel.models.wires.counsel import portable
from counsel.settings import Settings
from counsel.types import Call, Endpoint, Event, Limits, Model, Notice, Text, Usage

_MOST = 64  # callers whose catalog is kept ready, and routes in each


@dataclass(frozen=True, slots=True)
class Route:
    name: str  # what the caller reads: `gpt-5`, `codex`
    provider: str
    answer: Callable[[Call], AsyncIterator[Event]]
    cost: Callable[[Usage], float | None]
    model: Model | None = None  # None: an agent, which knows its own limits
    wire: str = ""  # the format of its API; an agent has none
    account: str = ""  # differs between callers with different keys or addresses

    @property
    def is_agent(self) -> bool:
        return self.model is None


def repeats(routes: Iterable[Route | None]) -> list[bool]:
    """Whether an earlier one leads to the same model: the two must not share a cached answer."""
    seen: set[tuple[str, str]] = set()
    repeated = []
    for route in routes:
        model = (route.provider, route.name) if route else None
        repeated.append(model in seen)
        if model:
            seen.add(model)
    return repeated


@dataclass(frozen=True, slots=True)
class _CallerCatalog:
    """One caller's catalog, and the routes that were resolved from it."""

    settings: Settings
    catalog: Catalog
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._catalogs: OrderedDict[int, _CallerCatalog] = OrderedDict()
        self._refresh = Refresh(transport)

    async def refreshed(self) -> None:
        """Wait until no list of a team's models is being read."""
        await self._refresh.idle()

    async def close(self) -> None:
        await self._refresh.close()
        await self.transport.close()

    def catalog(self, caller: Caller) -> Catalog:
        return self._cached(caller).catalog

    def _cached(self, caller: Caller) -> _CallerCatalog:
        settings = caller.settings
        if settings.team:
            self._refresh.soon(settings)
        cached = self._catalogs.get(id(settings))
        if cached is None or cached.settings is not settings:
            cached = self._catalogs[id(settings)] = _CallerCatalog(settings, Catalog.load(settings))
            logs.warn_once(cached.catalog.problems)
            while len(self._catalogs) > _MOST:
                self._catalogs.popitem(last=False)
        return cached

    def route(self, name: str, caller: Caller) -> Route:
        """The route of this name. Raises `ModelNotFound`, `SelfConsultation`, or `Unavailable`, with a hint."""
        driver = registry.resolve(name)
        recursion.check(caller, driver.agent if driver else None)
        if driver:
            server_machine.check_agent(driver.name, caller)
            return _to_agent(driver, caller)
        cached = self._cached(caller)
        if name not in cached.routes:
            if len(cached.routes) > _MOST:
                cached.routes.clear()
            cached.routes[name] = self._to_model(cached.catalog.resolve(name), caller)
        return cached.routes[name]

    def auto(self, caller: Caller, needs: Needs) -> list[Route]:
        """All models that could answer, best first. Never empty: raises if there is none."""
        recursion.check(caller)
        catalog, order = self.catalog(caller), caller.settings.auto_order
        targets = candidates(catalog, needs, order)
        if not targets:
            raise no_candidates(catalog, needs, order)
        return [self._to_model(target, caller) for target in targets]

    def _to_model(self, target: Target, caller: Caller) -> Route:
        if target.endpoint.team:
            return self._to_team(target, caller)
        model = target.model
        limits = limits_of(caller.settings)
        successor = self.catalog(caller).successor(model)
        prices.warm(model)

        def answer(call: Call) -> AsyncIterator[Event]:
            if successor is None:
                return self._stream(call, target, limits)
            return self._stream_or_successor(call, target, successor, limits)

        return _route(target, answer)

    def _to_team(self, target: Target, caller: Caller) -> Route:
        """The team's server knows its vendors' successors; offline, this machine's own key may be used."""
        model, settings = target.model, caller.settings
        limits = limits_of(settings)
        team_limits = replace(limits, connect=min(limits.connect, CONNECT))
        own = self.catalog(caller).own_target(model) if settings.team_offline == "local" else None

        def answer(call: Call) -> AsyncIterator[Event]:
            return self._stream_from_team(call, target, own, settings, team_limits)

        return _route(target, answer)

    async def _stream_from_team(
        self, call: Call, target: Target, own: Target | None, settings: Settings, limits: Limits
    ) -> AsyncGenerator[Event]:
        try:
            async with aclosing(self._stream(call, target, limits)) as events:
                async for event in events:
                    yield event
        except ModelNotFound:
            self._refresh.soon(settings, now=True)
            raise
        except CounselError as error:
            if not error.fields.get("unreachable") or error.partial:
                raise
            if own is None:
                if settings.team_offline == "local":
                    name = target.model.provider
                    error.hint = (
                        f"Check the network or the VPN. This machine has no key of its own for {name}, which it could use "
                        f"while it is offline: `counsel keys set {name}`."
                    )
                raise
            message = error.message
        else:
            return
        text = f"Offline: {own.model.id} was asked with this machine's own key, and not through the team. {message}"
        yield Notice("warning", text, {"team": target.endpoint.base_url, "offline": True})
        async with aclosing(self._stream(portable(call), own, limits_of(settings))) as events:
            async for event in events:
                yield event

    def _stream(self, call: Call, target: Target, limits: Limits) -> AsyncGenerator[Event]:
        searched = target.searching() if call.knobs.web_search else target
        return self.transport.stream(call, searched.model, searched.endpoint, limits)

    async def _stream_or_successor(
        self, call: Call, target: Target, successor: Target, limits: Limits
    ) -> AsyncGenerator[Event]:
        """A vendor that has retired a model answers 404 before anything else: then its successor is asked, and a notice says so."""
        started = False
        try:
            async with aclosing(self._stream(call, target, limits)) as events:
                async for event in events:
                    started = started or type(event) is Text
                    yield event
        except ModelNotFound:
            if started:
                raise
            retired, now = target.model.id, successor.model.id
            data = {"model": retired, "successor": now}
            yield Notice(
                "warning", f"The provider no longer offers {retired}; {now} was asked instead.", data
            )
        else:
            return
        async with aclosing(self._stream(call, successor, limits)) as events:
            async for event in events:
                yield event


def _route(target: Target, answer: Callable[[Call], AsyncIterator[Event]]) -> Route:
    model = target.model
    return Route(
        model.id,
        model.provider,
        answer,
        lambda usage: prices.cost(model, usage),
        model,
        target.endpoint.provider.wire,
        _account(target.endpoint),
    )


def _account(endpoint: Endpoint) -> str:
    return hashlib.sha256(f"{endpoint.base_url} {endpoint.key}".encode()).hexdigest()


def _to_agent(driver: registry.AskableAgent, caller: Caller) -> Route:
    limits = limits_of(caller.settings)
    return Route(
        driver.name, driver.agent.name, lambda call: driver.answer(call, caller, limits), lambda _: None
    )


def limits_of(settings: Settings) -> Limits:
    total = settings.request_timeout_ms / 1000
    return Limits(
        total=total,
        connect=min(settings.connect_timeout_ms / 1000, total),
        first_event=min(settings.first_event_timeout_ms / 1000, total),
        idle=min(settings.idle_timeout_ms / 1000, total),
        attempts=settings.max_attempts,
        answer=settings.max_answer_bytes,
    )
