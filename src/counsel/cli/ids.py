"""Ids as people type them: a unique beginning, with or without `job_`, or `last`. Every command resolves them here.

Agents and programs pass full ids, which cannot be guessed; only a person's command line accepts less. Ids are read
directly from the database: that is fast, and starts nothing. An id that is not there, for example because the disk is
full and the daemon works in memory, is looked up among the engine's newest jobs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from counsel import paths
from counsel.caller import Caller
from counsel.cli import completers
from counsel.cli.terminal import output, times
from counsel.engine.store import open_lookup
from counsel.engine.store.records import Entry
from counsel.errors import NotFound
from counsel.requests import Engine

if TYPE_CHECKING:
    from counsel.engine.store import Lookup

LAST = completers.LAST
SHORT = 8  # characters of an id in lists
SAFE = 4  # characters of an id that a command needs before it changes something
_KINDS = ("conv_", "consensus_", "ask_", "review_")
_REVIEW = "review_"  # also an ordinary word, so names that people choose may begin like this
_GENERATED = re.compile(r"(?:job|conv|consensus|ask|review)_([0-9a-f]{8}-[0-9a-f-]{27})")
_BEGINNING = re.compile(r"(?:(?:job|conv|consensus|ask|review)_)?[0-9a-f][0-9a-f-]*", re.IGNORECASE)
_MOST_LISTED = 10


class Ambiguous(click.UsageError):
    """Several ids have this beginning: exit code 2, with the ids to choose from."""

    def __init__(self, name: str, kind: str, candidates: Sequence[Entry]) -> None:
        super().__init__(f"{len(candidates)} {kind}s begin with {name!r}.")
        self.fields: dict[str, object] = {"candidates": [entry.id for entry in candidates]}
        self._candidates = candidates

    def show(self, file: IO[Any] | None = None) -> None:
        lines = [f"error: {self.message}", *(f"  {line(entry)}" for entry in self._candidates[:_MOST_LISTED])]
        if len(self._candidates) > _MOST_LISTED:
            lines.append(f"  … and {len(self._candidates) - _MOST_LISTED} more")
        (file or sys.stderr).writelines(f"{output.sanitized(text)}\n" for text in lines)


def line(entry: Entry) -> str:
    return f"{entry.id}  {times.ago(entry.at)}  {' '.join((entry.title or '').split())}".rstrip()


def short(name: str) -> str:
    """`7f3a1c2d` for `job_7f3a1c2d-…`; a name that a person chose stays whole."""
    match = _GENERATED.fullmatch(name)
    return match[1][:SHORT] if match else name


@contextmanager
def lookup(caller: Caller) -> Iterator[Lookup]:
    ids = open_lookup(caller.settings.home, caller.settings.database)
    try:
        yield ids
    finally:
        ids.close()


def project(caller: Caller) -> str:
    """The repository or folder to whose conversations `last` refers."""
    return str(paths.up_to_root(caller.cwd.resolve())[-1])


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


async def job(engine: Engine, name: str, caller: Caller, *, changes: bool = False) -> str:
    """The id of a job; a conversation's id stands for its job. `changes` requires `SAFE` characters."""
    _check(name, "job")
    if name == LAST:
        return await _last_job(engine, caller, in_folder=changes)
    with lookup(caller) as ids:
        if ids.job(name) or ids.conversation(name):
            return name
        if changes:
            _check_length(name, "job")
        matches = _jobs(ids, name)
    if not matches:
        matches = await _in_memory(engine, name)
    if len(matches) > 1:
        raise Ambiguous(name, "job", matches)
    if not matches and _GENERATED.fullmatch(name.lower()) is None:
        raise no_job(name)
    return matches[0].id if matches else name


async def newest_job(engine: Engine, caller: Caller) -> str:
    """The job to follow without an ID: a running one, of this folder if possible, else the newest."""
    with lookup(caller) as ids:
        folder = project(caller)
        entry = (
            ids.newest_job(folder, running=True)
            or ids.newest_job(running=True)
            or ids.newest_job(folder)
            or ids.newest_job()
        )
    return entry.id if entry else await _newest_in_memory(engine)


async def _last_job(engine: Engine, caller: Caller, *, in_folder: bool) -> str:
    with lookup(caller) as ids:
        folder = project(caller)
        if in_folder:
            entry = ids.newest_job(folder, running=True)
            if entry is None and ids.readable and ids.newest_job():
                raise NotFound(
                    "No job is running in this folder.", hint="`counsel jobs` lists the jobs of all folders."
                )
        else:
            entry = ids.newest_job(folder) or ids.newest_job()
    return entry.id if entry else await _newest_in_memory(engine)


def _jobs(ids: Lookup, name: str) -> list[Entry]:
    """Jobs by their own id or their conversation's. Each conversation counts once, with any of its jobs."""
    matches = {entry.id: entry for prefix in _prefixes(name, ("job_",)) for entry in ids.jobs(prefix)}
    conversation_ids = {entry.conversation for entry in matches.values()}
    for entry in _conversations(ids, name):
        if entry.id not in conversation_ids:
            matches.setdefault(entry.id, entry)
    return list(matches.values())


async def _in_memory(engine: Engine, name: str) -> list[Entry]:
    jobs = (await engine.recent(1000)).jobs
    prefixes = tuple(_prefixes(name, ("job_",)))
    return [
        Entry(job.job_id, job.title, times.seconds(job.started_at), job.status, job.id)
        for job in jobs
        if job.job_id.startswith(prefixes) or job.id == name
    ]


async def _newest_in_memory(engine: Engine) -> str:
    jobs = (await engine.recent(1)).jobs
    if not jobs:
        raise NotFound("There are no jobs yet.", hint="`counsel ask … --background` starts one.")
    return jobs[0].job_id


def no_job(name: str) -> NotFound:
    return NotFound(
        f"There is no job {name[:80]!r}.",
        hint="It may be mistyped, deleted or expired. `counsel jobs` lists the newest.",
    )


# ── conversations ────────────────────────────────────────────────────────────────────────────────────


def conversation(name: str, caller: Caller, *, changes: bool = False) -> str:
    """The id of an existing conversation."""
    _check(name, "conversation")
    with lookup(caller) as ids:
        if name == LAST:
            return _last_conversation(ids, caller).id
        if ids.conversation(name):
            return name
        if changes:
            _check_length(name, "conversation")
        matches = _conversations(ids, name)
        if not matches and (owner := _conversation_of_job(ids, name)):
            return owner
        readable = ids.readable
    if len(matches) > 1:
        raise Ambiguous(name, "conversation", matches)
    if not matches and readable:
        raise NotFound(
            f"There is no conversation {name[:80]!r}.",
            hint="It may be mistyped, deleted or expired. `counsel conversations` lists the newest.",
        )
    return matches[0].id if matches else name


def description(name: str, caller: Caller) -> str:
    """A conversation in one line, for a confirmation."""
    with lookup(caller) as ids:
        entry = ids.conversation(name)
    return line(entry) if entry else name


def continuation(name: str, caller: Caller, *, quiet: bool = False) -> str:
    """The conversation that `-c` continues, or the name of a new one; a message says which."""
    name = name.strip()
    if not name:
        raise click.UsageError("-c needs a conversation: its id, `last`, or a name for a new one.")
    with lookup(caller) as ids:
        if name == LAST:
            entry: Entry | None = _last_conversation(ids, caller)
        elif entry := ids.conversation(name):
            return entry.id
        else:
            entry = _by_prefix(ids, name)
        readable = ids.readable
    if (
        entry is None
        and name.lower().startswith((*_KINDS, "job_"))
        and _BEGINNING.fullmatch(name)
        and readable
    ):
        raise NotFound(
            f"There is no conversation {name[:80]!r}.",
            hint="It may be mistyped, deleted or expired. `counsel conversations` lists them; without -c, a new one starts.",
        )
    if not quiet:
        if entry:
            title = " ".join((entry.title or "").split())
            output.message(f"Continuing {short(entry.id)}{f': {title}' if title else ''}")
        elif readable:
            output.message(f"Starting a new conversation: {name}")
    return entry.id if entry else name


def _by_prefix(ids: Lookup, name: str) -> Entry | None:
    """The conversation with this beginning. A short word or number is a name for a new one."""
    digits = _without_kind(name)
    minimum = SHORT if name.isdigit() else SAFE
    if not _BEGINNING.fullmatch(name) or len(digits) < minimum:
        return None
    matches = [entry for entry in _conversations(ids, name) if _GENERATED.fullmatch(entry.id)]
    if len(matches) > 1:
        raise Ambiguous(name, "conversation", matches)
    if matches:
        return matches[0]
    owner = _conversation_of_job(ids, name)
    return ids.conversation(owner) if owner else None


def _last_conversation(ids: Lookup, caller: Caller) -> Entry:
    folder = project(caller)
    if entry := ids.newest_conversation(folder):
        return entry
    raise NotFound(
        f"There is no conversation in {folder} yet.",
        hint="`counsel ask …` starts one; `counsel conversations` lists all folders' conversations.",
    )


def _conversations(ids: Lookup, name: str) -> list[Entry]:
    entries = {entry.id: entry for prefix in _prefixes(name, _KINDS) for entry in ids.conversations(prefix)}
    if _REVIEW.startswith(name):  # `rev` may begin a chosen name, and does not match generated ids of reviews
        return [entry for entry in entries.values() if not _GENERATED.fullmatch(entry.id)]
    return list(entries.values())


def _conversation_of_job(ids: Lookup, name: str) -> str | None:
    """The conversation of the job with this beginning, if there is only one."""
    jobs = {entry.id: entry for prefix in _prefixes(name, ("job_",)) for entry in ids.jobs(prefix)}
    owners = {entry.conversation for entry in jobs.values()}
    return owners.pop() if len(owners) == 1 else None


# ── beginnings ───────────────────────────────────────────────────────────────────────────────────────


def _check(name: str, kind: str) -> None:
    if not name.strip():  # a script's empty variable must not select a job
        raise click.UsageError(f"The id of the {kind} is empty. `counsel {kind}s` lists the ids.")


def _check_length(name: str, kind: str) -> None:
    if len(_without_kind(name)) < SAFE:
        raise click.UsageError(f"{name!r} is too short to name a {kind}: use at least {SAFE} characters.")


def _without_kind(name: str) -> str:
    start = next((kind for kind in ("job_", *_KINDS) if name.lower().startswith(kind)), "")
    return name[len(start) :]


def _prefixes(name: str, kinds: Sequence[str]) -> Iterator[str]:
    """Prefixes of matching ids: the text itself, and each kind followed by it if it could begin a UUID."""
    starts = [start for start in ("job_", *_KINDS) if start != _REVIEW or name == _REVIEW]
    if any(start.startswith(name) for start in starts) and not _BEGINNING.fullmatch(name):
        return  # `conv_` alone matches nothing
    yield name
    if _BEGINNING.fullmatch(name) and "_" not in name:
        yield from (f"{kind}{name.lower()}" for kind in kinds)
