"""The caller's settings as the model takes them: each is sent, adapted, or named as left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counsel.lazy_dataclass import dataclass, replace
from counsel.types import EFFORTS, Adapted, Call, Effort, Endpoint, Exact, MediaResolution, Model, Verbosity

DEFAULT_TEMPERATURE = 0.5
DEFAULT_EFFORT: Effort = "medium"
DEFAULT_VERBOSITY: Verbosity = "medium"
DEFAULT_MEDIA_RESOLUTION: MediaResolution = "MEDIA_RESOLUTION_HIGH"


@dataclass(frozen=True, slots=True)
class SentSettings:
    """None and False: not sent. `left_out` lists requested settings that are not sent, by the caller's names."""

    temperature: float | None
    effort: str | int | None
    verbosity: Verbosity | None
    media_resolution: MediaResolution | None
    web_search: bool
    left_out: tuple[str, ...]
    adapted: tuple[Adapted, ...] = ()

    def left_out_and(self, name: str, *, requested: bool) -> tuple[str, ...]:
        """`left_out` with one more name, for what only the wire knows to be unsupported."""
        return (*self.left_out, name) if requested and name not in self.left_out else self.left_out


def resolve_settings(
    call: Call, model: Model, *, can_search: bool = True, counts_thinking: bool = False
) -> SentSettings:
    """`counts_thinking`: the wire itself sends the thinking that a client asks for in tokens."""
    if call.exact is not None:
        settings = _as_requested(call, model, can_search=model.web_search and can_search)
        budget = call.exact.thinking_budget
        return (
            settings if budget is None or counts_thinking else _thought_through(settings, call, model, budget)
        )
    knobs = call.knobs
    can_use_search = model.web_search and can_search
    supported = {
        "temperature": model.temperature is not None,
        "reasoning_effort": _effort(model, knobs.effort or DEFAULT_EFFORT) is not None,
        "verbosity": model.verbosity,
        "media_resolution": model.media_resolution,
        "use_websearch": can_use_search,
    }
    requested = {
        "temperature": knobs.temperature is not None,
        "reasoning_effort": knobs.effort is not None,
        "verbosity": knobs.verbosity is not None,
        "media_resolution": knobs.media_resolution is not None,
        "use_websearch": knobs.web_search,
    }
    searches = knobs.web_search and can_use_search
    effort, raised = _effort_beside_search(model, knobs.effort or DEFAULT_EFFORT, searches=searches)
    return SentSettings(
        temperature=_temperature(model, knobs.temperature),
        effort=effort,
        verbosity=(knobs.verbosity or DEFAULT_VERBOSITY) if model.verbosity else None,
        media_resolution=(knobs.media_resolution or DEFAULT_MEDIA_RESOLUTION)
        if model.media_resolution
        else None,
        web_search=searches,
        left_out=tuple(name for name in requested if requested[name] and not supported[name]),
        adapted=raised,
    )


def _as_requested(call: Call, model: Model, *, can_search: bool) -> SentSettings:
    """Without defaults: a client of a vendor's API gets what it would get there."""
    knobs = call.knobs
    temperature = None if knobs.temperature is None else _temperature(model, knobs.temperature)
    searches = knobs.web_search and can_search
    effort, adapted = (
        _effort_beside_search(model, knobs.effort, searches=searches) if knobs.effort else (None, ())
    )
    left_out = [
        name
        for name, requested, sent in (
            ("temperature", knobs.temperature, temperature),
            ("reasoning_effort", knobs.effort, effort),
            ("verbosity", knobs.verbosity, model.verbosity or None),
            ("tools.web_search", knobs.web_search or None, can_search or None),
        )
        if requested is not None and sent is None
    ]
    if temperature is not None and temperature != knobs.temperature:
        why = f"{model.id} takes a temperature up to {temperature}, which was sent instead of {knobs.temperature}."
        adapted = (*adapted, Adapted("temperature", str(knobs.temperature), str(temperature), why))
    verbosity = knobs.verbosity if model.verbosity else None
    return SentSettings(temperature, effort, verbosity, None, searches, tuple(left_out), adapted)


_LOW_BUDGET, _MEDIUM_BUDGET = 4_096, 16_384  # tokens of thinking, up to which a level stands for them


def _thought_through(settings: SentSettings, call: Call, model: Model, budget: int) -> SentSettings:
    """Thinking that a client counts in tokens, for a vendor that has levels."""
    level: Effort = "low" if budget <= _LOW_BUDGET else "medium" if budget <= _MEDIUM_BUDGET else "high"
    asked_for: Effort = "minimal" if budget == 0 else call.knobs.effort or level
    sent, _ = _effort_beside_search(model, asked_for, searches=settings.web_search)
    if sent is None:
        missing = ("thinking",) if budget else ()
        return replace(settings, left_out=(*settings.left_out, *missing))
    asked = f"{budget} tokens" if budget else "disabled"
    why = f"{model.id} does not count its thinking in tokens: effort {sent} was sent instead of {asked}."
    adapted = (*settings.adapted, Adapted("thinking", asked, str(sent), why))
    return replace(settings, effort=sent, adapted=adapted)


def sampling(
    exact: Exact | None, model: Model, names: Mapping[str, str]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """A client's other settings under the wire's names, and those that are left out.

    A model that takes no temperature takes none of the settings that shape the same distribution.
    """
    if exact is None:
        return {}, ()
    sent: dict[str, object] = {}
    left_out: list[str] = list(exact.left_out)
    for name in _SAMPLING:
        value = getattr(exact, name)
        if value is None:
            continue
        if name in names and model.temperature is not None:
            sent[names[name]] = value
        else:
            left_out.append(name)
    return sent, tuple(left_out)


# By wire: how many stop sequences the vendor takes. OpenAI's Responses and agents have none.
_MOST_STOPS = {"openai_responses": 0, "": 0, "openai_chat": 4, "gemini": 5}


def sent_stops(exact: Exact | None, wire: str) -> list[str] | None:
    """The stop sequences that the vendor takes. At the others (`unsent_stops`) we cut the answer."""
    stops = exact.stop if exact else ()
    # Anthropic refuses those that are only white space.
    fit = [stop for stop in stops if wire != "anthropic" or not stop.isspace()]
    return fit[: _MOST_STOPS.get(wire)] or None


def unsent_stops(exact: Exact | None, wire: str) -> tuple[str, ...]:
    if exact is None or not exact.stop or (exact.native is not None and exact.native.wire == wire):
        return ()
    sent = sent_stops(exact, wire) or ()
    return tuple(stop for stop in exact.stop if stop not in sent)


_SAMPLING = ("top_p", "top_k", "frequency_penalty", "presence_penalty")


def _temperature(model: Model, requested: float | None) -> float | None:
    if model.temperature is None:
        return None
    low, high = model.temperature
    return min(max(DEFAULT_TEMPERATURE if requested is None else requested, low), high)


def _effort(model: Model, requested: Effort) -> str | int | None:
    return None if model.effort_style == "none" else model.efforts.get(requested)


def _effort_beside_search(
    model: Model, requested: Effort, *, searches: bool
) -> tuple[str | int | None, tuple[Adapted, ...]]:
    """The next higher level, where the vendor refuses to search with the requested one."""
    sent = _effort(model, requested)
    refused = model.options.get("search_refuses", ()) if searches else ()
    if sent not in refused:
        return sent, ()
    levels = [_effort(model, level) for level in EFFORTS[EFFORTS.index(requested) :]]
    higher = next((value for value in levels if value not in refused), None)
    why = f"{model.id} does not search the web with effort {sent}; {higher} was sent instead."
    return higher, (Adapted("reasoning_effort", str(sent), str(higher), why),)


def strictly(schema: object) -> bool:
    """Whether OpenAI's strict mode takes the schema: every object is closed, and all its properties are required."""
    if isinstance(schema, list):
        return all(map(strictly, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties):
            return False
        return all(map(strictly, properties.values())) and all(
            strictly(value) for name, value in schema.items() if name != "properties"
        )
    if schema.get("type") == "object":
        return False
    return all(map(strictly, schema.values()))


def limited(body: dict[str, object], field: str, call: Call) -> dict[str, object]:
    """The body with at most the reserved number of output tokens, whatever else set that field."""
    if call.output_limit is None:
        return body
    wanted = body.get(field)
    least = min(wanted, call.output_limit) if isinstance(wanted, int) else call.output_limit
    return {**body, field: least}


def wire_options(model: Model, endpoint: Endpoint) -> Mapping[str, Any]:
    """`options` of the provider's row and the model's, which wins."""
    return {**endpoint.provider.options, **model.options}


def joined(base: str, path: str) -> str:
    return base.rstrip("/") + path


def without_none(**fields: object) -> dict[str, object]:
    """The fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}
