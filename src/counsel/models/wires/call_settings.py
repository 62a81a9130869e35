"""The caller's settings as the model accepts them: each is sent, adapted, or listed as left out."""

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
        """`left_out` with one more name, for a setting that only the wire knows to be unsupported."""
        return (*self.left_out, name) if requested and name not in self.left_out else self.left_out


def resolve_settings(
    call: Call, model: Model, *, can_search: bool = True, counts_thinking: bool = False
) -> SentSettings:
    """What to send for the call's settings. `counts_thinking`: the wire itself sends a thinking budget in tokens."""
    if call.exact is not None:
        settings = _as_requested(call, model, can_search=model.web_search and can_search)
        budget = call.exact.thinking_budget
        return (
            settings
            if budget is None or counts_thinking
            else _with_thinking_budget(settings, call, model, budget)
        )
    model_settings = call.model_settings
    can_use_search = model.web_search and can_search
    left_out = [
        name
        for name, requested, is_supported in (
            ("temperature", model_settings.temperature, model.temperature is not None),
            (
                "reasoning_effort",
                model_settings.effort,
                _effort(model, model_settings.effort or DEFAULT_EFFORT) is not None,
            ),
            ("verbosity", model_settings.verbosity, model.verbosity),
            ("media_resolution", model_settings.media_resolution, model.media_resolution),
            ("use_websearch", model_settings.web_search or None, can_use_search),
        )
        if requested is not None and not is_supported
    ]
    searches = model_settings.web_search and can_use_search
    effort, changes = _effort_beside_search(model, model_settings.effort or DEFAULT_EFFORT, searches=searches)
    return SentSettings(
        temperature=_temperature(model, model_settings.temperature),
        effort=effort,
        verbosity=(model_settings.verbosity or DEFAULT_VERBOSITY) if model.verbosity else None,
        media_resolution=(model_settings.media_resolution or DEFAULT_MEDIA_RESOLUTION)
        if model.media_resolution
        else None,
        web_search=searches,
        left_out=tuple(left_out),
        adapted=changes,
    )


def _as_requested(call: Call, model: Model, *, can_search: bool) -> SentSettings:
    """The settings without our defaults: a client of a vendor's API gets what it would get there."""
    model_settings = call.model_settings
    temperature = (
        None if model_settings.temperature is None else _temperature(model, model_settings.temperature)
    )
    searches = model_settings.web_search and can_search
    effort, adapted = (
        _effort_beside_search(model, model_settings.effort, searches=searches)
        if model_settings.effort
        else (None, ())
    )
    left_out = [
        name
        for name, requested, sent in (
            ("temperature", model_settings.temperature, temperature),
            ("reasoning_effort", model_settings.effort, effort),
            ("verbosity", model_settings.verbosity, model.verbosity or None),
            ("tools.web_search", model_settings.web_search or None, can_search or None),
        )
        if requested is not None and sent is None
    ]
    if temperature is not None and temperature != model_settings.temperature:
        why = f"{model.id} takes a temperature up to {temperature}, which was sent instead of {model_settings.temperature}."
        adapted = (*adapted, Adapted("temperature", str(model_settings.temperature), str(temperature), why))
    verbosity = model_settings.verbosity if model.verbosity else None
    return SentSettings(temperature, effort, verbosity, None, searches, tuple(left_out), adapted)


_LOW_BUDGET, _MEDIUM_BUDGET = (
    4_096,
    16_384,
)  # the most tokens of thinking that become the levels low and medium


def _with_thinking_budget(settings: SentSettings, call: Call, model: Model, budget: int) -> SentSettings:
    """The settings, with a client's thinking budget as a level, for a vendor that does not count tokens."""
    level: Effort = "low" if budget <= _LOW_BUDGET else "medium" if budget <= _MEDIUM_BUDGET else "high"
    requested_effort: Effort = "minimal" if budget == 0 else call.model_settings.effort or level
    effort, _ = _effort_beside_search(model, requested_effort, searches=settings.web_search)
    if effort is None:
        left_out = ("thinking",) if budget else ()
        return replace(settings, left_out=(*settings.left_out, *left_out))
    budget_text = f"{budget} tokens" if budget else "disabled"
    why = f"{model.id} does not count its thinking in tokens: effort {effort} was sent instead of {budget_text}."
    adapted = (*settings.adapted, Adapted("thinking", budget_text, str(effort), why))
    return replace(settings, effort=effort, adapted=adapted)


def sampling(
    exact: Exact | None, model: Model, names: Mapping[str, str]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """A client's other settings under the wire's names, and those that are left out.

    A model that takes no temperature takes none of the settings that shape the same distribution.
    """
    if exact is None:
        return {}, ()
    fields: dict[str, object] = {}
    left_out: list[str] = list(exact.left_out)
    for name in _SAMPLING:
        value = getattr(exact, name)
        if value is None:
            continue
        if name in names and model.temperature is not None:
            fields[names[name]] = value
        else:
            left_out.append(name)
    return fields, tuple(left_out)


# By wire: how many stop sequences the vendor accepts. OpenAI's Responses API and agents accept none.
_MOST_STOPS = {"openai_responses": 0, "": 0, "openai_chat": 4, "gemini": 5}


def sent_stops(exact: Exact | None, wire: str) -> list[str] | None:
    """The stop sequences that the vendor accepts. At the others (`unsent_stops`), counsel cuts the answer."""
    stops = exact.stop if exact else ()
    # Anthropic refuses those that are only white space.
    accepted = [stop for stop in stops if wire != "anthropic" or not stop.isspace()]
    return accepted[: _MOST_STOPS.get(wire)] or None


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
    """What to send for the level, or for the next higher one if the vendor refuses to search with it."""
    effort = _effort(model, requested)
    refused_efforts = model.options.get("search_refuses", ()) if searches else ()
    if effort not in refused_efforts:
        return effort, ()
    levels = [_effort(model, level) for level in EFFORTS[EFFORTS.index(requested) :]]
    higher = next((value for value in levels if value not in refused_efforts), None)
    why = f"{model.id} does not search the web with effort {effort}; {higher} was sent instead."
    return higher, (Adapted("reasoning_effort", str(effort), str(higher), why),)


def fits_strict_mode(schema: object) -> bool:
    """Whether OpenAI's strict mode accepts the schema: every object is closed, and all its properties are required."""
    if isinstance(schema, list):
        return all(map(fits_strict_mode, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties):
            return False
        return all(map(fits_strict_mode, properties.values())) and all(
            fits_strict_mode(value) for name, value in schema.items() if name != "properties"
        )
    if schema.get("type") == "object":
        return False
    return all(map(fits_strict_mode, schema.values()))


def limited(body: dict[str, object], field: str, call: Call) -> dict[str, object]:
    """The body with at most the reserved number of output tokens in that field, whatever set it before."""
    if call.output_limit is None:
        return body
    value = body.get(field)
    limit = min(value, call.output_limit) if isinstance(value, int) else call.output_limit
    return {**body, field: limit}


def wire_options(model: Model, endpoint: Endpoint) -> Mapping[str, Any]:
    """The `options` of the provider's row and of the model's, which win."""
    return {**endpoint.provider.options, **model.options}


def joined(base: str, path: str) -> str:
    return base.rstrip("/") + path


def without_none(**fields: object) -> dict[str, object]:
    """The fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}
