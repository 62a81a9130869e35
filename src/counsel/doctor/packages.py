"""The packages that counsel needs, and their versions, from the files that pip and uv write.

`importlib.metadata` returns the same but takes 22 ms of CPU, mostly for its e-mail parser; it is used for packages that
are not in a folder.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path


def required() -> list[str]:
    """Names of the required packages, without extras; [] if counsel runs from a folder on PYTHONPATH."""
    lines = [line for line in _fields("counsel", "Requires-Dist") if "extra ==" not in line]
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]


def version(name: str) -> str | None:
    """The package's version; None if it is not installed."""
    return next(iter(_fields(name, "Version")), None)


def _fields(name: str, field: str) -> list[str]:
    headers = _headers(_normal(name))
    return [line.partition(":")[2].strip() for line in headers if line.startswith(f"{field}:")]


@cache
def _headers(name: str) -> list[str]:
    """The lines of the package's metadata before the first empty line, where the description begins."""
    folder = _folders().get(name)
    try:
        text = (folder / "METADATA").read_text("utf-8") if folder else _text_elsewhere(name)
    except (OSError, ValueError):
        text = _text_elsewhere(name)
    return text.partition("\n\n")[0].splitlines()


def _text_elsewhere(name: str) -> str:
    """The metadata of a package in a zip file or with its own importer."""
    from importlib import metadata

    try:
        return metadata.distribution(name).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return ""


@cache
def _folders() -> dict[str, Path]:
    """Each package's metadata folder: the first on the module path, as for imports."""
    folders: dict[str, Path] = {}
    for entry in filter(None, sys.path):
        for folder in _dist_infos(entry):
            folders.setdefault(
                _normal(folder.removesuffix(".dist-info").rpartition("-")[0]), Path(entry, folder)
            )
    return folders


def _dist_infos(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(".dist-info")]
    except OSError:
        return []


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
