"""`--role MODEL=TEXT` and `--stance MODEL=…`: roles and stances of the members of a consensus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from counsel.requests import Member

if TYPE_CHECKING:
    from counsel.settings import Settings

STANCES = ("for", "against", "neutral")


def assign_roles(
    models: tuple[str, ...], roles: Sequence[str], stances: Sequence[str], settings: Settings
) -> tuple[str | Member, ...]:
    """The members with their roles and stances. A model that is listed twice gets them in the order of the options."""
    if not roles and not stances:
        return models
    from counsel.models import panels  # few questions assign roles

    members: list[dict[str, Any]] = [
        {"model": entry} if isinstance(entry, str) else dict(entry)
        for entry in panels.requested(models, settings)
    ]
    for name, text in _pairs(roles, "--role MODEL=TEXT"):
        _assign(members, name, "role", text)
    for name, text in _pairs(stances, "--stance MODEL=for|against|neutral"):
        if text.lower() not in STANCES:
            raise click.BadParameter(f"{text!r} is not a stance: use {', '.join(STANCES)}.")
        _assign(members, name, "stance", text.lower())
    return tuple(member["model"] if len(member) == 1 else cast(Member, member) for member in members)


def _pairs(values: Iterable[str], form: str) -> Iterable[tuple[str, str]]:
    for value in values:
        name, equals, text = (part.strip() for part in value.partition("="))
        if not (name and equals and text):
            raise click.BadParameter(f"{value!r} is not {form}.")
        yield name, text


def _assign(members: list[dict[str, Any]], name: str, part: str, text: str) -> None:
    model, _, number = name.partition("#")
    matches = [member for member in members if member["model"] == model]
    if number.isdigit():
        matches = matches[int(number) - 1 : int(number)]
    free = [member for member in matches if part not in member]
    if not free:
        names = ", ".join(dict.fromkeys(member["model"] for member in members))
        problem = f"{name} already has a {part}" if matches else f"{name} is not a member"
        raise click.BadParameter(f"{problem}. The members are {names}.")
    free[0][part] = text
