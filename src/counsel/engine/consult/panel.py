"""`auto` in a consensus: models of different vendors that can be reached and can serve the request."""

from __future__ import annotations

from counsel.caller import Caller
from counsel.engine.consult.routes import Route, Router
from counsel.errors import CounselError
from counsel.models.auto import Needs
from counsel.requests import ConsensusRequest

SIZE = 3  # models of `["auto"]`
_LEAST = 2  # where there is one vendor only: two of its models


def chosen(request: ConsensusRequest, router: Router, caller: Caller) -> tuple[str, ...]:
    """The models to ask. `["auto"]` is a panel of three; beside other names each `auto` is one model more."""
    autos = sum(_is_auto(name) for name in request.models)
    if not autos:
        return request.models
    named = [name for name in request.models if not _is_auto(name)]
    wanted = SIZE if not named and autos == 1 else autos
    needs = Needs(vision=bool(request.images), web_search=request.use_websearch, tools=bool(request.tools))
    picked = _pick(
        router.auto(caller, needs), wanted, taken=_vendors(named, router, caller), named=set(named)
    )
    return (*named, *picked)


def _is_auto(name: str) -> bool:
    return name.strip().lower() == "auto"


def _pick(routes: list[Route], wanted: int, taken: set[str], named: set[str]) -> list[str]:
    picked: list[str] = []
    for route in routes:
        if len(picked) < wanted and route.provider not in taken:
            taken.add(route.provider)
            picked.append(route.name)
    short = max(0, min(wanted, max(_LEAST - len(named), 1)) - len(picked))
    others = [route.name for route in routes if route.name not in {*picked, *named}]
    return [*picked, *others[:short]]


def _vendors(names: list[str], router: Router, caller: Caller) -> set[str]:
    vendors = set()
    for name in names:
        try:
            vendors.add(router.route(name, caller).provider)
        except CounselError:
            continue  # it fails in the round, with its reason
    return vendors
