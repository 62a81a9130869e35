"""Images for agents that take them by path: a private store inside the project.

`.counsel/assets/<sha256>.<ending>`: the name is the content's hash, so the same image is stored once and a path stays
valid. git ignores the folder, only the user can read it (0700, files 0600), and nothing is ever written through a link.
The images have been checked (engine/context/images.py): type by content, size, no SVG.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from counsel.errors import FileNotAllowed
from counsel.types import Image

if TYPE_CHECKING:
    from counsel.agents.driver import AgentRequest

FOLDER = Path(".counsel") / "assets"
# git ignores everything here. The second line is for Gemini CLI, which refuses to read what git ignores: it strips
# the leading space and reads "but not these", where git sees names that start with a space (Gemini 0.61).
GITIGNORE = b"*\n !*\n"
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def paths(request: AgentRequest) -> list[Path]:
    """The images of this run, each stored in its working folder."""
    return [keep(request.cwd, image) for image in request.images]


def keep(project: Path, image: Image) -> Path:
    """Write the image to the project's store unless it is there. Returns its absolute path."""
    ending = ENDINGS.get(image.media_type)
    if ending is None:
        raise FileNotAllowed(
            f"{image.name} is {image.media_type}, which agents do not support.",
            hint="Convert it to PNG or JPEG.",
            file=image.name,
        )
    try:
        path = _store(project) / f"{hashlib.sha256(image.data).hexdigest()}.{ending}"
        if not _is_plain(path, len(image.data)):
            _write(path, image.data)
    except OSError as error:
        raise FileNotAllowed(
            f"{image.name} could not be stored in {project / FOLDER} ({error.strerror}).",
            hint="Make the project's folder writable.",
            file=str(error.filename or project),
        ) from None
    return path


def image_json(image: Image, path: Path) -> dict[str, object]:
    """The result of `counsel images add --json` and `POST /api/images` for one image."""
    return {
        "path": str(path),
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "bytes": len(image.data),
        "sha256": path.stem,
    }


def _store(project: Path) -> Path:
    """The folder, created if needed. A link in its place is refused: it would lead writes out of the project."""
    project = project.resolve()
    top, folder = project / FOLDER.parts[0], project / FOLDER
    for directory in (top, folder):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        if not stat.S_ISDIR(directory.lstat().st_mode):
            raise FileNotAllowed(
                f"{directory} is not a folder (it may be a link), so no image is stored there.",
                hint="Remove it and try again.",
                file=str(directory),
            )
    ignore = top / ".gitignore"
    if not ignore.exists():
        _write(ignore, GITIGNORE)
    return folder


def _is_plain(path: Path, size: int) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(info.st_mode) and info.st_size == size


def _write(path: Path, data: bytes) -> None:
    """Write atomically, even if another process writes the same image now; `replace` never follows a link."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
