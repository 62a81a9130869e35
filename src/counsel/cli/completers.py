"""What the shell completes besides commands and options: models, agents, servers, skills, jobs and conversations.

Reads files only: starts no daemon, agent or model, and writes nothing. A candidate's help, such as a job's title, is
untrusted text: control characters in it would end the line that the shell reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

from counsel import paths
from counsel.errors import CounselError
from counsel.run_paths import home

if TYPE_CHECKING:
    import click

    from counsel.engine.store import Lookup
    from counsel.engine.store.records import Entry

LAST = "last"
_LONGEST_HELP = 70
_MOST = 50

Completer = Callable[["click.Context", "click.Parameter", str], list[CompletionItem]]


def _item(value: str, help_: str | None = None) -> CompletionItem:
    words = "".join(char if char.isprintable() else " " for char in help_ or "").split()
    return CompletionItem(value, help=" ".join(words)[:_LONGEST_HELP] or None)


def _quietly(candidates: Callable[[str], Iterable[CompletionItem]]) -> Completer:
    """A file that cannot be read yields no candidates: the shell cannot show an error here."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(CounselError, OSError, ValueError):
            return list(candidates(incomplete))
        return []

    return complete


# ── models ───────────────────────────────────────────────────────────────────────────────────────────


def _models(incomplete: str) -> Iterator[CompletionItem]:
    """The models and agents that can be asked; after a comma, too."""
    from counsel import settings
    from counsel.agents.definitions import ASKABLE
    from counsel.models.catalog import Catalog

    before, comma, prefix = incomplete.rpartition(",")
    rows = Catalog.load(settings.load()).models()
    names = [name for row in rows if row.available for name in (row.model.id, *row.model.aliases)]
    for name in dict.fromkeys(("auto", *ASKABLE, *names)):
        if name.startswith(prefix):
            yield _item(f"{before}{comma}{name}")


def _members(incomplete: str) -> Iterator[CompletionItem]:
    """Models as above, and the user's panels."""
    before, comma, prefix = incomplete.rpartition(",")
    yield from _models(incomplete)
    from counsel import settings

    user_settings = settings.load()
    if not user_settings.tables.get("panels"):
        return
    from counsel.models import panels

    for name, entries in panels.usable(user_settings).items():
        if f"{panels.MARK}{name}".startswith(prefix):
            yield _item(f"{before}{comma}{panels.MARK}{name}", ", ".join(map(panels.name_of, entries)))


models = _quietly(_models)
members = _quietly(_members)


# ── jobs and conversations ───────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _lookup() -> Iterator[Lookup]:
    from counsel import settings
    from counsel.engine.store import open_lookup

    user_settings = settings.load()
    lookup = open_lookup(user_settings.home, user_settings.database)
    try:
        yield lookup
    finally:
        lookup.close()


def _ids(incomplete: str, entries: Iterable[Entry]) -> Iterator[CompletionItem]:
    """Short ids, as lists show them; full ids once the word begins like a full id."""
    from counsel.cli import ids

    if LAST.startswith(incomplete):
        yield _item(LAST, "the newest")
    for entry in entries:
        name = entry.id if "_" in incomplete or len(incomplete) > ids.SHORT else ids.short(entry.id)
        if (
            len(incomplete) > ids.SHORT
            and "_" not in incomplete
            and entry.id != (short := ids.short(entry.id))
        ):
            name = entry.id[entry.id.index(short) :]
        if name.startswith(incomplete):
            yield _item(name, entry.title)


def _jobs(incomplete: str, *, running: bool = False) -> Iterator[CompletionItem]:
    with _lookup() as lookup:
        prefix = incomplete if "_" in incomplete else f"job_{incomplete}"
        entries = lookup.jobs(prefix, _MOST)
    yield from _ids(incomplete, [entry for entry in entries if not running or entry.status == "processing"])


def _conversations(incomplete: str) -> Iterator[CompletionItem]:
    with _lookup() as lookup:
        if not incomplete:
            entries = lookup.conversations("", _MOST)
        else:
            kinds = ("",) if "_" in incomplete else ("", "conv_", "consensus_", "ask_", "review_")
            entries = [
                entry for kind in kinds for entry in lookup.conversations(f"{kind}{incomplete}", _MOST)
            ]
    yield from _ids(incomplete, dict.fromkeys(entries))


jobs = _quietly(_jobs)
running_jobs = _quietly(lambda incomplete: _jobs(incomplete, running=True))
conversations = _quietly(_conversations)


# ── servers and skills ───────────────────────────────────────────────────────────────────────────────


def _servers(incomplete: str) -> Iterator[CompletionItem]:
    from counsel.agents.definitions import WITH_SERVERS, workspace_of
    from counsel.servers.service import Servers

    service = Servers(workspace_of(os.environ, Path(paths.current_folder())), Path(home(os.environ)))
    agents: dict[str, list[str]] = {}
    for row in service.listing(WITH_SERVERS, None).servers:
        agents.setdefault(row.server.name, []).append(row.agent)
    for name in sorted(agents):
        if name.startswith(incomplete):
            yield _item(name, ", ".join(dict.fromkeys(agents[name])))


def _skills(incomplete: str) -> Iterator[CompletionItem]:
    from counsel.skills.discover import list_skills

    descriptions: dict[str, Any] = {}
    for skill in list_skills().skills:
        descriptions.setdefault(skill.name, skill.description)
    for name in sorted(descriptions):
        if name.startswith(incomplete):
            yield _item(name, descriptions[name])


servers = _quietly(_servers)
skills = _quietly(_skills)
