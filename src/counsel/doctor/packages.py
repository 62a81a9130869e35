"""The packages that counsel needs, and their versions, from the files that pip and uv write.

`importlib.metadata` gives the same and takes 22 ms of CPU, mostly for its e-mail parser; it is used where a package is not
in a folder.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path


def required() -> list[str]:
    """As the package names them, without its extras. [] where it runs from a folder on PYTHONPATH."""
    lines = [line for line in _fields("counsel", "Requires-Dist") if "extra ==" not in line]
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]


def version(name: str) -> str | None:
    """None: it is not installed."""
    return next(iter(_fields(name, "Version")), None)


def _fields(name: str, field: str) -> list[str]:
    headers = _headers(_normal(name))
    return [line.partition(":")[2].strip() for line in headers if line.startswith(f"{field}:")]


@cache
def _headers(name: str) -> list[str]:
    """The metadata above its first empty line, where the description begins."""
    folder = _folders().get(name)
    try:
        text = (folder / "METADATA").read_text("utf-8") if folder else _text_elsewhere(name)
    except (OSError, ValueError):
        text = _text_elsewhere(name)
    return text.partition("\n\n")[0].splitlines()


def _text_elsewhere(name: str) -> str:
    """Of a package in a zip file, or behind an importer of its own."""
    from importlib import metadata

    try:
        return metadata.distribution(name).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return ""


@cache
def _folders() -> dict[str, Path]:
    """The first in the order of the module path, as imports find it."""
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
