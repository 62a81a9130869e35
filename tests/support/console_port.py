"""A separate console port for each test: all daemons prefer the same port, and tests run side by side."""

from __future__ import annotations

import itertools
import json
import os
import socket
from pathlib import Path

_NUMBERS = itertools.count()


def reserve(home: Path) -> int:
    """Choose the port of `counsel console` for this home, outside the kernel's range of ephemeral ports."""
    while True:
        port = 20_000 + (os.getpid() * 37 + next(_NUMBERS)) % 12_000
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
        note = {"port": port, "at": 0, "open": False, "project": "/"}
        (home / "run" / "console.json").write_text(json.dumps(note))
        return port
