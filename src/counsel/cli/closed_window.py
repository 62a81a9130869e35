"""Writing to a terminal whose window may be closed at any moment.

The write can fail before SIGHUP has arrived, and there is work to do before the end: answers that were paid for are kept.
"""

from __future__ import annotations

import errno
import os
from typing import TextIO


def write(stream: TextIO, text: str) -> None:
    """Write and flush. If the window is gone, this and everything later goes nowhere; SIGHUP ends the command."""
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
