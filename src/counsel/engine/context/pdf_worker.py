"""Reads a PDF from stdin in a process of its own and writes its text as JSON. Imports nothing from counsel.

pypdf is pure Python, and a crafted file can make it run for hours or take gigabytes: the kernel's limits end this
process. Run as `python -I pdf_worker.py LAST_PAGE MAX_CHARACTERS`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys

SECONDS = 20  # CPU time
BYTES = 1 << 30  # address space; macOS does not enforce it


def main() -> None:
    last, max_characters = map(int, sys.argv[1:])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, SECONDS)
    _limit(resource.RLIMIT_AS, BYTES)
    _limit(resource.RLIMIT_FSIZE, 0)  # does not limit writes to a pipe
    logging.disable(logging.CRITICAL)
    try:
        result = _read(last, max_characters)
    except MemoryError:
        result = {"error": "memory"}
    except Exception as error:  # noqa: BLE001 - a damaged file can make pypdf raise anything
        result = {"error": type(error).__name__}
    json.dump(result, sys.stdout)


def _limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (value, value))


def _read(last: int, max_characters: int) -> dict[str, object]:
    import pypdf

    reader = pypdf.PdfReader(sys.stdin.buffer)
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "encrypted"}
    count = len(reader.pages)
    pages: list[str] = []
    size = 0
    for number in range(min(count, last)):
        text = reader.pages[number].extract_text()
        size += len(text)
        if size > max_characters:
            return {"count": count, "error": "long"}
        pages.append(text)
    return {"count": count, "pages": pages}


if __name__ == "__main__":
    main()
