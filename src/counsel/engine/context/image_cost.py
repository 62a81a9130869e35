"""Estimates from an image's structure alone what opening it costs: even small files can take minutes to decode.

Measured: a JPEG of 318 KB with 400 scans takes 54 s, since each scan covers all pixels again; a PNG of 8 MB with 9,000
profiles takes 21 s; a PNG, GIF or JPEG of 10 MB that consists of tiny parts, which Pillow reads in Python, 1.4 to
5.7 s. An animation costs no more than its first frame, as no other frame is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

MOST_PARTS = 20_000  # chunks, segments or blocks; a 10 MB PNG in chunks of 1 KiB has 10,000
MOST_PROFILES = 10  # colour profiles in a PNG, which should have one; each unpacks to up to 1 MiB
MOST_SCANS = 100  # a progressive JPEG has about ten
MOST_WORK = 500_000_000  # scans times pixels: ten scans of the largest image
MOST_RUN_LENGTHS = 1024 * 1024  # bytes of a run-length encoded BMP, which Pillow unpacks in Python

_RUN_LENGTHS = {1, 2}  # compression methods of BMP
_STAND_ALONE = {0x01, *range(0xD0, 0xD8)}  # JPEG markers without a length


def excess(data: bytes, kind: str, pixels: int) -> str | None:
    """Why the image costs too much, or None. `kind` is Pillow's name for its format."""
    if kind == "JPEG":
        return _of_jpeg(data, pixels)
    if kind == "BMP":
        has_run_lengths = int.from_bytes(data[30:34], "little") in _RUN_LENGTHS
        return "too large for a compressed BMP" if has_run_lengths and len(data) > MOST_RUN_LENGTHS else None
    return None


def has_too_many_parts(data: bytes, kind: str) -> bool:
    """Whether the image has too many parts for Pillow to open it at all."""
    if kind == "PNG" and data.count(b"iCCP") > MOST_PROFILES:
        return True
    parts = {"PNG": _png, "JPEG": _jpeg, "GIF": _gif}.get(kind)
    return parts is not None and next(islice(parts(data), MOST_PARTS, None), None) is not None


def _of_jpeg(data: bytes, pixels: int) -> str | None:
    scans = data.count(b"\xff\xda")  # inside a scan, 0 follows 0xff; an embedded preview may add one
    if scans > MOST_SCANS or scans * pixels > MOST_WORK:
        return f"made of {scans} scans over {pixels:,} pixels"
    return None


def _png(data: bytes) -> Iterator[int]:
    at = 8
    while at < len(data):
        yield at
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def _jpeg(data: bytes) -> Iterator[int]:
    """Offsets of the segments and fill bytes before the first scan."""
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
    """Offsets of the extension blocks before the first frame."""
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
