"""Starts the daemon: one engine per user and COUNSEL_HOME behind a private unix socket, for as long as it is needed.

`python -m counsel.daemon.main` forks before anything heavy is imported. The first process exits when the daemon listens
(status 0) or could not start (an errno, or 1). This tells the caller the result and leaves the daemon without a parent.
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
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        status = os.read(read_end, 1)
        os._exit(status[0] if status else 1)
    os.close(read_end)
    os.setsid()
    os.chdir("/")  # keeps no file system mounted

    def ready() -> None:
        os.write(write_end, b"\0")
        os.close(write_end)

    status_code = _serve(ready)
    if status_code:  # on a full disk this code arrives, the message does not
        os.write(write_end, bytes([status_code & 0xFF]))
    return status_code


def _serve(ready: Callable[[], None]) -> int:
    from counsel.daemon.server import run  # after the fork: everything heavy is imported here

    return run(ready)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
