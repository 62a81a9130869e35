"""A conversation as a folder: `1_request.txt`, `1_response.txt`, …, `metadata.json`.

`metadata.json` marks a folder as ours: it names the conversation and every file that we wrote there. Files that it does
not name are never overwritten. All steps use descriptors of the folders themselves, so a symlink that appears in the
meantime has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from counsel.caller import Caller
from counsel.engine.context.allowed_folders import Folders, expand
from counsel.errors import Conflict, CounselError, FileNotAllowed, InvalidArgument
from counsel.lazy_dataclass import dataclass

_ID = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.-]{1,64}").fullmatch
_FORMAT = 1
_MARK = "counsel_export"
_MARK_LIMIT = 16 * 1024 * 1024
_LEFTOVER = re.compile(r"\.counsel-[0-9a-f]{16}\.tmp").fullmatch
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ExportedTurn:
    request: str
    response: str | None  # None: there was no answer
    metadata: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportedConversation:
    id: str
    turns: tuple[ExportedTurn, ...]
    metadata: dict[str, object] = field(default_factory=dict)


def destination(folder: bool | str, caller: Caller) -> tuple[Path, Path]:
    """`target` and `allowed_root` of `export` for a caller's request: the caller's folder, or a folder inside it.

    Called before a model is asked, so that nobody pays for an answer that cannot be written.
    """
    if not caller.cwd.is_absolute():
        raise InvalidArgument(
            "There is no folder to export to: the caller's folder is unknown.",
            hint="Set CLIENT_CWD or name a folder.",
        )
    folders = Folders.of(caller)
    target = caller.cwd / expand(folder, folders.home) if isinstance(folder, str) else caller.cwd
    real = Path(os.path.realpath(target))
    root = next((root for root in (*folders.working, *folders.allowed) if real.is_relative_to(root)), None)
    if root is None or not folders.allows(real):
        raise _outside(target, caller.cwd)
    return real, root


def export(conversation: ExportedConversation, target: Path, allowed_root: Path) -> Path:
    """Write the conversation to `target/<id>` inside `allowed_root`, or bring an earlier export up to date.

    Returns the folder. Files that a person has changed stay as they are.
    """
    if not _ID(conversation.id):
        raise InvalidArgument(
            f"{conversation.id!r} cannot name a folder.",
            hint="Use at most 64 letters, digits, `_`, `.` and `-`.",
        )
    root = Path(os.path.realpath(allowed_root))
    parent = Path(os.path.realpath(target))
    folder = parent / conversation.id
    if not parent.is_relative_to(root):
        raise _outside(target, allowed_root)
    try:
        with _open_folder(root, [*parent.relative_to(root).parts, conversation.id]) as fd:
            _bring_up_to_date(fd, folder, conversation)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def contents(conversation: ExportedConversation) -> dict[str, bytes]:
    """Every file except `metadata.json`."""
    texts: dict[str, str | None] = {}
    for number, turn in enumerate(conversation.turns, 1):
        texts[f"{number}_request.txt"] = turn.request
        texts[f"{number}_response.txt"] = turn.response
    return {name: text.encode("utf-8", "replace") for name, text in texts.items() if text is not None}


def folder_contents(conversation: ExportedConversation) -> dict[str, bytes]:
    """Every file of a new export."""
    files = contents(conversation)
    return {
        **files,
        "metadata.json": _metadata(conversation, {name: _hash(data) for name, data in files.items()}),
    }


def _bring_up_to_date(fd: int, folder: Path, conversation: ExportedConversation) -> None:
    files = contents(conversation)
    ours = _our_files(fd, folder, conversation.id)
    changes = {name: data for name, data in files.items() if _must_write(fd, folder / name, data, ours)}
    old_hashes = {name: ours[name] for name in files if name in ours and name not in changes}
    hashes = {**ours, **{name: _hash(data) for name, data in files.items()}, **old_hashes}
    # The metadata is written first, so that files from before a crash are recognised as ours.
    _write(fd, "metadata.json", _metadata(conversation, hashes))
    for name, data in changes.items():
        _write(fd, name, data)
    os.fsync(fd)


def _metadata(conversation: ExportedConversation, hashes: Mapping[str, str]) -> bytes:
    document = {
        _MARK: _FORMAT,
        "continuation_id": conversation.id,
        **{key: value for key, value in conversation.metadata.items() if key not in {_MARK, "files"}},
        "turns": [turn.metadata for turn in conversation.turns],
        "files": dict(hashes),
    }
    document["continuation_id"] = conversation.id
    return (json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")


def _our_files(fd: int, folder: Path, conversation_id: str) -> dict[str, str]:
    """Names and hashes of the files that we wrote here before. Raises if the folder has files that we did not write."""
    data = _read(fd, "metadata.json")
    if data is None:
        if any(not _LEFTOVER(name) for name in os.listdir(fd)):
            raise _conflict(folder, "contains files that counsel did not write")
        return {}
    try:
        document = json.loads(data)
        if document[_MARK] == _FORMAT and document["continuation_id"] == conversation_id:
            return {str(name): str(value) for name, value in dict(document["files"]).items()}
    except (ValueError, KeyError, TypeError):
        pass
    raise _conflict(folder, "its metadata.json belongs to something else")


def _must_write(fd: int, path: Path, data: bytes, ours: Mapping[str, str]) -> bool:
    existing = _read(fd, path.name)
    if existing is None:
        return True
    if existing == data:
        return False
    if path.name not in ours:
        raise _conflict(path, "was not written by counsel")
    return _hash(existing) == ours[path.name]  # otherwise a person has changed it


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(fd: int, name: str) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENXIO}:  # a symlink, a socket
            return b""
        raise
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, file)
        if not os.path.isfile(file):  # noqa: PTH113 — a descriptor has no Path
            return b""
        with open(file, "rb", closefd=False) as stream:
            return stream.read(_MARK_LIMIT)


def _write(fd: int, name: str, data: bytes) -> None:
    """Write a file atomically, readable only by its owner: it contains prompts and answers."""
    draft = f".counsel-{secrets.token_hex(8)}.tmp"
    file = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd
    )
    try:
        with open(file, "wb") as stream:  # noqa: PTH123 — a descriptor has no Path
            stream.write(data)
            stream.flush()
            os.fsync(file)
        os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=fd)
        raise


@contextlib.contextmanager
def _open_folder(root: Path, parts: list[str]) -> Iterator[int]:
    """Open the folder below `root` without following symlinks; create it if it is missing."""
    fd = os.open(root, _DIRECTORY)
    try:
        for number, part in enumerate(parts, 1):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=fd)
            try:
                below = os.open(part, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
                    raise _conflict(root.joinpath(*parts[:number]), "is not a folder") from None
                raise
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _outside(target: Path, root: Path) -> CounselError:
    return FileNotAllowed(
        f"{target} is outside {root}: nothing was exported.",
        hint="Export to a folder inside your working folder, or run `counsel conversations export ID DIR`.",
        file=str(target),
    )


def _conflict(path: Path, why: str) -> CounselError:
    return Conflict(
        f"{path} exists and {why}: nothing was exported.",
        hint="Move it away, or export to another folder.",
        file=str(path),
    )


def _unwritable(folder: Path, error: OSError) -> CounselError:
    return FileNotAllowed(
        f"{folder} cannot be written: {error.strerror}.",
        hint="Check the disk and the folder's mode, or export to another folder.",
        file=str(folder),
    )
