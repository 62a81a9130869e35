"""The text of a PDF, page by page, read by a process with limits on time and memory (`pdf_worker.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from counsel.engine.context.allowed_folders import OpenFile
from counsel.errors import CounselError, FileTooLarge, InvalidArgument, RateLimited
from counsel.lazy_dataclass import dataclass
from counsel.settings import Settings

SECONDS = 30.0  # for one file; CPU time has a lower limit
_AT_ONCE = threading.BoundedSemaphore(2)  # each PDF may take a gigabyte of memory
_WORKER = Path(__file__).with_name("pdf_worker.py")


@dataclass(frozen=True, slots=True)
class Pdf:
    pages: list[str]  # up to the last page that is needed
    count: int  # pages in the whole file


def is_pdf(file: OpenFile) -> bool:
    """Whether the file's first bytes are a PDF's, whatever its name is."""
    return os.pread(file.fd, 5, 0) == b"%PDF-"


def read(file: OpenFile, last: int | None, settings: Settings) -> Pdf:
    """The text of all pages, or up to page `last`."""
    if file.size > settings.max_pdf_bytes:
        raise FileTooLarge(
            f"{file.name} is larger than {settings.max_pdf_bytes:,} bytes.",
            hint="Extract the pages that you need, or raise COUNSEL_MAX_PDF_BYTES.",
            file=file.name,
            size=file.size,
            limit=settings.max_pdf_bytes,
        )
    limit = settings.max_pdf_pages
    document = _run(file, min(last or limit, limit), settings.max_file_bytes)
    if error := document.get("error"):
        raise _failure(file, str(error), settings)
    pdf = Pdf(document["pages"], document["count"])
    if pdf.count > limit and (last is None or last > limit):
        raise FileTooLarge(
            f"{file.name} has {pdf.count:,} pages; the limit is {limit:,}.",
            hint=f"Name the pages that you need ({file.name}{{1:{limit}}}), or raise COUNSEL_MAX_PDF_PAGES.",
            file=file.name,
            limit=limit,
        )
    if not any(page.strip() for page in pdf.pages):
        raise InvalidArgument(
            f"{file.name} contains no text: its pages are images.",
            hint="Send its pages as images, or run OCR on it first.",
            file=file.name,
        )
    return pdf


def _run(file: OpenFile, last: int, max_characters: int) -> dict[str, Any]:
    if not _AT_ONCE.acquire(timeout=SECONDS):
        raise RateLimited(
            f"{file.name} was not read: too many PDFs are being read.",
            hint="Try again in a moment.",
            retry_after=5,
        )
    try:
        os.lseek(file.fd, 0, os.SEEK_SET)
        process = subprocess.run(
            [sys.executable, "-I", str(_WORKER), str(last), str(max_characters)],
            stdin=file.fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": "time"}
    finally:
        _AT_ONCE.release()
    try:
        document: dict[str, Any] = json.loads(process.stdout)
    except ValueError:  # it was killed, or failed before it wrote anything
        return {"error": "time" if process.returncode < 0 else "damaged"}
    return document


def _failure(file: OpenFile, error: str, settings: Settings) -> CounselError:
    name = file.name
    if error == "long":
        return FileTooLarge(
            f"{name} contains more than {settings.max_file_bytes:,} characters of text.",
            hint=f"Name the pages that you need ({name}{{1:20}}), or raise COUNSEL_MAX_FILE_BYTES.",
            file=name,
            limit=settings.max_file_bytes,
        )
    if error in {"time", "memory"}:
        return FileTooLarge(
            f"{name} takes too much {error} to read.", hint="Convert it to text first.", file=name
        )
    reason = "it is encrypted" if error in {"encrypted", "DependencyError"} else "it is damaged"
    return InvalidArgument(
        f"{name} cannot be read as a PDF: {reason}.", hint="Convert it to text first.", file=name
    )
