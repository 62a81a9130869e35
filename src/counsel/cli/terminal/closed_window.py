"""Writing to a terminal whose window may be closed at any moment.

A write can fail before SIGHUP arrives, and the command still has work to do: it keeps answers that were paid for.
"""

from __future__ import annotations

import errno
import os
from typing import TextIO


def write(stream: TextIO, text: str) -> None:
    """Write and flush. If the window is gone, this and all later output is discarded; SIGHUP ends the command."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        write_nowhere(stream.fileno())


def write_nowhere(*files: int) -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    for file in files:
        os.dup2(sink, file)
    os.close(sink)
