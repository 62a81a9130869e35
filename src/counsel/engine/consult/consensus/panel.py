"""The models of a consensus; `auto` stands for models of different vendors that are available and fit the request."""

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


_LEAST = 2  # models, even if they are from the only available vendor


def choose(request: ConsensusRequest | ReviewRequest, router: Router, caller: Caller) -> tuple[Member, ...]:
    """The models to ask, with their roles and stances.

    `["auto"]` is the user's own panel, or `panel_size` models of different vendors. Next to other names, each `auto`
    adds one model, which gets the role and stance of its entry.
    """
    settings = caller.settings
    members = [_member(entry) for entry in panels.requested(request.models, settings)]
    autos = [member for member in members if panels.is_auto(member.model)]
    if not autos:
        return tuple(members)
    explicit = [member for member in members if not panels.is_auto(member.model)]
    if not explicit and len(autos) == 1:
        autos *= settings.panel_size
    names = [member.model for member in explicit]
    picks = _pick(
        router.auto(caller, needs(request)),
        len(autos),
        vendors=_vendors(names, router, caller),
        explicit=set(names),
    )
    return (*explicit, *(replace(auto, model=name) for auto, name in zip(autos, picks, strict=False)))


def _member(entry: panels.Entry) -> Member:
    if isinstance(entry, str):
        return Member(entry)
    return Member(entry["model"], entry.get("role", "").strip(), entry.get("stance", ""))


def needs(request: ConsensusRequest | ReviewRequest) -> Needs:
    return Needs(vision=bool(request.images), web_search=request.use_websearch, tools=bool(request.tools))


def check_names(models: tuple[str, ...], router: Router, caller: Caller) -> None:
    """Raise one error that names all models that are unknown or cannot be asked, if any."""
    errors: dict[str, CounselError] = {}
    for name in models:
        try:
            router.route(name, caller)
        except CounselError as error:
            errors[name] = error
    if errors:
        raise _combined(errors)


def check_limits(models: tuple[str, ...], context: Context, router: Router, caller: Caller) -> None:
    """Raise one error that names all models for which the question is too large, or whose images they cannot see."""
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
        raise _combined(errors)


def _combined(errors: dict[str, CounselError]) -> CounselError:
    """One error for all members that failed. Says that nothing was sent."""
    first = next(iter(errors.values()))
    failures = [{**error.as_dict(), "model": model} for model, error in errors.items()]
    fields = {**first.fields, "models": list(errors), "failed": failures}
    hints = dict.fromkeys(error.hint for error in errors.values() if error.hint)
    fields["hint"] = " ".join([*hints, "Nothing was sent."])
    return type(first)(" ".join(dict.fromkeys(error.message for error in errors.values())), **fields)


def _pick(routes: list[Route], count: int, vendors: set[str], explicit: set[str]) -> list[str]:
    picks: list[str] = []
    for route in routes:
        if len(picks) < count and route.provider not in vendors:
            vendors.add(route.provider)
            picks.append(route.name)
    missing = max(0, min(count, max(_LEAST - len(explicit), 1)) - len(picks))
    rest = [route.name for route in routes if route.name not in {*picks, *explicit}]
    return [*picks, *rest[:missing]]


def _vendors(names: list[str], router: Router, caller: Caller) -> set[str]:
    vendors = set()
    for name in names:
        try:
            vendors.add(router.route(name, caller).provider)
        except CounselError:
            continue  # it fails in the round, with its reason
    return vendors
