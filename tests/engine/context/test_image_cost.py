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
from counsel.engine.context import images
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
