"""The audit log of a team's server. `note` queues a record and returns; nothing waits for the database."""

from __future__ import annotations

import time
from collections import deque

from counsel.engine.store.audit import Action, AuditRecord, AuditStore
from counsel.lazy_dataclass import dataclass
from counsel.people import Person

LONGEST = 500  # characters of a detail
LONGEST_PROMPT = 20_000
MOST_REFUSALS = 60  # per minute, so that requests without a token cannot fill the database
MOST_JOBS = 500
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request, and from where."""

    person: Person | None
    token: str = ""
    address: str = ""


class Audit:
    def __init__(self, store: AuditStore, days: int, *, prompts: bool) -> None:
        self._store = store
        self._days = days
        self._prompts = prompts
        self._jobs: deque[str] = deque(maxlen=MOST_JOBS)  # the newest jobs
        self._minute = 0.0
        self._refusals = 0

    def note(self, sender: Sender, action: Action, subject: str = "", detail: str = "") -> None:
        if action == "refused" and not self._counts_refusal(time.monotonic()):
            return
        self._write(sender, action, subject, detail[:LONGEST])

    def note_question(self, sender: Sender, job: str, about: str, prompt: str) -> None:
        """Record a question. `prompt` is stored only if the team wants that. A client that returns to its job does not
        ask again, so this is recorded once per job."""
        if job in self._jobs:
            return
        self._jobs.append(job)
        detail = f"{about[:LONGEST]}\n{prompt[:LONGEST_PROMPT]}" if self._prompts else about[:LONGEST]
        self._write(sender, "asked", job, detail)

    def _write(self, sender: Sender, action: Action, subject: str, detail: str) -> None:
        now, person = time.time(), sender.person
        record = AuditRecord(
            at=now,
            person=person.id if person else "",
            name=person.name if person else "",
            token=sender.token,
            address=sender.address,
            action=action,
            object=subject[:LONGEST],
            detail=detail,
        )
        self._store.add(record, now + self._days * 86400)

    def _counts_refusal(self, now: float) -> bool:
        """Count a refusal; return whether to record it: only the first ones of each minute, then a note about the
        limit."""
        if now - self._minute > _MINUTE:
            self._minute, self._refusals = now, 0
        self._refusals += 1
        if self._refusals == MOST_REFUSALS:
            self._write(
                Sender(None), "refused", "", f"more than {MOST_REFUSALS} a minute: the rest is not recorded"
            )
        return self._refusals < MOST_REFUSALS
