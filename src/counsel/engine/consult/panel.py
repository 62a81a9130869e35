"""`auto` in a consensus: models of different vendors that can be reached and can serve the request."""

from __future__ import annotations

from counsel.caller import Caller
from counsel.engine.consult import prompts
from counsel.engine.consult.routes import Route, Router
from counsel.engine.context import tokens
from counsel.engine.context.build import Context
from counsel.errors import CounselError, InvalidArgument
from counsel.models.auto import Needs
from counsel.requests import ConsensusRequest
from counsel.types import Call, Turn

SIZE = 3  # models of `["auto"]`
_LEAST = 2  # where there is one vendor only: two of its models


def chosen(request: ConsensusRequest, router: Router, caller: Caller) -> tuple[str, ...]:
    """The models to ask. `["auto"]` is the user's own panel, or three; beside other names each `auto` is one model more."""
    models = request.models
    if len(models) == 1 and _is_auto(models[0]) and caller.settings.consensus_models:
        models = caller.settings.consensus_models
    autos = sum(_is_auto(name) for name in models)
    if not autos:
        return models
    named = [name for name in models if not _is_auto(name)]
    wanted = SIZE if not named and autos == 1 else autos
    needs = Needs(vision=bool(request.images), web_search=request.use_websearch, tools=bool(request.tools))
    picked = _pick(
        router.auto(caller, needs), wanted, taken=_vendors(named, router, caller), named=set(named)
    )
    return (*named, *picked)


def check_names(models: tuple[str, ...], router: Router, caller: Caller) -> None:
    """Raises if one of the models is unknown or cannot be asked; the error names all of them."""
    errors: dict[str, CounselError] = {}
    for name in models:
        try:
            router.route(name, caller)
        except CounselError as error:
            errors[name] = error
    if errors:
        raise _all_of(errors)


def check_limits(models: tuple[str, ...], context: Context, router: Router, caller: Caller) -> None:
    """Raises if one of the models cannot take the question: it is larger than its window, or has images."""
    errors: dict[str, CounselError] = {}
    call = Call((Turn("user", context.prompt, context.images),), prompts.CONSULTED)
    for name in models:
        model = router.route(name, caller).model
        if model is None:  # an agent knows its own limits
            continue
        if context.images and not model.vision:
            errors[name] = InvalidArgument(
                f"{name} cannot see images.", hint="`counsel models --vision` lists models that can."
            )
            continue
        try:
            tokens.check_window(call, model)
        except CounselError as error:
            errors[name] = error
    if errors:
        raise _all_of(errors)


def _all_of(errors: dict[str, CounselError]) -> CounselError:
    """One error for all members: nothing was sent."""
    first = next(iter(errors.values()))
    each = [{**error.as_dict(), "model": model} for model, error in errors.items()]
    fields = {**first.fields, "models": list(errors), "failed": each}
    hints = dict.fromkeys(error.hint for error in errors.values() if error.hint)
    fields["hint"] = " ".join([*hints, "Nothing was sent."])
    return type(first)(" ".join(dict.fromkeys(error.message for error in errors.values())), **fields)


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
