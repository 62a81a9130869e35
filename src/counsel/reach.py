"""Looking at places that may be somebody else's. Until Python 3.14 pathlib's own `exists` and `is_dir` fail there;
these say no."""

from os.path import exists, isdir, isfile

__all__ = ["exists", "isdir", "isfile"]
