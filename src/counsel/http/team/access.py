"""Who sends a request to a team's server: people by their tokens or the console's sessions, the operator by
COUNSEL_TOKEN.

A token is looked up for every request and cached for a second at most. Requests in progress are tracked by their token:
when it ends or its person is disabled, on whichever server, they end at once, streams included.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from counsel.engine.store.people import CHANGED, SignedIn
from counsel.engine.store.protocol import Store
from counsel.engine.team.audit import Audit, Sender
from counsel.engine.team.people import names
from counsel.errors import CounselError, Internal
from counsel.http.auth import TOKEN_ENDED
from counsel.http.chunks import CONNECTION, WATCHABLE
from counsel.http.team.ending import Ending
from counsel.http.team.sessions import COOKIE, SESSION_PREFIX, TeamSession, TeamSessions, wrong_token
from counsel.people import OPERATOR
from counsel.settings import load as load_settings

if TYPE_CHECKING:
    from counsel.http.auth import App, Receive, Scope, Send

log = logging.getLogger("counsel.http")
OPERATOR_TOKEN = "COUNSEL_TOKEN"  # noqa: S105 - not a secret: takes the place of a token's id, which COUNSEL_TOKEN lacks
SESSION = "/api/session"
REMEMBERED = 1.0  # seconds
MOST_REMEMBERED = 10_000
_POLL = 1.0  # seconds between two checks of the tokens in use; a change is noticed earlier
_NOTE_EVERY = 3600.0  # seconds between two audit records of a token's use from an address
_MARK_EVERY = 60.0  # seconds between two updates of a token's last use
_REPORT_EVERY = 10.0  # seconds between two log lines about an unreachable database

End: TypeAlias = Callable[[], None]


class TeamAccess:
    """Checks tokens and sessions. `store` waits until the engine is open."""

    cookie = COOKIE

    def __init__(self, store: Callable[[], Awaitable[Store]], operator_token: str = "") -> None:
        self._store = store
        self._operator = operator_token.encode()
        self._sessions: TeamSessions | None = None
        self._cache: dict[str, tuple[float, SignedIn | None]] = {}  # by the token's hash
        self._used: dict[str, float] = {}  # by the token's id
        self._live: dict[str, set[End]] = {}  # by the token's id: functions that end its requests
        self._watch_task: asyncio.Task[None] | None = None
        self._audit: Audit | None = None
        self._reported_at = -_REPORT_EVERY
        self._noted: dict[tuple[str, str], float] = {}  # by token and address: when the audit log got them

    async def signed_in(self, secret: str, address: str = "") -> SignedIn | None:
        """Return who has this token. First uses and refusals are written to the audit log."""
        if not secret:
            return None
        signed_in = await self._owner_of(secret)
        await self._note(signed_in, address)
        return signed_in

    async def _note(self, signed_in: SignedIn | None, address: str) -> None:
        now = time.monotonic()
        token = signed_in.token if signed_in else ""
        if signed_in is not None and now - self._noted.get((token, address), -_NOTE_EVERY) < _NOTE_EVERY:
            return
        if len(self._noted) >= MOST_REMEMBERED:
            self._noted.clear()
        await self._write_note(signed_in, address, "token")
        if signed_in is not None:
            self._noted[token, address] = now

    async def _write_note(self, signed_in: SignedIn | None, address: str, method: str) -> None:
        if self._audit is None:
            settings = load_settings()
            self._audit = Audit((await self._store()).audit, settings.audit_days, prompts=False)
        sender = (
            Sender(signed_in.person, signed_in.token, address) if signed_in else Sender(None, "", address)
        )
        self._audit.note(sender, "signed in" if signed_in else "refused", "", method)

    async def _owner_of(self, secret: str) -> SignedIn | None:
        if self._operator and hmac.compare_digest(secret.encode(), self._operator):
            return SignedIn(OPERATOR, OPERATOR_TOKEN)
        if not secret.startswith(names.PREFIX) or len(secret) > names.LONGEST_TOKEN:
            return None
        return await self._look_up(names.hashed(secret))

    async def _look_up(self, sha: str) -> SignedIn | None:
        now = time.monotonic()
        cached_at, entry = self._cache.get(sha, (-REMEMBERED, None))
        if now - cached_at < REMEMBERED and not (entry and entry.expires and entry.expires < time.time()):
            return entry
        store = await self._store()
        self._watch()
        signed_in = await store.people.signed_in(sha)
        if len(self._cache) >= MOST_REMEMBERED:
            self._cache.clear()
        self._cache[sha] = (now, signed_in)
        if signed_in is not None and now - self._used.get(signed_in.token, -_MARK_EVERY) >= _MARK_EVERY:
            self._used[signed_in.token] = now
            store.people.mark_used(signed_in.token, time.time())
        return signed_in

    # ── the console's sessions ──

    async def session(self, values: Iterable[str]) -> TeamSession | None:
        """Return the first session among the cookies' values."""
        for value in values:
            if session := await (await self._console()).find(value):
                self._watch()
                return session
        return None

    async def sign_in(self, token: str, address: str = "") -> str:
        """Start a session for a token; return the cookie's value. Raises `AuthenticationFailed`."""
        signed_in = await self._owner_of(token)
        await self._write_note(signed_in, address, "console")
        if signed_in is None:
            raise wrong_token()
        return await (await self._console()).start(signed_in.person, signed_in.token)

    async def sign_out(self, session: TeamSession) -> None:
        await (await self._console()).end(session)

    async def _console(self) -> TeamSessions:
        if self._sessions is None:
            self._sessions = TeamSessions((await self._store()).sessions, self._operator.decode())
        return self._sessions

    def unreachable(self, error: CounselError) -> CounselError:
        """The error while the database cannot be reached. Its address and user name are in the log only."""
        if time.monotonic() - self._reported_at >= _REPORT_EVERY:
            self._reported_at = time.monotonic()
            log.warning("cannot check who sends requests: %s", error)
        return Internal(
            "The team's database cannot be reached at the moment.", hint="Send the request again in a moment."
        )

    # ── answering ──

    async def answer(self, app: App, scope: Scope, receive: Receive, send: Send, signed_in: SignedIn) -> None:
        """Run the application for a person. The response ends when the token or the session does.

        The response to signing out is complete, although it ends the session.
        """
        if scope["path"] == SESSION:
            await app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        ending = state[CONNECTION] = Ending(scope["path"], receive, send, state.get(CONNECTION))
        scope[TOKEN_ENDED] = lambda: ending.is_over
        # The end of a token counts as a disconnect, too: `ending.receive` reports it.
        state.pop(WATCHABLE, None)
        with self._answering(signed_in, ending.end):
            await app(scope, ending.receive, ending.send)
        if ending.task is not None:
            await ending.task

    @contextmanager
    def _answering(self, signed_in: SignedIn, end: End) -> Iterator[None]:
        """Call `end` if the token stops working while its request is being answered."""
        ends = self._live.setdefault(signed_in.token, set())
        ends.add(end)
        try:
            yield
        finally:
            ends.discard(end)
            if not ends and self._live.get(signed_in.token) is ends:
                del self._live[signed_in.token]

    def close(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()

    # ── tokens that end ──

    def _watch(self) -> None:
        if self._watch_task is None or self._watch_task.done():
            self._watch_task = asyncio.get_running_loop().create_task(self._run(), name="counsel-tokens")

    async def _run(self) -> None:
        store = await self._store()
        while True:
            mark = store.mark(CHANGED)
            try:
                await self._end_invalid(store)
            except CounselError as error:  # nothing can be read for those streams either
                log.warning("tokens in use cannot be checked: %s", error)
            await store.wait_for_change(CHANGED, mark, _POLL)
            self._cache.clear()

    async def _end_invalid(self, store: Store) -> None:
        used = [token for token in self._live if token != OPERATOR_TOKEN]
        sessions = [name for name in used if name.startswith(SESSION_PREFIX)]
        tokens = [name for name in used if not name.startswith(SESSION_PREFIX)]
        valid = await store.people.still_valid(tokens) if tokens else set[str]()
        if sessions:
            valid |= await store.sessions.still_valid(sessions, time.time())
        for token in used:
            if token not in valid:
                for end in list(self._live.get(token, ())):
                    end()
