"""Reads a PDF from stdin in a process of its own and writes its text as JSON. Imports nothing of counsel.

pypdf is pure Python, and a crafted file can make it run for hours or take gigabytes: the kernel's limits end this process.
Run as `python -I pdf_worker.py LAST_PAGE MOST_CHARACTERS`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys

SECONDS = 20  # of CPU
BYTES = 1 << 30  # of address space; macOS does not enforce it


def main() -> None:
    last, most = map(int, sys.argv[1:])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, SECONDS)
    _limit(resource.RLIMIT_AS, BYTES)
    _limit(resource.RLIMIT_FSIZE, 0)  # writes to a pipe are not limited by it
    logging.disable(logging.CRITICAL)
    try:
        result = _read(last, most)
    except MemoryError:
        result = {"error": "memory"}
    except Exception as error:  # noqa: BLE001 - whatever a damaged file leads to
        result = {"error": type(error).__name__}
    json.dump(result, sys.stdout)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (wanted, wanted))


def _read(last: int, most: int) -> dict[str, object]:
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
        if size > most:
            return {"count": count, "error": "long"}
        pages.append(text)
    return {"count": count, "pages": pages}


if __name__ == "__main__":
    main()
