"""Looking at places that may be somebody else's, or gone. Until Python 3.14 pathlib's own `exists` and `is_dir` fail
there; these say no."""

import os
from os.path import exists, isdir, isfile
from pathlib import Path

__all__ = ["current_folder", "exists", "isdir", "isfile"]


def current_folder() -> Path:
    try:
        return Path(os.getcwd())  # noqa: PTH109 - pathlib does the same
    except FileNotFoundError:
        from counsel.errors import NotFound  # noqa: PLC0415 - rarely needed

        raise NotFound(
            "The current folder is gone.", hint="Go to one that is there, as with `cd ~`."
        ) from None
