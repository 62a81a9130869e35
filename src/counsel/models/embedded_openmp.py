"""GCC's OpenMP library for the embedded model's runtime, where the system has none: slim containers.

`xllamacpp` needs a `libgomp.so.1`, which its wheels leave to the system. Wheels of other packages contain copies under
names of their own; `treelite` has the smallest that serves every Python version (`embedded_openmp.lock`).
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

NAME = "libgomp.so.1"


def is_missing(folder: Path) -> bool:
    """Whether the runtime in `folder` needs the library, and neither the folder nor the system has it."""
    if sys.platform != "linux" or (folder / NAME).exists() or _is_loadable(NAME):
        return False
    return any(NAME.encode() in part.read_bytes() for part in folder.glob("xllamacpp/*.so"))


def unpack(packages: Path, folder: Path) -> bool:
    """Move the library from unpacked wheels to the folder. Returns whether they have one."""
    source = next(packages.glob("treelite.libs/libgomp-*"), None)
    if source is None:
        return False
    content = source.read_bytes()
    # The loader knows a library that is in memory by the name inside of it, so that has to be the usual one, too.
    own_name = re.search(rb"libgomp-[0-9a-f]+\.so[.\d]*", content)
    if own_name:
        content = content.replace(own_name[0], NAME.encode().ljust(len(own_name[0]), b"\0"))
    library = packages / NAME  # complete before it is in its place: a process may be killed while it writes
    library.write_bytes(content)
    library.replace(folder / NAME)
    return True


def load(folder: Path) -> None:
    """Load our copy if there is one, so that the loader does not look for the system's."""
    if (folder / NAME).exists():
        ctypes.CDLL(str(folder / NAME), ctypes.RTLD_GLOBAL)


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
