"""Ids as people type them: a unique beginning, with or without `job_`, or `last`. Every command resolves them here.

Agents and programs name whole ids, which cannot be guessed; only a person's command line takes less. Ids are read from
the database itself: that is quick, and starts nothing. What it does not have (a daemon that works without a disk) is
looked for among the engine's newest jobs.
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
from counsel.cli import completers, output, times
from counsel.engine.store import open_lookup
from counsel.engine.store.records import Entry
from counsel.errors import NotFound
from counsel.requests import Engine

if TYPE_CHECKING:
    from counsel.engine.store import Lookup

LAST = completers.LAST
SHORT = 8  # characters of an id in lists
SAFE = 4  # characters that a command needs before it changes something by them
_KINDS = ("conv_", "consensus_", "ask_", "review_")
_WORD = "review_"  # a kind that is also a word, with which people's own names begin
_GENERATED = re.compile(r"(?:job|conv|consensus|ask|review)_([0-9a-f]{8}-[0-9a-f-]{27})")
_BEGINNING = re.compile(r"(?:(?:job|conv|consensus|ask|review)_)?[0-9a-f][0-9a-f-]*", re.IGNORECASE)
_MOST_LISTED = 10


class Ambiguous(click.UsageError):
    """Several ids begin so: exit code 2, with the ids to choose from."""

    def __init__(self, wanted: str, kind: str, candidates: Sequence[Entry]) -> None:
        super().__init__(f"{wanted!r} is the beginning of {len(candidates)} {kind}s.")
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
    """The repository or folder whose conversations `last` means."""
    return str(paths.up_to_root(caller.cwd.resolve())[-1])


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


async def job(engine: Engine, wanted: str, caller: Caller, *, changes: bool = False) -> str:
    """The id of a job, or of a conversation for its job. `changes`: a few letters are not enough to stop one."""
    _check(wanted, "job")
    if wanted == LAST:
        return await _last_job(engine, caller, only_here=changes)
    with lookup(caller) as ids:
        if ids.job(wanted) or ids.conversation(wanted):
            return wanted
        if changes:
            _check_length(wanted, "job")
        matches = _jobs(ids, wanted)
    if not matches:
        matches = await _in_memory(engine, wanted)
    if len(matches) > 1:
        raise Ambiguous(wanted, "job", matches)
    if not matches and _GENERATED.fullmatch(wanted.lower()) is None:
        raise no_job(wanted)
    return matches[0].id if matches else wanted


async def newest_job(engine: Engine, caller: Caller) -> str:
    """The job to follow when none is named: one that runs, here or elsewhere, else the newest."""
    with lookup(caller) as ids:
        here = project(caller)
        entry = (
            ids.newest_job(here, running=True)
            or ids.newest_job(running=True)
            or ids.newest_job(here)
            or ids.newest_job()
        )
    return entry.id if entry else await _newest_in_memory(engine)


async def _last_job(engine: Engine, caller: Caller, *, only_here: bool) -> str:
    with lookup(caller) as ids:
        here = project(caller)
        if only_here:
            entry = ids.newest_job(here, running=True)
            if entry is None and ids.readable and ids.newest_job():
                raise NotFound(
                    "No job is running in this folder.", hint="`counsel jobs` lists those of all folders."
                )
        else:
            entry = ids.newest_job(here) or ids.newest_job()
    return entry.id if entry else await _newest_in_memory(engine)


def _jobs(ids: Lookup, wanted: str) -> list[Entry]:
    """By a job's id or its conversation's; a conversation counts once, with any of its jobs."""
    matches = {entry.id: entry for prefix in _prefixes(wanted, ("job_",)) for entry in ids.jobs(prefix)}
    own = {entry.conversation for entry in matches.values()}
    for entry in _conversations(ids, wanted):
        if entry.id not in own:
            matches.setdefault(entry.id, entry)
    return list(matches.values())


async def _in_memory(engine: Engine, wanted: str) -> list[Entry]:
    newest = (await engine.recent(1000)).jobs
    prefixes = tuple(_prefixes(wanted, ("job_",)))
    return [
        Entry(each.job_id, each.title, times.seconds(each.started_at), each.status, each.id)
        for each in newest
        if each.job_id.startswith(prefixes) or each.id == wanted
    ]


async def _newest_in_memory(engine: Engine) -> str:
    newest = (await engine.recent(1)).jobs
    if not newest:
        raise NotFound("There are no jobs yet.", hint="`counsel ask … --background` starts one.")
    return newest[0].job_id


def no_job(wanted: str) -> NotFound:
    return NotFound(
        f"There is no job {wanted[:80]!r}.",
        hint="It may be mistyped, or deleted because it was old. `counsel jobs` lists the newest.",
    )


# ── conversations ────────────────────────────────────────────────────────────────────────────────────


def conversation(wanted: str, caller: Caller, *, changes: bool = False) -> str:
    """The id of an existing conversation."""
    _check(wanted, "conversation")
    with lookup(caller) as ids:
        if wanted == LAST:
            return _last_conversation(ids, caller).id
        if ids.conversation(wanted):
            return wanted
        if changes:
            _check_length(wanted, "conversation")
        matches = _conversations(ids, wanted)
        if not matches and (owner := _of_job(ids, wanted)):
            return owner
        readable = ids.readable
    if len(matches) > 1:
        raise Ambiguous(wanted, "conversation", matches)
    if not matches and readable:
        raise NotFound(
            f"There is no conversation {wanted[:80]!r}.",
            hint="It may be mistyped, deleted or expired. `counsel conversations` lists the newest.",
        )
    return matches[0].id if matches else wanted


def described(name: str, caller: Caller) -> str:
    """A conversation in one line, for a person who confirms something about it."""
    with lookup(caller) as ids:
        entry = ids.conversation(name)
    return line(entry) if entry else name


def continued(wanted: str, caller: Caller, *, quiet: bool = False) -> str:
    """For `-c`: an existing conversation, or the name of a new one; a message says which."""
    wanted = wanted.strip()
    if not wanted:
        raise click.UsageError("-c needs a conversation: its id, `last`, or a name for a new one.")
    with lookup(caller) as ids:
        if wanted == LAST:
            entry: Entry | None = _last_conversation(ids, caller)
        elif entry := ids.conversation(wanted):
            return entry.id
        else:
            entry = _by_beginning(ids, wanted)
        readable = ids.readable
    if (
        entry is None
        and wanted.lower().startswith((*_KINDS, "job_"))
        and _BEGINNING.fullmatch(wanted)
        and readable
    ):
        raise NotFound(
            f"There is no conversation {wanted[:80]!r}.",
            hint="It may be mistyped, deleted or expired. `counsel conversations` lists them; without -c a new one starts.",
        )
    if not quiet:
        if entry:
            title = " ".join((entry.title or "").split())
            output.message(f"Continuing {short(entry.id)}{f': {title}' if title else ''}")
        elif readable:
            output.message(f"Starting a new conversation: {wanted}")
    return entry.id if entry else wanted


def _by_beginning(ids: Lookup, wanted: str) -> Entry | None:
    """The conversation that begins so. A short word or number is a name that a person gives to a new one."""
    bare = _bare(wanted)
    least = SHORT if wanted.isdigit() else SAFE
    if not _BEGINNING.fullmatch(wanted) or len(bare) < least:
        return None
    matches = [entry for entry in _conversations(ids, wanted) if _GENERATED.fullmatch(entry.id)]
    if len(matches) > 1:
        raise Ambiguous(wanted, "conversation", matches)
    if matches:
        return matches[0]
    owner = _of_job(ids, wanted)
    return ids.conversation(owner) if owner else None


def _last_conversation(ids: Lookup, caller: Caller) -> Entry:
    here = project(caller)
    if entry := ids.newest_conversation(here):
        return entry
    raise NotFound(
        f"There is no conversation in {here} yet.",
        hint="`counsel ask …` starts one; `counsel conversations` lists those of all folders.",
    )


def _conversations(ids: Lookup, wanted: str) -> list[Entry]:
    entries = {entry.id: entry for prefix in _prefixes(wanted, _KINDS) for entry in ids.conversations(prefix)}
    if _WORD.startswith(wanted):  # `rev` may begin a name that the user chose, but alone names no review
        return [entry for entry in entries.values() if not _GENERATED.fullmatch(entry.id)]
    return list(entries.values())


def _of_job(ids: Lookup, wanted: str) -> str | None:
    """The conversation of the one job that begins so."""
    jobs = {entry.id: entry for prefix in _prefixes(wanted, ("job_",)) for entry in ids.jobs(prefix)}
    owners = {entry.conversation for entry in jobs.values()}
    return owners.pop() if len(owners) == 1 else None


# ── beginnings ───────────────────────────────────────────────────────────────────────────────────────


def _check(wanted: str, kind: str) -> None:
    if not wanted.strip():  # a script's empty variable must not mean some job
        raise click.UsageError(f"The id of the {kind} is empty.")


def _check_length(wanted: str, kind: str) -> None:
    if len(_bare(wanted)) < SAFE:
        raise click.UsageError(f"{wanted!r} is too short to name a {kind}: use at least {SAFE} characters.")


def _bare(wanted: str) -> str:
    start = next((kind for kind in ("job_", *_KINDS) if wanted.lower().startswith(kind)), "")
    return wanted[len(start) :]


def _prefixes(wanted: str, kinds: Sequence[str]) -> Iterator[str]:
    """What ids may begin with: the text itself, and behind each kind where it could be a part of a UUID."""
    starts = [start for start in ("job_", *_KINDS) if start != _WORD or wanted == _WORD]
    if any(start.startswith(wanted) for start in starts) and not _BEGINNING.fullmatch(wanted):
        return  # `conv_` alone names none
    yield wanted
    if _BEGINNING.fullmatch(wanted) and "_" not in wanted:
        yield from (f"{kind}{wanted.lower()}" for kind in kinds)
