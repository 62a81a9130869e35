"""The audit log of a team's server. A record is on its way when `note` returns: nothing waits for the database."""

from __future__ import annotations

import time
from collections import deque

from counsel.engine.store.audit import Action, AuditRecord, AuditStore
from counsel.lazy_dataclass import dataclass
from counsel.people import Person

LONGEST = 500  # characters of a detail
LONGEST_PROMPT = 20_000
MOST_REFUSALS = 60  # a minute: whoever knocks without a token must not fill the database
MOST_ASKED = 500
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request, from where."""

    person: Person | None
    token: str = ""
    address: str = ""


class Audit:
    def __init__(self, store: AuditStore, days: int, *, prompts: bool) -> None:
        self._store = store
        self._days = days
        self._prompts = prompts
        self._asked: deque[str] = deque(maxlen=MOST_ASKED)  # the newest jobs
        self._minute = 0.0
        self._refusals = 0

    def note(self, sender: Sender, action: Action, what: str = "", detail: str = "") -> None:
        if action == "refused" and not self._admits(time.monotonic()):
            return
        self._write(sender, action, what, detail[:LONGEST])

    def note_question(self, sender: Sender, job: str, about: str, prompt: str) -> None:
        """`prompt` is stored only if the team wants that. A client that comes back to its job has not asked again."""
        if job in self._asked:
            return
        self._asked.append(job)
        detail = f"{about[:LONGEST]}\n{prompt[:LONGEST_PROMPT]}" if self._prompts else about[:LONGEST]
        self._write(sender, "asked", job, detail)

    def _write(self, sender: Sender, action: Action, what: str, detail: str) -> None:
        now, person = time.time(), sender.person
        record = AuditRecord(
            at=now,
            person=person.id if person else "",
            name=person.name if person else "",
            token=sender.token,
            address=sender.address,
            action=action,
            object=what[:LONGEST],
            detail=detail,
        )
        self._store.add(record, now + self._days * 86400)

    def _admits(self, now: float) -> bool:
        """The first ones of each minute, then one that says so."""
        if now - self._minute > _MINUTE:
            self._minute, self._refusals = now, 0
        self._refusals += 1
        if self._refusals == MOST_REFUSALS:
            self._write(
                Sender(None), "refused", "", f"more than {MOST_REFUSALS} a minute: the rest is not listed"
            )
        return self._refusals < MOST_REFUSALS
