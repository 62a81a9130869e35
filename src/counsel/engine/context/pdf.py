"""The text of a PDF, page by page, read by a process with limits on time and memory (`pdf_worker.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from counsel.engine.context.allowed_folders import Opened
from counsel.errors import CounselError, FileTooLarge, InvalidArgument, RateLimited
from counsel.lazy_dataclass import dataclass
from counsel.settings import Settings

SECONDS = 30.0  # of one file; its CPU time has a lower limit
_AT_ONCE = threading.BoundedSemaphore(2)  # each may take a gigabyte
_WORKER = Path(__file__).with_name("pdf_worker.py")


@dataclass(frozen=True, slots=True)
class Pdf:
    pages: list[str]  # up to the last wanted page
    count: int  # pages of the whole file


def is_pdf(opened: Opened) -> bool:
    """By its first bytes, whatever its name is."""
    return os.pread(opened.fd, 5, 0) == b"%PDF-"


def read(opened: Opened, last: int | None, settings: Settings) -> Pdf:
    """The text of all pages, or up to page `last`."""
    if opened.size > settings.max_pdf_bytes:
        raise FileTooLarge(
            f"{opened.name} is larger than {settings.max_pdf_bytes:,} bytes.",
            hint="Extract the pages that matter, or raise COUNSEL_MAX_PDF_BYTES.",
            file=opened.name,
            size=opened.size,
            limit=settings.max_pdf_bytes,
        )
    most = settings.max_pdf_pages
    document = _run(opened, min(last or most, most), settings.max_file_bytes)
    if error := document.get("error"):
        raise _failure(opened, str(error), settings)
    pdf = Pdf(document["pages"], document["count"])
    if pdf.count > most and (last is None or last > most):
        raise FileTooLarge(
            f"{opened.name} has {pdf.count:,} pages; the limit is {most:,}.",
            hint=f"Name the pages that matter ({opened.name}{{1:{most}}}), or raise COUNSEL_MAX_PDF_PAGES.",
            file=opened.name,
            limit=most,
        )
    if not any(page.strip() for page in pdf.pages):
        raise InvalidArgument(
            f"{opened.name} contains no text: its pages are images.",
            hint="Send its pages as images, or convert it with OCR first.",
            file=opened.name,
        )
    return pdf


def _run(opened: Opened, last: int, most: int) -> dict[str, Any]:
    if not _AT_ONCE.acquire(timeout=SECONDS):
        raise RateLimited(
            f"{opened.name} was not read: other PDFs are being read.", hint="Try again.", retry_after=5
        )
    try:
        os.lseek(opened.fd, 0, os.SEEK_SET)
        done = subprocess.run(
            [sys.executable, "-I", str(_WORKER), str(last), str(most)],
            stdin=opened.fd,
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
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:  # the kernel ended it
        return {"error": "time" if done.returncode < 0 else "damaged"}
    return document


def _failure(opened: Opened, error: str, settings: Settings) -> CounselError:
    name = opened.name
    if error == "long":
        return FileTooLarge(
            f"{name} contains more than {settings.max_file_bytes:,} characters of text.",
            hint=f"Name the pages that matter ({name}{{1:20}}), or raise COUNSEL_MAX_FILE_BYTES.",
            file=name,
            limit=settings.max_file_bytes,
        )
    if error in {"time", "memory"}:
        return FileTooLarge(
            f"{name} takes too much {error} to read.", hint="Convert it to text yourself.", file=name
        )
    reason = "it is encrypted" if error in {"encrypted", "DependencyError"} else "it is damaged"
    return InvalidArgument(
        f"{name} cannot be read as a PDF: {reason}.", hint="Convert it to text yourself.", file=name
    )
