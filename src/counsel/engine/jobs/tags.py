"""Session tags: the name of a thread within one project, the same for every agent, every window and after a restart.

Which one a call means: the tag that it names, else SESSION_ID, else (or for "default") the project's newest tag;
without any, the call begins a thread of its own. The tags of a session's socket (`ChatRequest.session`) stay inside
that session: they are stored as `session:tag`; a caller's own tags have no colon.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

from counsel import paths
from counsel.caller import Caller
from counsel.engine.store.protocol import Store
from counsel.request_rules import check_name
from counsel.requests import ChatRequest, Request

_LOOK_AGAIN = 10  # seconds: a folder may become a repository
NEWEST = "default"  # the name for the one that was used last


def project(folder: Path) -> str:
    """The git repository that holds the folder, else the folder itself: agents start in different subfolders."""
    return _project(folder, int(time.monotonic() / _LOOK_AGAIN))


@lru_cache(maxsize=256)
def _project(folder: Path, _moment: int) -> str:
    return str(paths.up_to_root(folder.resolve())[-1])


async def resolve(request: Request, caller: Caller, within: str, store: Store) -> str | None:
    """The tag of this call's conversation; None: it has none."""
    if not isinstance(request, ChatRequest) or request.tool != "askModel" or request.continuation_id:
        return None
    asked = (request.session_tag or "").strip()
    if request.session is not None:
        return await _in_session(check_name(request.session, "a session"), asked, within, store)
    if not asked:
        asked = caller.settings.session_id.strip()
    if asked and asked != NEWEST:
        return check_name(asked, "a session tag")
    return await store.newest_tag(within)


async def _in_session(session: str, asked: str, within: str, store: Store) -> str:
    if asked and asked != NEWEST:
        return f"{session}:{check_name(asked, 'a session tag')}"
    newest = await store.newest_tag(within, session) if asked else None
    return newest or f"{session}:{session}"


def shown(tag: str) -> str:
    """The tag as its caller wrote it."""
    return tag.rpartition(":")[2]
