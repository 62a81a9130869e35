"""`auto`: the models that can serve a request, best first. The engine asks the first, and the next one when it fails.

The order is the user's (`COUNSEL_AUTO_ORDER`: models, aliases or providers) or the catalog's `auto_rank`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counsel.errors import ContextLengthExceeded, CounselError, ModelNotFound, ProviderUnavailable
from counsel.lazy_dataclass import dataclass
from counsel.models.catalog import Catalog, Target, agent_named
from counsel.types import Model


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request needs from a model."""

    vision: bool = False
    web_search: bool = False
    tools: bool = False
    tokens: int = 0  # an estimate of all input


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the order: its target, or why it is skipped."""

    name: str
    target: Target | None
    reason: str = ""
    model: Model | None = None
    agent: str = ""  # the agent that the entry names: `auto` does not pick agents


# field of Needs → why a model without it is skipped; the model's field has the same name
_ABILITIES = {
    "vision": "it does not accept images",
    "web_search": "it cannot search the web",
    "tools": "it cannot use tools",
}


def candidates(catalog: Catalog, needs: Needs, order: Sequence[str] = ()) -> list[Target]:
    """The models to try, best first; may be empty (see `no_candidates`)."""
    return [entry.target for entry in explain(catalog, needs, order) if entry.target]


def explain(catalog: Catalog, needs: Needs, order: Sequence[str] = ()) -> list[Entry]:
    """Every entry of the order, with its target or the reason why it is skipped."""
    return list(_entries(catalog, needs, order))


def no_candidates(catalog: Catalog, needs: Needs, order: Sequence[str] = ()) -> CounselError:
    """The error for a request that no model can serve."""
    entries = explain(catalog, needs, order)
    reachable = [entry for entry in entries if entry.model and not catalog.reason(entry.model)]
    if not reachable:
        return ProviderUnavailable("No provider is available.", hint=_hint(catalog, entries, order))
    able = [entry.model for entry in reachable if entry.model and not _lacks(entry.model, needs)]
    if able:
        largest = max(model.context for model in able)
        return ContextLengthExceeded(
            f"The request (about {needs.tokens:,} tokens) fits no available model; the largest window is {largest:,} tokens.",
            hint="Send less, or name a model with a larger context window.",
            max_tokens=largest,
            provided_tokens=needs.tokens,
        )
    reasons = "; ".join(f"{entry.name}: {entry.reason}" for entry in reachable)
    return ProviderUnavailable(
        f"No available model can serve this request ({reasons}).", hint=_key_hint(catalog)
    )


def _entries(catalog: Catalog, needs: Needs, order: Sequence[str]) -> Iterator[Entry]:
    seen: set[str] = set()
    for name, match in _in_order(catalog, order):
        if isinstance(match, str):
            yield Entry(name, None, match, agent=agent_named(name) or "")
        elif match.id not in seen:
            seen.add(match.id)
            reason = catalog.reason(match) or _lacks(match, needs) or _overflows(match, needs)
            yield Entry(match.id, None if reason else catalog.target(match), reason, match)


def _in_order(catalog: Catalog, order: Sequence[str]) -> Iterator[tuple[str, Model | str]]:
    """The entries in order, each with its model, or the reason why it has none."""
    if not order:
        yield from ((model.id, model) for model in _ranked(catalog, None))
    for name in order:
        if agent_named(name):
            yield name, "agents are not picked by auto"
        elif catalog.has_provider(name) and not catalog.is_alias(name):
            models = _ranked(catalog, name) or [row.model for row in catalog.models(name.strip().lower())]
            if not models:
                yield name, "the provider lists no models; name one as PROVIDER/MODEL"
            yield from ((model.id, model) for model in models)
        else:
            try:
                yield name, catalog.lookup(name)
            except ModelNotFound as error:
                yield name, error.message


def _ranked(catalog: Catalog, provider: str | None) -> list[Model]:
    rows = catalog.models(provider.strip().lower() if provider else None)
    return sorted(
        (row.model for row in rows if row.model.auto_rank is not None), key=lambda model: model.auto_rank or 0
    )


def _lacks(model: Model, needs: Needs) -> str:
    missing = (name for name in _ABILITIES if getattr(needs, name) and not getattr(model, name))
    return _ABILITIES.get(next(missing, ""), "")


def _overflows(model: Model, needs: Needs) -> str:
    return f"its window is {model.context:,} tokens" if needs.tokens > model.context else ""


def _hint(catalog: Catalog, entries: Sequence[Entry], order: Sequence[str]) -> str:
    if order:
        reasons = "; ".join(f"{entry.name}: {entry.reason.rstrip('.')}" for entry in entries)
        return f"COUNSEL_AUTO_ORDER: {reasons}."
    return _key_hint(catalog)


def _key_hint(catalog: Catalog) -> str:
    if catalog.team:
        return f"The team server {catalog.team} offers none. `counsel login --status` asks it again."
    keys = [
        row.provider.key_envs[0]
        for row in catalog.providers()
        if row.provider.key_required and row.provider.key_envs
    ]
    return (
        f"Store a key, for example with `counsel keys set openai`, or set one of {', '.join(keys)}. "
        "Without a key, `counsel demo` runs a tiny model on this machine."
    )
