"""`counsel images`: pictures for agents, kept in the project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from counsel.caller import Caller
from counsel.cli import connect, json_option, output
from counsel.types import Image


@click.group()
def images() -> None:
    """Keep pictures in the project's private store, .counsel/assets/."""


@images.command(short_help="Check pictures and keep them in the project.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@json_option
def add(files: tuple[str, ...], as_json: bool) -> None:
    """Check pictures and copy them to .counsel/assets/ in the current folder.

    The kind is found from the content: PNG, JPEG, GIF, WEBP or BMP (kept as PNG). The name in the store is the
    content's hash, so the same picture is kept once; the folder ignores itself in git. Prints the paths.
    """
    from counsel.agents.images import described, keep

    who = connect.caller()
    loaded = [_loaded(who, Path(name).expanduser().absolute()) for name in files]  # all, before one is kept
    kept = [{"file": str(image.path), **described(image, keep(who.cwd, image))} for image in loaded]
    if as_json:
        output.document({"images": kept})
        return
    for each in kept:
        output.line(each["path"])


def _loaded(who: Caller, given: Path) -> Image:
    """A person at a shell may name a picture anywhere: its own folder is allowed for this one look."""
    from counsel.engine.context.allowed_folders import Folders
    from counsel.engine.context.images import load

    image = load(str(given), 1, Folders.of(replace(who, roots=(given.parent,))))
    return replace(image, path=given)
