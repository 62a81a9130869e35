"""Session tags: names of threads within a project, the same for every agent and every window, and after a restart.

A call's tag is the one that it names, else SESSION_ID, else (or for "default") the project's newest tag;
without any, the call starts a thread of its own. The tags of a session's socket (`ChatRequest.session`) stay inside
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

_CACHE_SECONDS = 10  # then a folder may have become a repository
NEWEST = "default"  # means the most recently used tag


def project(folder: Path) -> str:
    """The git repository that contains the folder, else the folder itself: agents start in different subfolders."""
    return _project(folder, int(time.monotonic() / _CACHE_SECONDS))


@lru_cache(maxsize=256)
def _project(folder: Path, _moment: int) -> str:
    return str(paths.up_to_root(folder.resolve())[-1])


async def resolve(request: Request, caller: Caller, folder: str, store: Store) -> str | None:
    """The tag of this call's conversation; None: it has none."""
    if not isinstance(request, ChatRequest) or request.tool != "askModel" or request.continuation_id:
        return None
    tag = (request.session_tag or "").strip()
    if request.session is not None:
        return await _in_session(check_name(request.session, "a session"), tag, folder, store)
    if not tag:
        tag = caller.settings.session_id.strip()
    if tag and tag != NEWEST:
        return check_name(tag, "a session tag")
    return await store.newest_tag(folder)


async def _in_session(session: str, tag: str, folder: str, store: Store) -> str:
    if tag and tag != NEWEST:
        return f"{session}:{check_name(tag, 'a session tag')}"
    newest = await store.newest_tag(folder, session) if tag else None
    return newest or f"{session}:{session}"


def shown(tag: str) -> str:
    """The tag as its caller wrote it."""
    return tag.rpartition(":")[2]
