"""Resolves a name to a route: the model or agent that answers, with the caller's keys and settings."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
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

_MOST = 64  # callers whose catalog is cached, and routes in each


@dataclass(frozen=True, slots=True)
class Route:
    name: str  # as callers see it: `gpt-5`, `codex`
    provider: str
    answer: Callable[[Call], AsyncGenerator[Event]]
    cost: Callable[[Usage], float | None]
    model: Model | None = None  # None: an agent, which knows its own limits
    wire: str = ""  # the format of its API; an agent has none
    account: str = ""  # differs between callers with different keys or addresses

    @property
    def is_agent(self) -> bool:
        return self.model is None


def repeats(routes: Iterable[Route | None]) -> list[bool]:
    """For each route, whether an earlier one leads to the same model: they must not share a cached answer."""
    models: set[tuple[str, str]] = set()
    flags = []
    for route in routes:
        model = (route.provider, route.name) if route else None
        flags.append(model in models)
        if model:
            models.add(model)
    return flags


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

    async def wait_for_refresh(self) -> None:
        """Wait until no list of a team's models is being fetched."""
        await self._refresh.idle()

    async def close(self) -> None:
        await self._refresh.close()
        await self.transport.close()

    def catalog(self, caller: Caller) -> Catalog:
        return self._catalog_of(caller).catalog

    def _catalog_of(self, caller: Caller) -> _CallerCatalog:
        settings = caller.settings
        if settings.team:
            self._refresh.soon(settings)
        entry = self._catalogs.get(id(settings))
        if entry is None or entry.settings is not settings:
            entry = self._catalogs[id(settings)] = _CallerCatalog(settings, Catalog.load(settings))
            logs.warn_once(entry.catalog.problems)
            while len(self._catalogs) > _MOST:
                self._catalogs.popitem(last=False)
        return entry

    def route(self, name: str, caller: Caller) -> Route:
        """The route for this name. Raises `ModelNotFound`, `SelfConsultation` or `Unavailable`, with a hint."""
        driver = registry.resolve(name)
        recursion.check(caller, driver.agent if driver else None)
        if driver:
            server_machine.check_agent(driver.name, caller)
            return _to_agent(driver, caller)
        entry = self._catalog_of(caller)
        if name not in entry.routes:
            if len(entry.routes) > _MOST:
                entry.routes.clear()
            entry.routes[name] = self._to_model(entry.catalog.resolve(name), caller)
        return entry.routes[name]

    def auto(self, caller: Caller, needs: Needs) -> list[Route]:
        """All models that could answer, best first. Raises if there is none."""
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

        def answer(call: Call) -> AsyncGenerator[Event]:
            if successor is None:
                return self._stream(call, target, limits)
            return self._stream_or_successor(call, target, successor, limits)

        return _route(target, answer)

    def _to_team(self, target: Target, caller: Caller) -> Route:
        """A route through the team's server, which knows the successors of retired models; while it is unreachable,
        this machine's own key may be used."""
        model, settings = target.model, caller.settings
        limits = limits_of(settings)
        team_limits = replace(limits, connect=min(limits.connect, CONNECT))
        own = self.catalog(caller).own_target(model) if settings.team_offline == "local" else None

        def answer(call: Call) -> AsyncGenerator[Event]:
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
                        f"Check the network or the VPN. To work offline, this machine needs its own key for {name}: "
                        f"`counsel keys set {name}`."
                    )
                raise
            message = error.message
        else:
            return
        text = (
            f"Offline: {own.model.id} was asked with this machine's own key, not through the team. {message}"
        )
        yield Notice("warning", text, {"team": target.endpoint.base_url, "offline": True})
        async with aclosing(self._stream(portable(call), own, limits_of(settings))) as events:
            async for event in events:
                yield event

    def _stream(self, call: Call, target: Target, limits: Limits) -> AsyncGenerator[Event]:
        search_target = target.searching() if call.model_settings.web_search else target
        return self.transport.stream(call, search_target.model, search_target.endpoint, limits)

    async def _stream_or_successor(
        self, call: Call, target: Target, successor: Target, limits: Limits
    ) -> AsyncGenerator[Event]:
        """Ask the successor, with a notice, if the model is retired: its vendor then answers 404 before any text."""
        has_text = False
        try:
            async with aclosing(self._stream(call, target, limits)) as events:
                async for event in events:
                    has_text = has_text or type(event) is Text
                    yield event
        except ModelNotFound:
            if has_text:
                raise
            old, new = target.model.id, successor.model.id
            data = {"model": old, "successor": new}
            yield Notice("warning", f"The provider no longer offers {old}; {new} was asked instead.", data)
        else:
            return
        async with aclosing(self._stream(call, successor, limits)) as events:
            async for event in events:
                yield event


def _route(target: Target, answer: Callable[[Call], AsyncGenerator[Event]]) -> Route:
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
