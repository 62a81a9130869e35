"""Folders of ours are their owner's alone. Standard library only: the stdio front stands on this."""

from __future__ import annotations

import os


def folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and whatever is missing above it, 0700 each: `mkdir(parents=True)` gives only the last one its mode."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        above = os.path.dirname(os.fspath(path))
        if not above or above == os.fspath(path):
            raise
        folder(above)
        folder(path)
