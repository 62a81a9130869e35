"""Conversations that a person can read: their own, and those that others have shared with the team."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from counsel.engine import results
from counsel.engine.history.archive import Archive
from counsel.engine.history.documents import Conversations, ConversationSharing
from counsel.engine.store.audit import Action
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob, Sharing
from counsel.errors import NotFound
from counsel.people import Person


class PersonArchive(Archive):
    """`Archive` on a person's view of the store. What is not in that view is looked up in what the team shares."""

    def __init__(self, home: Path, store: Store, person: Person, note: Callable[[Action, str], None]) -> None:
        super().__init__(home, store)
        self._note = note
        self._person = person
        self._team = store.of_team()
        self._shared = Archive(home, self._team)

    async def page(
        self, limit: int, words: str = "", cursor: str | None = None, *, shared: bool = False
    ) -> Conversations:
        """A page of the person's own conversations; `shared`: of those that anyone in the team shares."""
        page = await (self._shared.page if shared else super().page)(limit, words, cursor)
        names = [row["id"] for row in page["conversations"]]
        sharings = await (self._team if shared else self._store).sharings(names)
        for row in page["conversations"]:
            if sharing := sharings.get(row["id"]):
                row["shared"] = _sharing(sharing)
        return page

    async def show(self, name: str) -> dict[str, object]:
        is_own = await self._store.conversation(name) is not None
        store = self._store if is_own else self._team
        document = await (super().show if is_own else self._shared.show)(name)
        sharing = (await store.sharings([name])).get(name)
        return {**document, **({"shared": _sharing(sharing)} if sharing else {}), "is_own": is_own}

    async def contents(self, name: str) -> dict[str, bytes]:
        is_own = await self._store.conversation(name) is not None
        return await (super().contents if is_own else self._shared.contents)(name)

    async def image(self, sha: str) -> Blob | None:
        return await super().image(sha) or await self._shared.image(sha)

    async def share(self, name: str) -> dict[str, object]:
        """Let everyone in the team read the conversation, including what is added later."""
        self._person.refuse_if_read_only("share conversations")
        if not await self._store.share(name, time.time()):
            raise NotFound(
                f"There is no conversation {name}.", hint="`counsel conversations list` shows them."
            )
        self._note("shared", name)
        return await self.show(name)

    async def unshare(self, name: str) -> dict[str, object]:
        self._person.refuse_if_read_only("share conversations")
        if not await self._store.share(name, None):
            raise NotFound(
                f"There is no conversation {name}.", hint="`counsel conversations list` shows them."
            )
        self._note("unshared", name)
        return await self.show(name)

    async def delete(self, *names: str) -> None:
        self._person.refuse_if_read_only("delete conversations")
        await super().delete(*names)
        for name in names:
            self._note("deleted", name)


def _sharing(sharing: Sharing) -> ConversationSharing:
    return {"by": sharing.by, "at": results.iso(sharing.at)}
