"""MCP servers that cannot be connected to, or fail later: what the caller and the model read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.tools import connections
from counsel.engine.tools.connections import ServerConnection
from counsel.errors import UpstreamError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server whose connection and whose client behave as the test says."""

    async def call_tool(*_: object) -> object:
        return await server_.on_call()

    @contextlib.asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[object]:
        await server_.on_connect()
        yield SimpleNamespace(call_tool=call_tool)

    async def do_nothing() -> None:
        return None

    async def tools(_: object) -> list[object]:
        return []

    server_ = SimpleNamespace(on_connect=do_nothing, on_call=do_nothing, timeout=None)
    start = SimpleNamespace(server=server_, unset=())
    monkeypatch.setattr("counsel.engine.tools.connections.starting.start", lambda *_: start)
    monkeypatch.setattr(connections, "connected", connected)
    monkeypatch.setattr(connections, "every_tool", tools)
    monkeypatch.setattr(connections, "tail", lambda *_: "last words")
    monkeypatch.setattr(connections, "reason", lambda error, _: f"{error}.")
    return server_


def connection() -> ServerConnection:
    shared: Any = SimpleNamespace(name="tides", row=SimpleNamespace(agent="claude"))
    workspace: Any = None
    return ServerConnection(shared, workspace)


async def fail() -> None:
    raise OSError("it is gone")


async def hang() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("how", "why"), [(fail, "it is gone"), (hang, "it did not answer within 0.01 s")])
async def test_why_a_server_cannot_be_connected_to(
    server: Any, monkeypatch: pytest.MonkeyPatch, how: Any, why: str
) -> None:
    if how is hang:
        monkeypatch.setattr(connections, "OPEN_SECONDS", 0.01)
    server.on_connect = how
    link = connection()
    with pytest.raises(UpstreamError) as excinfo:
        await asyncio.wait_for(link.wait_until_ready(), 60)
    assert excinfo.value.message == f"Could not connect to the MCP server tides (claude): {why}."
    assert (excinfo.value.fields["server"], excinfo.value.fields["stderr"]) == ("tides", "last words")
    output = await link.call("look", {})
    assert (output.text, output.ok) == ("tides failed: it is not connected", False)
    await asyncio.wait_for(link.close(), 60)


async def test_what_a_model_reads_of_a_call_that_fails(server: Any) -> None:
    link = connection()
    await asyncio.wait_for(link.wait_until_ready(), 60)
    server.on_call = fail
    output = await link.call("look", {})
    assert (output.text, output.ok) == ("tides failed: it is gone", False)
    server.on_call, server.timeout = hang, 0.01
    output = await link.call("look", {})
    assert (output.text, output.ok) == ("tides did not answer within 0.01 s.", False)
    await asyncio.wait_for(link.close(), 60)


async def test_a_connection_that_is_closed_early_ends(server: Any) -> None:
    server.on_connect = hang
    link = connection()
    await asyncio.sleep(0)
    await asyncio.wait_for(link.close(), 60)
