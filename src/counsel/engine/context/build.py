"""Turns the caller's question into what is sent: the prompt, the files' contents, the images.

If any file is bad, nothing is sent, and the error names every bad file.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from counsel.caller import Caller
from counsel.engine.context import files, images
from counsel.engine.context.allowed_folders import Folders
from counsel.engine.context.files import TextFile
from counsel.engine.store.model import Part
from counsel.errors import CounselError, FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.requests import Question
from counsel.results import Source
from counsel.types import Image

MAX_TOTAL = 16 * 1024 * 1024  # characters of all files with their line numbers: more than any model's context
_AT_ONCE = threading.BoundedSemaphore(8)  # questions whose files are being read: these files are in memory
T = TypeVar("T")
_FILES_START = "\n\n<files>\n"


@dataclass(frozen=True, slots=True)
class Context:
    """`prompt` includes the files' contents, for models; agents get `plain` and read `files` themselves."""

    prompt: str
    plain: str
    images: tuple[Image, ...] = ()
    files: tuple[Path, ...] = ()
    ranges: tuple[str, ...] = ()  # one for each of `files`, such as `10-50, 80-90`; empty: the whole file
    sources: tuple[Source, ...] = ()
    parts: tuple[Part, ...] = ()


async def build_async(question: Question, caller: Caller) -> Context:
    if not (question.files or question.images):
        return build(question, caller)
    # A thread of its own: a PDF may take half a minute, and other blocking work must not wait for it.
    thread = ThreadPoolExecutor(1, "counsel-files")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, _build_in_turn, question, caller)
    finally:
        thread.shutdown(wait=False)


def _build_in_turn(question: Question, caller: Caller) -> Context:
    with _AT_ONCE:
        return build(question, caller)


def build(question: Question, caller: Caller) -> Context:
    """Read and check everything that the question names. Raises `Refused`; nothing is sent then."""
    if not (question.files or question.images):
        return Context(question.prompt, question.prompt)
    _check_count("files", question.files, caller.settings.max_files)
    _check_count("images", question.images, caller.settings.max_images)
    folders = Folders.of(caller)
    bad: list[CounselError] = []
    reads = (partial(_text, name, folders) for name in question.files)
    texts = list(_bounded(_unique(_loaded(reads, bad), _text_key)))
    loads = (partial(images.load, name, number, folders) for number, name in enumerate(question.images, 1))
    loaded_images = list(_unique(_loaded(loads, bad), _image_key))
    if bad:
        raise _combined(bad)
    ranges = _ranges(texts)
    return Context(
        prompt=_prompt(question.prompt, texts),
        plain=question.prompt,
        images=tuple(loaded_images),
        files=tuple(ranges),
        ranges=tuple(ranges.values()),
        sources=(*(text.source for text in texts), *map(_image_source, loaded_images)),
        parts=tuple(_parts(question.prompt, texts)),
    )


def _text(name: str, folders: Folders) -> TextFile:
    return files.read(files.parse(name, folders), folders)


def _text_key(text: TextFile) -> object:
    return text.key


def _image_key(image: Image) -> object:
    return hashlib.sha256(image.data).digest()


def _loaded(loads: Iterator[Callable[[], T]], bad: list[CounselError]) -> Iterator[T]:
    for load in loads:
        try:
            yield load()
        except CounselError as error:
            bad.append(error)


def _unique(items: Iterator[T], key: Callable[[T], object]) -> Iterator[T]:
    keys: set[object] = set()
    for item in items:
        if (item_key := key(item)) not in keys:
            keys.add(item_key)
            yield item


def _combined(bad: list[CounselError]) -> CounselError:
    first = bad[0]
    if len(bad) == 1:
        return first
    messages = " ".join(f"({number}) {error}" for number, error in enumerate(bad, 1))
    fields = {**first.fields, "files": [str(error.fields.get("file", "")) for error in bad]}
    return type(first)(f"{len(bad)} files cannot be sent: {messages}", **fields)


def _check_count(kind: str, names: tuple[str, ...], limit: int) -> None:
    if len(names) > limit:
        raise InvalidArgument(
            f"{len(names)} {kind} are too many; the limit is {limit}.",
            hint=f"Send fewer, or raise COUNSEL_MAX_{kind.upper()}.",
        )


def _bounded(texts: Iterator[TextFile]) -> Iterator[TextFile]:
    """The texts up to the total limit. Raises at the file that exceeds it, before the rest is read."""
    total = 0
    for text in texts:
        total += len(text.block)
        if total > MAX_TOTAL:
            raise FileTooLarge(
                f"The files contain more than {MAX_TOTAL:,} characters in total.",
                hint="Send fewer files, or line ranges such as path{10:50}.",
                file=text.source.name,
            )
        yield text


def _prompt(prompt: str, texts: list[TextFile]) -> str:
    if not texts:
        return prompt
    blocks = "\n".join(text.block for text in texts)
    return f"{prompt}{_FILES_START}{blocks}\n</files>"


def _parts(prompt: str, texts: list[TextFile]) -> Iterator[Part]:
    start = len(prompt) + len(_FILES_START)
    for text in texts:
        end = start + len(text.block)
        yield Part(f"{text.path}{{{text.lines}}}", text.sha, start, end)
        start = end + 1


def _ranges(texts: list[TextFile]) -> dict[Path, str]:
    """The requested lines of each file, for agents, which read files themselves."""
    ranges: dict[Path, list[str]] = {}
    for text in texts:
        ranges.setdefault(text.path, []).append(text.lines)
    return {path: ", ".join(lines) if all(lines) else "" for path, lines in ranges.items()}


def _image_source(image: Image) -> Source:
    return Source(name=image.name, size=len(image.data))
