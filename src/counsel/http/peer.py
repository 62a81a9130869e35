"""Whether the client at the other end of a loopback connection is this user's.

Cookies ignore ports: a browser sends the console's cookie to every server on `127.0.0.1` that it visits, even to
another user's, who could then use it here. Linux lists the owner of each connection's other end; other systems do not.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
# Other states prove nothing: a socket that its process has closed is listed as root's.
_ESTABLISHED = "01"


def is_own(client: Address | None, server: Address | None) -> bool:
    """False if the client is another user's process (root's are trusted: root can read everything).

    True if it is on another machine, or if this system cannot tell.
    """
    if client is None or server is None or not _is_loopback(client[0]):
        return True
    ends = (_plain(client[0]), client[1]), (_plain(server[0]), server[1])
    has_connections = False
    for local, remote, uid in _connections():
        if (local, remote) == ends:
            return uid in {os.geteuid(), 0}
        has_connections = True
    return not has_connections


def _connections() -> Iterator[tuple[Address, Address, int]]:
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:  # noqa: PTH123 - not a file of the disk
                next(file, None)
                for fields in map(str.split, file):
                    if fields[3] == _ESTABLISHED:
                        yield _endpoint(fields[1]), _endpoint(fields[2]), int(fields[7])
        except (OSError, ValueError, IndexError):
            continue


def _endpoint(field: str) -> Address:
    """`0100007F:1F90` is 127.0.0.1:8080. Addresses are in words of four bytes, in the machine's order."""
    digits, _, port = field.rpartition(":")
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return _plain(str(ipaddress.ip_address(data))), int(port, 16)


def _plain(name: str) -> str:
    """127.0.0.1 for ::ffff:127.0.0.1, which a client's IPv6 socket may have."""
    address = ipaddress.ip_address(name)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(_plain(name)).is_loopback
    except ValueError:
        return False
