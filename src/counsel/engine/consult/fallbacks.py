"""Fallback chains such as `gpt-5, opus, local`: models that are tried in this order, as `auto` tries its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from counsel.caller import Caller
from counsel.engine.consult import recursion
from counsel.engine.consult.routes import Route, Router
from counsel.errors import CounselError, InvalidArgument, ModelNotFound, SelfConsultation, Unavailable
from counsel.models.auto import Needs
from counsel.requests import MAX_CHAIN, chain
from counsel.results import PassedOver

LOCAL = "local"  # the embedded model, else the first model of a model server on this machine


def is_chain(model: str) -> bool:
    return "," in model


def check(model: str, router: Router, caller: Caller) -> None:
    """Refuse a chain with a name that means no model, or in which no model can be asked. Sends nothing."""
    recursion.check(caller)
    names = chain(model)
    if not all(names) or len(names) > MAX_CHAIN:
        raise InvalidArgument(
            f"A chain of models has 1 to {MAX_CHAIN} names, separated by commas.",
            hint='Nothing was sent. Write it like "gpt-5, opus, local".',
        )
    routes, failures = resolve(model, router, caller, None)
    if not routes and "auto" not in map(str.lower, names):
        raise combined_error(failures)


def resolve(
    model: str, router: Router, caller: Caller, needs: Needs | None
) -> tuple[list[Route], list[tuple[str, CounselError]]]:
    """The routes to try, in order, and the names that cannot be asked now. Raises `ModelNotFound` for an unknown name.

    `needs`: what the models of an `auto` in the chain must be able to do; without it, `auto` is left out.
    """
    routes: dict[str, Route] = {}
    failures: list[tuple[str, CounselError]] = []
    unknown: list[ModelNotFound] = []
    for name in chain(model):
        try:
            routes |= {
                route.name: route
                for route in _routes(name, router, caller, needs)
                if route.name not in routes
            }
        except ModelNotFound as error:
            unknown.append(error)
        except (Unavailable, SelfConsultation) as error:
            failures.append((name, error))
    if unknown:
        raise _unknown(unknown)
    return list(routes.values()), failures


def combined_error(failures: list[tuple[str, CounselError]]) -> CounselError:
    """One error for a chain in which no name can be asked, with the fields of the first failure."""
    errors = [error for _, error in failures]
    if len({error.message for error in errors}) == 1:
        return errors[0]
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    message = " ".join(dict.fromkeys(error.message for error in errors))
    return type(errors[0])(message, **{**errors[0].fields, "hint": " ".join(hints) or None})


def _routes(name: str, router: Router, caller: Caller, needs: Needs | None) -> Iterator[Route]:
    if name.lower() == "auto":
        yield from router.auto(caller, needs) if needs else ()
    elif name.lower() == LOCAL:
        yield _local(router, caller)
    else:
        yield router.route(name, caller)


def _local(router: Router, caller: Caller) -> Route:
    try:
        return router.route(LOCAL, caller)
    except Unavailable:
        for model in router.catalog(caller).free_models():
            with suppress(CounselError):
                return router.route(model.id, caller)
        raise


def _unknown(errors: list[ModelNotFound]) -> ModelNotFound:
    if len(errors) == 1:
        return errors[0]
    message = " ".join(error.message for error in errors)
    nearest = list(dict.fromkeys(name for error in errors for name in error.nearest or ()))
    return ModelNotFound(message, hint=errors[0].hint, nearest=nearest)


def passed_over(failures: list[tuple[str, CounselError]]) -> list[PassedOver]:
    return [PassedOver(name, error.code, error.message) for name, error in failures]
