"""The daemon: one engine per user and COUNSEL_HOME behind a private unix socket, for as long as it is needed.

`python -m counsel.daemon.main` forks before anything heavy is imported: the first process ends when the daemon
listens (0) or could not start (an error's number, or 1), so that whoever started it knows, and the daemon is nobody's child.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main(argv: list[str]) -> int:
    if "--foreground" in argv:
        return _serve(lambda: None)
    listening, tell = os.pipe()
    if os.fork():
        os.close(tell)
        said = os.read(listening, 1)
        os._exit(1 if not said else said[0])
    os.close(listening)
    os.setsid()
    os.chdir("/")  # no folder is kept from being unmounted

    def ready() -> None:
        os.write(tell, b"\0")
        os.close(tell)

    number = _serve(ready)
    if number:  # on a full disk its words reach nobody: the number does
        os.write(tell, bytes([number & 0xFF]))
    return number


def _serve(ready: Callable[[], None]) -> int:
    from counsel.daemon.server import run  # noqa: PLC0415 - after the fork: everything heavy is imported here

    return run(ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
