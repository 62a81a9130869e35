"""Opens a TCP connection to a host, trying its addresses side by side (RFC 8305).

asyncio's `create_connection` does this, too, but leaks the socket of a call that is cancelled at the moment it connects
(CPython 3.11 to 3.13: the winner's socket is a task's result that is never read). Here each one is closed or returned.
"""

from __future__ import annotations

import asyncio
import socket
from itertools import chain, zip_longest
from typing import TypeAlias

DELAY = 0.25  # seconds before the next address is tried, too

_Address: TypeAlias = tuple[int, int, int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def open_socket(host: str, port: int) -> socket.socket:
    """A connected socket. Raises `OSError`, the first address's error, if no address connects."""
    addresses = await _resolve(host, port)
    if len(addresses) == 1:
        return await _connect(addresses[0])
    return await _race(addresses)


async def _resolve(host: str, port: int) -> list[_Address]:
    try:  # a numeric address needs no thread
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [(family, kind, proto, address) for family, kind, proto, _, address in infos]
    first_family = [address for address in addresses if address[0] == addresses[0][0]]
    other_family = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain(*zip_longest(first_family, other_family)) if address is not None]


async def _connect(address: _Address) -> socket.socket:
    family, kind, proto, sockaddr = address
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


async def _race(addresses: list[_Address]) -> socket.socket:
    untried, tasks = list(addresses), list[asyncio.Task[socket.socket]]()
    winner: asyncio.Task[socket.socket] | None = None
    try:
        while untried or not all(task.done() for task in tasks):
            if untried:
                tasks.append(asyncio.create_task(_connect(untried.pop(0))))
            running = [task for task in tasks if not task.done()]
            done, _ = await asyncio.wait(
                running, timeout=DELAY if untried else None, return_when=asyncio.FIRST_COMPLETED
            )
            winner = next((task for task in done if task.exception() is None), None)
            if winner is not None:
                return winner.result()
        return tasks[0].result()  # raises its error
    finally:
        for task in tasks:
            if task is not winner:
                task.cancel()
                task.add_done_callback(_close)


def _close(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
