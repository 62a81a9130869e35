"""Small files that would take long to open are refused before they are opened; ordinary files never are."""

from __future__ import annotations

import io
import struct
import time
import zlib
from typing import Any

import pytest
from PIL import Image as Pillow

from counsel import settings
from counsel.engine.context import image_cost, images
from counsel.errors import FileTooLarge

CPU = 3.0  # seconds; a refusal takes hundredths


def image_bytes(form: str, size: tuple[int, int] = (64, 64), mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.new(mode, size, 1).save(out, form, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def in_png(chunks: bytes) -> bytes:
    plain = image_bytes("PNG")
    return plain[:33] + chunks + plain[33:]


def in_jpeg(segments: bytes) -> bytes:
    plain = image_bytes("JPEG")
    return plain[:2] + segments + plain[2:]


def in_gif(blocks: bytes, colour: bytes = b"") -> bytes:
    plain = image_bytes("GIF", mode="P")
    colours = 13 + (3 << ((plain[10] & 7) + 1) if plain[10] & 0x80 else 0)
    head = plain[:13] + colour * (colours - 13) if colour else plain[:colours]
    return head + blocks + plain[colours:]


def many_scans(count: int, size: tuple[int, int] = (64, 64)) -> bytes:
    """A progressive JPEG with many scans over all pixels."""
    plain = image_bytes("JPEG", size, progressive=True)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00\x00"
    return plain[:-2] + scan * (count - plain.count(b"\xff\xda")) + b"\xff\xd9"


def run_lengths(size: int) -> bytes:
    head = bytearray(image_bytes("BMP", (4000, 4000), "P")[: 14 + 40 + 1024])
    head[30:34] = struct.pack("<I", 1)
    return bytes(head) + b"\x01\x05" * (size // 2)


BOMBS = {
    "a JPEG of 400 scans": lambda: many_scans(400),
    "a large JPEG of 90 scans": lambda: many_scans(90, (3000, 3000)),
    "a JPEG of a million segments": lambda: in_jpeg(b"\xff\xe5\x00\x02" * 1_000_000),
    "a JPEG of fill bytes": lambda: in_jpeg(b"\xff" * 5_000_000),
    "a JPEG of escaped bytes": lambda: in_jpeg(b"\xff\x00" * 2_500_000),
    "a PNG of tiny chunks": lambda: in_png(chunk(b"tEXt", b"") * 500_000),
    "a PNG of many profiles": lambda: in_png(
        chunk(b"iCCP", b"k\0\0" + zlib.compress(b"x" * 900_000)) * 9_000
    ),
    "a GIF of comments": lambda: in_gif(b"!\xfe\x01x\x00" * 1_000_000),
    "a GIF of one long comment": lambda: in_gif(b"!\xfe" + b"\x01x" * 1_000_000 + b"\0"),
    "a GIF of comments whose colours look like its end": lambda: in_gif(b"!\xfe\x01x\x00" * 1_000_000, b";"),
    "a GIF of nothing": lambda: in_gif(b"\x01" * 5_000_000),
    "a BMP of run lengths": lambda: run_lengths(9_000_000),
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=list(BOMBS))
def test_an_image_that_would_take_long_is_refused_before_decoding(make: Any) -> None:
    data, start = make(), time.process_time()
    with pytest.raises(FileTooLarge, match="too long"):
        images.checked(data, "picture", settings.load({}))
    assert time.process_time() - start < CPU


ORDINARY = {
    "a progressive JPEG": lambda: image_bytes("JPEG", (3000, 3000), progressive=True),
    "a PNG in small chunks": lambda: in_png(chunk(b"tEXt", b"k\0v") * 1_000),
    "a GIF that moves": lambda: image_bytes(
        "GIF", mode="P", save_all=True, append_images=[Pillow.new("P", (64, 64), n) for n in range(200)]
    ),
    "a GIF with a few bytes of nothing": lambda: in_gif(b"\x01" * 10),
    "a WEBP that moves": lambda: image_bytes(
        "WEBP", save_all=True, append_images=[Pillow.new("RGB", (64, 64), (n, 0, 0)) for n in range(100)]
    ),
    "a JPEG with a preview": lambda: in_jpeg(
        b"\xff\xe5" + struct.pack(">H", 2 + 700) + image_bytes("JPEG")[:700]
    ),
}


@pytest.mark.parametrize("make", ORDINARY.values(), ids=list(ORDINARY))
def test_an_ordinary_image_is_accepted(make: Any) -> None:
    assert images.checked(make(), "picture", settings.load({})).width


@pytest.mark.parametrize(
    "chunks",
    [
        chunk(b"zTXt", b"k\0\0" + zlib.compress(b"x" * 1_000_000)) * 1_000,
        chunk(b"iTXt", b"k\0\1\0\0\0" + zlib.compress(b"x" * 1_000_000)) * 1_000,
    ],
    ids=["zTXt", "iTXt"],
)
def test_texts_that_unpack_to_a_gigabyte_are_not_unpacked(chunks: bytes) -> None:
    start = time.process_time()
    with pytest.raises(Exception, match="damaged"):
        images.checked(in_png(chunks), "picture", settings.load({}))
    assert time.process_time() - start < CPU


JPEG_PARTS = {
    "segments": b"\xff\xe5\x00\x03x",
    "fill bytes": b"\xff",
    "escaped bytes": b"\x00",
    "markers without a length": b"\xff\x01",
    "restarts": b"\xff\xd7",
}


@pytest.mark.parametrize(
    ("kind", "head", "part", "tail"),
    [
        ("PNG", b"\x89PNG\r\n\x1a\n", chunk(b"tEXt", b"k\0v"), b""),
        *(("JPEG", b"\xff\xd8", part, b"\xff\xda\x00\x08" * 9) for part in JPEG_PARTS.values()),
        ("GIF", b"GIF89a" + bytes(7), b"!\xfe\x00", b"," + b"!\xfe\x00" * 9),
        ("GIF", b"GIF89a" + b"\0\0\0\0\x80\0\0" + b",,,;;;", b"\x01", b";" + b"\x01" * 9),
        ("GIF", b"GIF89a" + b"\0\0\0\0\x81\0\0" + b"," * 12, b"!\xfe\x00", b""),
    ],
)
def test_exactly_the_most_parts_are_accepted(kind: str, head: bytes, part: bytes, tail: bytes) -> None:
    """What follows the first scan or frame, `tail`, is not counted."""
    most = image_cost.MOST_PARTS
    assert not image_cost.has_too_many_parts(head + part * most + tail, kind)
    assert image_cost.has_too_many_parts(head + part * (most + 1) + tail, kind)
    assert not image_cost.has_too_many_parts(head + part * (most + 1) + tail, "WEBP")


def test_every_block_of_a_gifs_comment_is_a_part() -> None:
    head, most = b"GIF89a" + bytes(7), image_cost.MOST_PARTS
    assert not image_cost.has_too_many_parts(head + b"!\xfe" + b"\x02xx" * (most - 1) + b"\0;", "GIF")
    assert image_cost.has_too_many_parts(head + b"!\xfe" + b"\x02xx" * most + b"\0;", "GIF")


@pytest.mark.parametrize("count", [image_cost.MOST_PROFILES, image_cost.MOST_PROFILES + 1])
def test_exactly_the_most_profiles_are_accepted(count: int) -> None:
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"iCCP", b"k\0\0") * count
    assert image_cost.has_too_many_parts(data, "PNG") is (count > image_cost.MOST_PROFILES)


def test_exactly_the_most_scans_and_the_most_work_are_accepted() -> None:
    most, work = image_cost.MOST_SCANS, image_cost.MOST_WORK
    scan = b"\xff\xda"
    assert image_cost.excess(scan * most, "JPEG", work // most) is None
    assert (
        image_cost.excess(scan * most, "JPEG", work // most + 1) == "made of 100 scans over 5,000,001 pixels"
    )
    assert image_cost.excess(scan * (most + 1), "JPEG", 1) == "made of 101 scans over 1 pixels"
    assert image_cost.excess(scan * (most + 1), "PNG", 1) is None


@pytest.mark.parametrize(("compression", "extra", "refused"), [(1, 0, False), (1, 1, True), (2, 1, True), (0, 1, False), (3, 1, False)])  # fmt: skip
def test_only_a_large_bmp_of_run_lengths_is_refused(compression: int, extra: int, refused: bool) -> None:
    head = bytes(30) + struct.pack("<I", compression)
    data = head + bytes(image_cost.MOST_RUN_LENGTHS - len(head) + extra)
    assert image_cost.excess(data, "BMP", 1) == ("too large for a compressed BMP" if refused else None)
