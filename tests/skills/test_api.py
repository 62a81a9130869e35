"""Skills over HTTP, with a real server on a loopback port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import uvicorn
from starlette.applications import Starlette

from counsel import settings, skills
from counsel.http.api import routes
from skills.sample_skills import add_skill
from support import openapi
from support.user import User

NO_ENGINE: Any = None  # skills need none


@pytest.fixture
async def http(user: User) -> AsyncIterator[aiohttp.ClientSession]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        Starlette(routes=routes.routes(NO_ENGINE, settings.load())), log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", middlewares=(openapi.checked,)) as session:
        yield session
    server.should_exit = True
    await serving


async def get(http: aiohttp.ClientSession, path: str, **query: str) -> tuple[int, Any]:
    async with http.get(path, params=query) as answer:
        return answer.status, await answer.json()


async def post(http: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    async with http.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def test_list_show_and_matrix(http: aiohttp.ClientSession, user: User) -> None:
    add_skill(user, "~/.claude", "one")
    add_skill(user, "~/.agents", "two")
    status, listing = await get(http, "/api/skills", agent="claude,codex", q="o")
    assert status == 200
    assert listing == user.run("list", "--agent", "claude,codex", "o", "--json").json
    status, details = await get(http, "/api/skills/show", name="/one")
    assert (status, details["text"]) == (200, "Do it.\n")
    status, matrix = await get(http, "/api/skills/matrix")
    assert [row["name"] for row in matrix["rows"]] == ["one", "two"]


async def test_share_undo_and_unshare(http: aiohttp.ClientSession, user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    link = user.home / ".agents" / "skills" / "gem"
    wish = {"name": "gem", "to": ["codex"]}
    assert (await post(http, "/api/skills/share", {**wish, "dry_run": True}))[1]["steps"][0][
        "fate"
    ] == "share"
    assert not link.exists()
    status, reply = await post(http, "/api/skills/share", wish)
    assert (status, link.is_symlink()) == (200, True)
    (entry,) = (await get(http, "/api/skills/shared"))[1]["shared"]
    assert entry == {
        "id": reply["id"],
        "skill": "gem",
        "agents": ["codex"],
        "scope": "user",
        "kind": "link",
        "path": str(link),
        "source": str(user.home / ".claude" / "skills" / "gem"),
    }
    assert (await post(http, "/api/skills/undo", {"id": reply["id"]}))[0] == 200
    assert not link.exists()
    assert (await get(http, "/api/skills/shared"))[1] == {"shared": []}
    await post(http, "/api/skills/share", wish)
    assert (await post(http, "/api/skills/unshare", {"name": "gem"}))[1]["steps"][0]["fate"] == "removed"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("share", {"name": "gem", "to": "codex"}, 400, "INVALID_ARGUMENT"),
        ("share", {"name": "gem", "too": []}, 400, "INVALID_ARGUMENT"),
        ("share", {"to": ["codex"]}, 400, "INVALID_ARGUMENT"),
        ("share", [], 400, "INVALID_ARGUMENT"),
        ("share", {"name": "gem", "to": ["nobody"]}, 400, "INVALID_ARGUMENT"),
        ("share", {"name": "gem", "scope": "moon"}, 400, "INVALID_ARGUMENT"),
        ("share", {"name": "nothing", "to": ["codex"]}, 404, "NOT_FOUND"),
        ("share", {"name": "gem", "to": ["codex"], "project": "/no/where"}, 400, "INVALID_ARGUMENT"),
        ("share", {"name": "gem", "to": ["gemini"]}, 409, "CONFLICT"),
        ("undo", {}, 404, "NOT_FOUND"),
    ],
)
async def test_refusals_have_a_code(
    http: aiohttp.ClientSession, user: User, path: str, body: Any, status: int, code: str
) -> None:
    add_skill(user, "~/.claude", "gem")
    add_skill(user, "~/.gemini", "gem")
    matches, answer = await post(http, f"/api/skills/{path}", body)
    assert (matches, answer["code"]) == (status, code)
    matches, answer = await get(http, "/api/skills", agent="nobody")
    assert (matches, answer["code"]) == (400, "INVALID_ARGUMENT")


def test_python_finds_every_name_that_the_package_promises() -> None:
    assert {name: getattr(skills, name).__name__ for name in skills.__all__} == {
        name: name for name in skills.__all__
    }
    with pytest.raises(AttributeError):
        skills.nothing_of_this_name  # noqa: B018 - reading it is the test
