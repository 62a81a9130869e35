"""The user's panels (config.toml's `[panels]`): in a consensus or a review, `@architecture` stands for its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from counsel import argument_schema
from counsel.errors import InvalidArgument, NotFound
from counsel.request_rules import MEMBER, is_name
from counsel.requests import MAX_MODELS, Member
from counsel.settings import Settings

MARK = "@"
Entry: TypeAlias = str | Member


def name_of(entry: Entry) -> str:
    return entry if isinstance(entry, str) else entry["model"]


def usable(settings: Settings) -> dict[str, tuple[Entry, ...]]:
    """The valid panels, by name."""
    tables = settings.tables.get("panels", {})
    return {name: tuple(entries) for name, entries in tables.items() if not problem(name, entries)}


def problems(tables: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with each invalid panel."""
    for name, entries in tables.items():
        if reason := problem(name, entries):
            yield f"config.toml [panels] {name}: {reason}; ignored."


def problem(name: str, entries: object) -> str:
    """Why this is not a valid panel; empty if it is."""
    if not is_name(name):
        return "its name must have 1 to 64 letters, digits, '_', '-' or '.'"
    if not isinstance(entries, list):
        return 'it must be a list of models, such as ["opus", "gpt-5"]'
    if not 1 <= len(entries) <= MAX_MODELS:
        return f"it must have 1 to {MAX_MODELS} models, not {len(entries)}"
    for number, entry in enumerate(entries):
        if reason := next(argument_schema.problems(f"entry {number + 1}", MEMBER, entry), ""):
            return reason
        if name_of(entry).strip().startswith(MARK):
            return f"it names the panel {name_of(entry).strip()}, and panels cannot contain panels"
    return ""


def expanded(models: Iterable[Entry], settings: Settings) -> tuple[Entry, ...]:
    """The models, with each panel replaced by its own. Raises for an unknown panel and for too many models."""
    entries: list[Entry] = []
    for entry in models:
        if name_of(entry).strip().startswith(MARK):
            entries += _of_panel(entry, settings)
        else:
            entries.append(entry)
    if len(entries) > MAX_MODELS:
        raise InvalidArgument(
            f"With its panels, the consensus has {len(entries)} models; at most {MAX_MODELS} can be asked.",
            hint="Nothing was sent. Name a smaller panel, or fewer models.",
        )
    return tuple(entries)


def is_auto(entry: Entry) -> bool:
    return name_of(entry).strip().lower() == "auto"


def requested(models: Iterable[Entry], settings: Settings) -> tuple[Entry, ...]:
    """As `expanded`. `auto` alone stands for the user's own panel, if there is one; its role and stance apply to each
    model that has none."""
    entries = expanded(models, settings)
    if not (len(entries) == 1 and is_auto(entries[0]) and settings.consensus_models):
        return entries
    return tuple(_with_role(entry, entries[0]) for entry in expanded(settings.consensus_models, settings))


def _with_role(entry: Entry, auto: Entry) -> Entry:
    if isinstance(auto, str):
        return entry
    own: Member = {"model": entry} if isinstance(entry, str) else entry
    return {**auto, **own}


def _of_panel(entry: Entry, settings: Settings) -> tuple[Entry, ...]:
    name = name_of(entry).strip().removeprefix(MARK)
    if not isinstance(entry, str) and len(entry) > 1:
        raise InvalidArgument(
            f"The panel {MARK}{name[:80]} cannot have a role or a stance.",
            hint="Nothing was sent. Give them to its models, in config.toml or in the call.",
        )
    tables = settings.tables.get("panels", {})
    panels = usable(settings)
    if name in panels:
        return panels[name]
    if name in tables:
        raise InvalidArgument(
            f"The panel {MARK}{name} cannot be used: {problem(name, tables[name])}.",
            hint=f"Nothing was sent. Correct [panels] in {settings.home / 'config.toml'}.",
        )
    names = ", ".join(f"{MARK}{panel}" for panel in panels)
    hint = f"Known panels: {names}." if names else "There are no panels yet."
    raise NotFound(
        f"There is no panel {MARK}{name[:80]}.",
        hint=f"{hint} `counsel config set panels.NAME opus,gpt-5` adds one.",
        panels=list(panels),
    )
