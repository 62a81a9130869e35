"""What becomes of the caller's wishes: each setting as the model's row lets it be sent, or named as left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counsel.lazy_dataclass import dataclass
from counsel.types import EFFORTS, Adapted, Call, Effort, Endpoint, MediaResolution, Model, Verbosity

DEFAULT_TEMPERATURE = 0.5
DEFAULT_EFFORT: Effort = "medium"
DEFAULT_VERBOSITY: Verbosity = "medium"
DEFAULT_MEDIA_RESOLUTION: MediaResolution = "MEDIA_RESOLUTION_HIGH"


@dataclass(frozen=True, slots=True)
class Wishes:
    """None and False: not sent. `left_out` names what was asked for, in the caller's words."""

    temperature: float | None
    effort: str | int | None
    verbosity: Verbosity | None
    media_resolution: MediaResolution | None
    web_search: bool
    left_out: tuple[str, ...]
    adapted: tuple[Adapted, ...] = ()

    def without(self, name: str, *, asked: bool) -> tuple[str, ...]:
        """`left_out` with one more name, for what only the wire knows to be impossible."""
        return (*self.left_out, name) if asked and name not in self.left_out else self.left_out


def settle(call: Call, model: Model, *, can_search: bool = True) -> Wishes:
    knobs = call.knobs
    takes_search = model.web_search and can_search
    taken = {
        "temperature": model.temperature is not None,
        "reasoning_effort": _effort(model, knobs.effort or DEFAULT_EFFORT) is not None,
        "verbosity": model.verbosity,
        "media_resolution": model.media_resolution,
        "use_websearch": takes_search,
    }
    asked = {
        "temperature": knobs.temperature is not None,
        "reasoning_effort": knobs.effort is not None,
        "verbosity": knobs.verbosity is not None,
        "media_resolution": knobs.media_resolution is not None,
        "use_websearch": knobs.web_search,
    }
    searches = knobs.web_search and takes_search
    effort, raised = _effort_beside_search(model, knobs.effort or DEFAULT_EFFORT, searches=searches)
    return Wishes(
        temperature=_temperature(model, knobs.temperature),
        effort=effort,
        verbosity=(knobs.verbosity or DEFAULT_VERBOSITY) if model.verbosity else None,
        media_resolution=(knobs.media_resolution or DEFAULT_MEDIA_RESOLUTION)
        if model.media_resolution
        else None,
        web_search=searches,
        left_out=tuple(name for name in asked if asked[name] and not taken[name]),
        adapted=raised,
    )


def _temperature(model: Model, wish: float | None) -> float | None:
    if model.temperature is None:
        return None
    low, high = model.temperature
    return min(max(DEFAULT_TEMPERATURE if wish is None else wish, low), high)


def _effort(model: Model, wish: Effort) -> str | int | None:
    return None if model.effort_style == "none" else model.efforts.get(wish)


def _effort_beside_search(
    model: Model, wish: Effort, *, searches: bool
) -> tuple[str | int | None, tuple[Adapted, ...]]:
    """The next higher level, where the vendor refuses to search with the one that was asked for."""
    sent = _effort(model, wish)
    refused = model.options.get("search_refuses", ()) if searches else ()
    if sent not in refused:
        return sent, ()
    higher = [_effort(model, level) for level in EFFORTS[EFFORTS.index(wish) :]]
    taken = next((value for value in higher if value not in refused), None)
    why = f"{model.id} does not search the web with the effort {sent}: {taken} was sent."
    return taken, (Adapted("reasoning_effort", str(sent), str(taken), why),)


def options(model: Model, endpoint: Endpoint) -> Mapping[str, Any]:
    """What the rows say beyond the fields: a model's word wins over its provider's."""
    return {**endpoint.provider.options, **model.options}


def joined(base: str, path: str) -> str:
    return base.rstrip("/") + path


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
