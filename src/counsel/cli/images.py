"""`counsel images`: images for agents, stored in the project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from counsel.caller import Caller
from counsel.cli import json_option, user
from counsel.cli.terminal import output
from counsel.types import Image


@click.group()
def images() -> None:
    """Store images in the project's private folder, .counsel/assets/."""


@images.command(short_help="Check images and store them in the project.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@json_option
def add(files: tuple[str, ...], as_json: bool) -> None:
    """Check images and copy them to .counsel/assets/ in the current folder.

    The type is detected from the content: PNG, JPEG, GIF, WEBP or BMP (stored as PNG). The name is the content's
    hash, so the same image is stored once; git ignores the folder. Prints the paths.
    """
    from counsel.agents.images import image_json, keep

    caller = user.caller()
    sources = [
        _load(caller, Path(name).expanduser().absolute()) for name in files
    ]  # all of them, before the first is stored
    paths = [keep(caller.cwd, image) for image in sources]
    entries = [
        {"file": str(image.path), **image_json(image, path)}
        for image, path in zip(sources, paths, strict=True)
    ]
    if as_json:
        output.document({"images": entries})
        return
    for path in paths:
        output.line(str(path))


def _load(caller: Caller, path: Path) -> Image:
    """Load an image. It may be anywhere: its own folder is allowed for this read."""
    from counsel.engine.context.allowed_folders import Folders
    from counsel.engine.context.images import load

    image = load(str(path), 1, Folders.of(replace(caller, roots=(path.parent,))))
    return replace(image, path=path)
