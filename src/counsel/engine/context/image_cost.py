"""What opening an image would cost, from its structure alone: small files can take minutes to decode.

Measured: a JPEG of 318 KB with 400 scans takes 54 s, since each scan covers all pixels again; a PNG of 8 MB with 9,000
profiles 21 s; a PNG, GIF or JPEG of 10 MB made only of tiny parts, which Pillow reads in Python, 1.4 to 5.7 s.
Animations cost no more than their first frame: no other frame is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

MOST_PARTS = 20_000  # chunks, segments or blocks: a 10 MB PNG in chunks of 1 KiB has 10,000
MOST_PROFILES = 10  # of colours in a PNG, which may have one: each is unpacked to up to 1 MiB
MOST_SCANS = 100  # a progressive JPEG has about ten
MOST_WORK = 500_000_000  # scans times pixels: ten scans of the largest image
MOST_RUN_LENGTHS = 1024 * 1024  # bytes of a BMP that is compressed, which Pillow unpacks in Python

_RUN_LENGTHS = {1, 2}  # a BMP's compressions
_STAND_ALONE = {0x01, *range(0xD0, 0xD8)}  # a JPEG's markers without a length


def excess(data: bytes, kind: str, pixels: int) -> str | None:
    """Why the image costs too much, or None. `kind` is Pillow's name of its format."""
    if kind == "JPEG":
        return _of_jpeg(data, pixels)
    if kind == "BMP":
        compressed = int.from_bytes(data[30:34], "little") in _RUN_LENGTHS
        return "too large for a compressed BMP" if compressed and len(data) > MOST_RUN_LENGTHS else None
    return None


def has_too_many_parts(data: bytes, kind: str) -> bool:
    """Checked before Pillow opens it."""
    if kind == "PNG" and data.count(b"iCCP") > MOST_PROFILES:
        return True
    parts = {"PNG": _png, "JPEG": _jpeg, "GIF": _gif}.get(kind)
    return parts is not None and next(islice(parts(data), MOST_PARTS, None), None) is not None


def _of_jpeg(data: bytes, pixels: int) -> str | None:
    scans = data.count(b"\xff\xda")  # inside of a scan 0xff is followed by 0; a preview may add one
    if scans > MOST_SCANS or scans * pixels > MOST_WORK:
        return f"made of {scans} scans over {pixels:,} pixels"
    return None


def _png(data: bytes) -> Iterator[int]:
    at = 8
    while at < len(data):
        yield at
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def _jpeg(data: bytes) -> Iterator[int]:
    """Segments up to the first scan. Fill bytes count, too."""
    at = 2
    while at + 1 < len(data) and data[at + 1] != 0xDA:
        yield at
        if data[at] != 0xFF or data[at + 1] in {0x00, 0xFF}:
            at += 1
        elif data[at + 1] in _STAND_ALONE:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")


def _gif(data: bytes) -> Iterator[int]:
    """Blocks of the extensions before the first frame."""
    flags = data[10] if len(data) > 10 else 0
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while at < len(data) and data[at] not in b",;":
        yield at
        if data[at] != 0x21:
            at += 1
            continue
        at += 2
        while at < len(data) and (size := data[at]):
            yield at
            at += 1 + size
        at += 1
