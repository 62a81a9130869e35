"""The engine as one person of a team sees it. Interfaces of a team's server get this view, never the full engine.

What belongs to someone else is absent rather than refused: the store's view (`Store.scoped`) does not have these rows,
and jobs in memory are looked up with their owner. So another person's id is treated like an id that does not exist.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from counsel import pending_calls
from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.history.documents import BudgetReport
from counsel.engine.jobs import ids
from counsel.engine.store.audit import Action
from counsel.engine.store.records import JobDetail, JobRecord
from counsel.engine.team.audit import Sender
from counsel.engine.team.people.archive import PersonArchive
from counsel.engine.team.people.scoped_engine import ScopedEngine
from counsel.errors import FileNotAllowed, NotFound, NotPermitted
from counsel.people import OPERATOR, Person
from counsel.request_rules import is_name
from counsel.requests import ChatRequest, CompletionRequest, NewKey, Request
from counsel.results import Cancellation
from counsel.settings import Settings

_LONGEST = 40  # characters of a person's own name for a conversation that stay readable


class PersonEngine(ScopedEngine):
    def __init__(self, engine: Engine, person: Person, token: str = "", address: str = "") -> None:
        super().__init__(engine, person.id)
        self.person = person
        self._sender = Sender(person, token, address)
        self.archive = PersonArchive(engine.home, self.store, person, self._note)

    def _note(self, action: Action, subject: str, detail: str = "") -> None:
        self._engine.audit.note(self._sender, action, subject, detail)

    async def submit(
        self,
        request: Request | CompletionRequest,
        caller: Caller,
        *,
        background: bool = False,
        key: str | None = None,
    ) -> str:
        try:
            self.person.refuse_if_read_only("ask models")
            if earlier := await self._job_without_person(key):
                return earlier
            if request.continuation_id is not None:
                name = await self._conversation(
                    request.continuation_id, may_begin=isinstance(request, CompletionRequest)
                )
                request = replace(request, continuation_id=name)
            own = await self.runner.own_keys.applied(replace(caller, person=self.person))
            job = await super().submit(request, own, background=background, key=self._own_key(key))
        except (NotPermitted, FileNotAllowed) as error:
            self._note("refused", type(request).__name__, error.message)
            raise
        self._engine.audit.note_question(self._sender, job, _about(request, caller), _prompt(request))
        return job

    async def with_own_keys(self, caller: Caller) -> Caller:
        """The caller as `submit` uses it, with the person's own keys, on which available models depend."""
        return await self.runner.own_keys.applied(replace(caller, person=self.person))

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        self.person.refuse_if_read_only("cancel jobs")
        cancellation = await super().cancel(any_id, member)
        self._note("cancelled", any_id, member or "")
        return cancellation

    async def delete(self, job_id: str) -> None:
        self.person.refuse_if_read_only("delete jobs")
        await super().delete(job_id)
        self._note("deleted", job_id)

    async def keys_like(self, prefix: str) -> list[str]:
        own = self._own_key(prefix) or ""
        return [key[len(own) - len(prefix) :] for key in await super().keys_like(own)]

    async def open_calls(self, prefix: str) -> list[JobRecord]:
        keys = await super().keys_like(self._own_key(prefix) or "")
        jobs = [await self.store.job(pending_calls.job_id(key)) for key in keys]
        return [job for job in jobs if job is not None and job.is_open]

    async def budget_report(self, settings: Settings) -> list[BudgetReport]:
        """The budgets that apply to the person. The server's own show what everyone spent, so only admins get them."""
        servers = await self._engine.budget_report(settings) if self.person.is_admin else []
        return [*servers, *await self.budgets.team.report(self.person)]

    async def close(self, *, keep: bool = False) -> None:
        """Do nothing: the full engine is closed by whoever opened it."""

    # ── ownership ──

    def _own_key(self, key: str | None) -> str | None:
        """The key made unique to the person: two people may choose the same key, and a job's id is derived from it."""
        if key is None:
            return None
        own = f"{self.person.id}-{key}"
        return NewKey(own) if isinstance(key, NewKey) else own

    async def _job_without_person(self, key: str | None) -> str | None:
        """The operator's job on a server of an earlier release, whose key does not contain a person."""
        if self.person.id != OPERATOR.id or key is None or isinstance(key, NewKey):
            return None
        return await self.store.job_with_key(key)

    async def _conversation(self, name: str, *, may_begin: bool) -> str:
        """The stored name of the conversation that a caller names. Each person has their own set of chosen names.

        `may_begin`: a completion can begin a conversation with any name, even one that looks like one of our ids.
        """
        if await self.store.conversation(name) is not None:
            return name
        if await self.store.of_team().conversation(name) is not None:
            raise NotPermitted(
                f"{name} is shared: the team can read it, but only its owner can continue it.",
                hint="Start a conversation of your own.",
            )
        if not is_name(name) or (ids.is_ours(name) and not may_begin):
            return name  # `intake` refuses it
        return self._own_name(name)

    def _own_name(self, name: str) -> str:
        digest = hashlib.sha256(f"{self.person.id}/{name}".encode()).hexdigest()[:20]
        return f"{name[:_LONGEST]}.{digest}"

    async def _find(self, any_id: str, *, running_only: bool = False) -> JobDetail:
        try:
            return await super()._find(any_id, running_only=running_only)
        except NotFound:
            if ids.is_ours(any_id) or not is_name(any_id):
                raise
            try:
                return await super()._find(self._own_name(any_id), running_only=running_only)
            except NotFound:
                pass
            raise


def _about(request: Request | CompletionRequest, caller: Caller) -> str:
    """Which models were asked and through which client, without the question."""
    if isinstance(request, CompletionRequest | ChatRequest):
        models = request.model
    else:
        models = ", ".join(map(str, request.models))
    return f"{models} through {caller.client}"


def _prompt(request: Request | CompletionRequest) -> str:
    if isinstance(request, CompletionRequest):
        return next((turn.text for turn in reversed(request.turns) if turn.role == "user"), "")
    return request.prompt
