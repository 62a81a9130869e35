"""Families of models, from their names: `opus-latest`, and which model supersedes which.

A family is a name without its version: `claude-opus-4-5-20251101` and `claude-opus-5-5` are `claude-opus`, and the
alias `opus-5.5` is `opus`. The catalog's rows are oldest first, so the last row of a family is its newest: no second
table is needed. A vendor's moving name (`mistral-medium-latest`) supersedes a model only if no dated model does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping

from counsel.lazy_dataclass import dataclass
from counsel.types import Model

_LATEST = "-latest"
_VERSION = r"v?\d+"  # a part of a name: `5`, `20250929`, `v4`, `0905`
_SERIES = r"([a-z])\d+"  # `o3`, `k3`: the letter is the series
_STAGES = frozenset({"preview", "exp", "latest"})


@dataclass(frozen=True, slots=True)
class Families:
    latest: Mapping[str, str]  # `opus-latest` → the id of the newest
    superseded: Mapping[str, str]  # id → the model that supersedes it, listed or not


def family(folded_name: str) -> str:
    """The family of a folded name; "" if only a version is left."""
    parts = folded_name.rpartition("/")[2].split("-")
    words = [part for part in parts if part not in _STAGES and not re.fullmatch(_VERSION, part)]
    return "-".join(re.sub(f"^{_SERIES}$", r"\1", part) for part in words)


def compute(models: Mapping[str, Model], fold: Callable[[str], str]) -> Families:
    names = {model.id: [fold(name) for name in (model.id, *model.aliases)] for model in models.values()}
    families = {identity: _families(folded_names) for identity, folded_names in names.items()}
    newest: dict[tuple[str, str], str] = {}
    for model in models.values():
        for name in families[model.id]:
            key = (model.provider, name)
            if key not in newest or not model.id.endswith(_LATEST):
                newest[key] = model.id
    ids = {name: identity for identity, folded_names in names.items() for name in folded_names}
    successors = {
        model.id: _next(model, families[model.id], newest, _successor(model, ids, fold))
        for model in models.values()
    }
    latest: dict[str, str] = {}
    for (_, name), identity in newest.items():  # the shipped providers are first
        if len(name) > 1:
            latest.setdefault(name + _LATEST, _last(identity, successors, models))
    superseded = {identity: _last(identity, successors) for identity in models if successors[identity]}
    return Families(latest, superseded)


def _families(names: list[str]) -> list[str]:
    """The id's own family first. A model without a version in any of its names has none."""
    unique = list(dict.fromkeys(name for name in map(family, names) if name))
    return unique if any(family(name) != name for name in names) else []


def _next(
    model: Model, families: list[str], newest: Mapping[tuple[str, str], str], successor: str | None
) -> str | None:
    if model.id.endswith(_LATEST):
        return None
    newer = (newest[model.provider, name] for name in families)
    return next((identity for identity in newer if identity != model.id), successor)


def _successor(model: Model, ids: Mapping[str, str], fold: Callable[[str], str]) -> str | None:
    name: str | None = model.options.get("successor")
    return ids.get(fold(name), f"{model.provider}/{name}") if name else None


def _last(
    identity: str, successors: Mapping[str, str | None], listed_ids: Container[str] | None = None
) -> str:
    """The end of the chain; with `listed_ids`, the last model that the catalog lists."""
    visited = {identity}
    while successor := successors.get(identity):
        if successor in visited or (listed_ids is not None and successor not in listed_ids):
            break
        visited.add(successor)
        identity = successor
    return identity
