"""The clients' formats by name, each imported at its first use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from counsel.agents.definitions import WITH_SERVERS, Place, locate
from counsel.agents.server_format import Format, Home, there
from counsel.errors import InvalidArgument


class _Formats(Mapping[str, Format]):
    def __getitem__(self, name: str) -> Format:
        row = WITH_SERVERS[name]
        return cast(Format, import_module(f"counsel.agents.{row.name}.servers").FORMAT)

    def __iter__(self) -> Iterator[str]:
        return iter(WITH_SERVERS)

    def __len__(self) -> int:
        return len(WITH_SERVERS)


FORMATS: Mapping[str, Format] = _Formats()


def homes(form: Format, place: Place) -> list[Home]:
    """Where the user's servers are kept. In the home folder a project's file can be the user's own: it counts once."""
    found: dict[tuple[str, tuple[str, ...]], Home] = {}
    for home in form.homes(place):
        found.setdefault((os.path.realpath(home.target.path), home.keys), home)
    return list(found.values())


def format_of(agent: str) -> Format:
    if agent in WITH_SERVERS:
        return FORMATS[agent]
    raise InvalidArgument(f"There is no agent {agent!r}.", hint=f"Agents: {', '.join(WITH_SERVERS)}.")


def is_present(agent: str, place: Place, scope: str = "user") -> bool:
    """Whether a client is installed, or was used here: its program is on PATH, or its own folder or file is there."""
    if locate(WITH_SERVERS[agent], place.env) is not None:
        return True
    form = FORMATS[agent]
    return any(there(path) for path in (*form.signs(place), *_own_paths(form, place, scope)))


def _own_paths(form: Format, place: Place, scope: str) -> Iterator[Path]:
    """Its files of the user's and of this scope; the user's folder, unless that is the home folder itself."""
    for home in form.homes(place):
        if home.scope in ("user", scope):
            yield home.target.path
        if home.scope == "user" and home.target.path.parent != place.home:
            yield home.target.path.parent
