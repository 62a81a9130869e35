"""Pictures for agents that take them by path: a private store inside the project.

`.counsel/assets/<sha256>.<ending>`: the name is the content, so the same picture is kept once and a path once
given stays true. The folder ignores itself in git, is the user's alone (0700, files 0600), and nothing is ever
written through a link. Pictures come here checked (engine/context/images.py): type by content, bounded, no SVG.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from counsel.errors import FileNotAllowed
from counsel.types import Image, Json

if TYPE_CHECKING:
    from counsel.agents.driver import Ask

FOLDER = Path(".counsel") / "assets"
# git ignores everything here. The second line is for Gemini CLI, which refuses to read what git ignores: it strips
# the leading space and reads "but not these", where git looks for names that begin with a space (Gemini 0.61).
GITIGNORE = b"*\n !*\n"
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def paths(ask: Ask) -> list[Path]:
    """The pictures of this run, each kept in the store of its working folder."""
    return [keep(ask.cwd, image) for image in ask.images]


def keep(project: Path, image: Image) -> Path:
    """Write the picture to the project's store, unless it is there; its absolute path."""
    ending = ENDINGS.get(image.media_type)
    if ending is None:
        raise FileNotAllowed(
            f"{image.name} is {image.media_type}, which agents do not see.",
            hint="Convert it to PNG or JPEG.",
            file=image.name,
        )
    try:
        path = _store(project) / f"{hashlib.sha256(image.data).hexdigest()}.{ending}"
        if not _is_plain(path, len(image.data)):
            _write(path, image.data)
    except OSError as error:
        raise FileNotAllowed(
            f"{image.name} could not be kept in {project / FOLDER} ({error.strerror}).",
            hint="Make the project's folder writable.",
            file=str(error.filename or project),
        ) from None
    return path


def described(image: Image, path: Path) -> Json:
    """What `counsel images add --json` and `POST /api/images` tell of a picture that was kept."""
    return {
        "path": str(path),
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "bytes": len(image.data),
        "sha256": path.stem,
    }


def _store(project: Path) -> Path:
    """The folder, made if need be; a link in its place would lead writes out of the project."""
    project = project.resolve()
    top, folder = project / FOLDER.parts[0], project / FOLDER
    for each in (top, folder):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
        if not stat.S_ISDIR(each.lstat().st_mode):
            raise FileNotAllowed(
                f"{each} is not a folder (a link?), so no picture is kept there.",
                hint="Remove it and try again.",
                file=str(each),
            )
    ignore = top / ".gitignore"
    if not ignore.exists():
        _write(ignore, GITIGNORE)
    return folder


def _is_plain(path: Path, size: int) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, whoever else writes the same picture now; `replace` never follows a link."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(made, "wb") as out:
            out.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
