"""`auto` in a consensus: models of different vendors that can be reached and can serve the request."""

from __future__ import annotations

from dataclasses import replace

from counsel.caller import Caller
from counsel.engine.consult import prompts
from counsel.engine.consult.routes import Route, Router
from counsel.engine.context import tokens
from counsel.engine.context.build import Context
from counsel.errors import CounselError, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.models import panels
from counsel.models.auto import Needs
from counsel.requests import ConsensusRequest, ReviewRequest
from counsel.types import Call, Turn


@dataclass(frozen=True, slots=True)
class Member:
    model: str
    role: str = ""
    stance: str = ""


_LEAST = 2  # where there is one vendor only: two of its models


def chosen(request: ConsensusRequest | ReviewRequest, router: Router, caller: Caller) -> tuple[Member, ...]:
    """The models to ask, with the parts that they play.

    `["auto"]` is the user's own panel, or as many of different vendors as `panel_size` says; beside other names each
    `auto` is one model more, which keeps the role and the stance of its entry.
    """
    settings = caller.settings
    members = [_member(entry) for entry in panels.requested(request.models, settings)]
    autos = [member for member in members if panels.is_auto(member.model)]
    if not autos:
        return tuple(members)
    named = [member for member in members if not panels.is_auto(member.model)]
    if not named and len(autos) == 1:
        autos *= settings.panel_size
    names = [member.model for member in named]
    picked = _pick(
        router.auto(caller, needs(request)),
        len(autos),
        taken=_vendors(names, router, caller),
        named=set(names),
    )
    return (*named, *(replace(auto, model=name) for auto, name in zip(autos, picked, strict=False)))


def _member(entry: panels.Entry) -> Member:
    if isinstance(entry, str):
        return Member(entry)
    return Member(entry["model"], entry.get("role", "").strip(), entry.get("stance", ""))


def needs(request: ConsensusRequest | ReviewRequest) -> Needs:
    return Needs(vision=bool(request.images), web_search=request.use_websearch, tools=bool(request.tools))


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
