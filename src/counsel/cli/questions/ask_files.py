"""The files and images that a person names on the command line: single paths, folders, patterns.

A person who types a path consents to sending that file, wherever it is. There is no consent for a link inside the
project that leads out of it (whoever wrote the project chose its target), and none in a command that an agent runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from counsel.caller import Caller
from counsel.cli.terminal import output
from counsel.engine.context import expand, files, gitignore
from counsel.engine.context.allowed_folders import Folders
from counsel.engine.context.expand import LeftOut
from counsel.errors import CounselError, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.paths import isdir

# Variables that agents set for the commands that they run; agents/environment.py removes them.
AGENT_MARKS = ("COUNSEL_CHAIN", "CLAUDECODE", "CODEX_SANDBOX", "CODEX_THREAD_ID", "GEMINI_CLI", "CURSOR_AGENT", "OPENCODE")  # fmt: skip
_MOST_NAMES = 5  # file names listed per reason


@dataclass(slots=True)
class Attachments:
    """The files sent with a question. `caller` may send exactly these."""

    caller: Caller
    files: tuple[str, ...] = ()
    left_out: list[LeftOut] = field(default_factory=list)


def attach(names: Sequence[str], images: Sequence[str], caller: Caller, *, allow_secret: bool) -> Attachments:
    """Expand folders and patterns, and record consent to the typed paths. Raises before anything is sent."""
    if not names and not images:
        return Attachments(caller)
    if any(caller.env.get(name) for name in AGENT_MARKS):
        return _expand(names, caller, consent=False)
    caller = replace(caller, roots=(*caller.roots, *_repository(caller)))
    paths = [*_paths(names, caller), *(path for name in images if (path := _image_path(name, caller)))]
    real = tuple(_paths_with_consent(paths, caller))
    caller = replace(caller, consented_files=real, consented_secrets=real if allow_secret else ())
    return _expand(names, caller, consent=True)


def read_text(name: str, caller: Caller, *, allow_secret: bool) -> str:
    """Read a typed file's text unchanged, under the same rules as a file that is sent."""
    caller = attach([name], [], caller, allow_secret=allow_secret).caller
    folders = Folders.of(caller)
    return files.plain(name, folders.locate(name), folders)


def report(left_out: Iterable[LeftOut], folder: Path) -> None:
    """Print one line per reason on stderr."""
    reasons: dict[str, list[str]] = {}
    for entry in left_out:
        reasons.setdefault(entry.why, []).append(os.path.relpath(entry.path, folder))
    for reason, paths in reasons.items():
        more = f" and {len(paths) - _MOST_NAMES} more" if len(paths) > _MOST_NAMES else ""
        output.message(f"left out: {', '.join(paths[:_MOST_NAMES])}{more} ({reason})")


def is_path(text: str, cwd: Path) -> bool:
    """Whether a word of the command line is a path or pattern that `-f` accepts, rather than a question."""
    name = files.without_range(text)
    if not name.strip() or len(name) > 4096 or "\0" in name:
        return False
    path = cwd / Path(name).expanduser()
    if any(os.path.lexists(candidate) for candidate in (cwd / text, path)):
        return True
    return "/" in name and expand.has_pattern(name) and " " not in name and isdir(expand.split(path)[0])


def _repository(caller: Caller) -> tuple[Path, ...]:
    """The repository around the caller's folder, unless it contains the home folder: that is not one project."""
    root = gitignore.repository(Path(os.path.realpath(caller.cwd)))
    home = Path(os.path.realpath(caller.env.get("HOME") or Path.home()))
    return (root,) if root and not home.is_relative_to(root) else ()


def _paths(names: Iterable[str], caller: Caller) -> Iterator[Path]:
    folders = Folders.of(caller)
    for name in names:
        if not _folder_or_pattern(name, folders):
            yield files.parse(name, folders).path


def _image_path(value: str, caller: Caller) -> Path | None:
    """The image's path; None for a data URL and for base64."""
    if value[:5].lower() == "data:" or len(value) > 4096 or not value.strip():
        return None
    return Folders.of(caller).locate(value)


def _paths_with_consent(paths: Iterable[Path], caller: Caller) -> Iterator[Path]:
    projects = [Path(os.path.normpath(folder)) for folder in caller.folders]
    projects += [Path(os.path.realpath(folder)) for folder in projects]
    for path in paths:
        try:
            lexical, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
        except (OSError, ValueError):  # the engine reports it when it opens the file
            continue
        inside = [folder for folder in projects if lexical.is_relative_to(folder) and folder != folder.parent]
        if not inside or any(real.is_relative_to(folder) for folder in projects):
            yield real


def _expand(names: Sequence[str], caller: Caller, *, consent: bool) -> Attachments:
    attachments = Attachments(caller)
    folders = Folders.of(caller)
    paths: list[str] = []
    for name in names:
        if place := _folder_or_pattern(name, folders):
            paths += _sendable(*place, attachments, consent=consent)
        else:
            paths.append(name)
    attachments.files = tuple(dict.fromkeys(paths))
    return attachments


def _folder_or_pattern(name: str, folders: Folders) -> tuple[str, Path, str] | None:
    """The name, its path and its line range if it is a folder or a pattern; None for a single file."""
    path = folders.locate(name)
    if os.path.lexists(path):
        return (name, path, "") if isdir(path) else None
    plain = files.without_range(name)
    if expand.has_pattern(plain) and not os.path.lexists(folders.locate(plain)):
        return plain, folders.locate(plain), name[len(plain) :]
    return None


def _sendable(name: str, path: Path, lines: str, attachments: Attachments, *, consent: bool) -> list[str]:
    """The files of one folder or pattern that can be sent. Those that cannot are left out and reported."""
    expansion = _walk(path, attachments.caller, consent=consent)
    caller = attachments.caller
    folders = Folders.of(replace(caller, consented_files=tuple(expansion.files)) if consent else caller)
    readable: list[Path] = []
    left_out = list(expansion.left_out)
    limit = caller.settings.max_files
    if len(expansion.files) > limit:
        raise InvalidArgument(
            f"{name} has {len(expansion.files):,} files; the limit is {limit:,}.",
            hint="Name a subfolder or a pattern such as 'src/*.py', or raise COUNSEL_MAX_FILES.",
            file=name,
        )
    for file in expansion.files:
        try:
            files.read(files.FileSpec(file.name, file), folders)
        except CounselError as error:
            left_out.append(LeftOut(file, _reason(error, file.name)))
        else:
            readable.append(file)
    if consent:
        attachments.caller = replace(caller, consented_files=(*caller.consented_files, *readable))
    attachments.left_out += left_out
    if not readable:
        raise InvalidArgument(
            f"{name} has no file to send.",
            hint="; ".join(
                f"{os.path.relpath(entry.path, caller.cwd)}: {entry.why}" for entry in left_out[:_MOST_NAMES]
            )
            or "Check the path and the pattern.",
            file=name,
        )
    return [f"{file}{lines}" for file in readable]


def _walk(path: Path, caller: Caller, *, consent: bool) -> expand.Expansion:
    folder, pattern = (path, "") if isdir(path) else expand.split(path)
    base = Path(os.path.realpath(folder))
    folders = Folders.of(replace(caller, consented_files=()))
    has_consent = consent and base in _paths_with_consent([folder], caller)
    if not (has_consent or folders.allows(base)):
        raise folders.outside(str(folder))
    home = Path(caller.env.get("HOME") or Path.home())
    rules = gitignore.for_folder(base, caller.env, home)
    return expand.matching(base, pattern, rules) if pattern else expand.folder(base, rules)


def _reason(error: CounselError, name: str) -> str:
    """The message without the file's name, which the report prints anyway."""
    text = error.message.removeprefix(name).lstrip(" :").rstrip(".")
    return text.removeprefix("was not sent: ")
