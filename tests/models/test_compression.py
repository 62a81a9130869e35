"""Compressed answers that arrive in pieces, as from a network."""

from __future__ import annotations

import gzip
import zlib

import pytest

from counsel.models.connections import compression

TEXT = b"The quick brown fox. " * 50


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP ", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("", TEXT),
    ],
    ids=[
        "gzip",
        "x-gzip",
        "deflate",
        "raw deflate",
        "identity",
        "none",
    ],  # keeps gzip's time stamp out of the id
)
def test_an_answer_is_unpacked_whatever_its_pieces(name: str, data: bytes, size: int) -> None:
    decoder = compression.decoder(name)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert b"".join(part for piece in pieces for part in decoder.feed(piece)) == TEXT


def test_several_gzip_streams_are_one_answer() -> None:
    decoder = compression.decoder("gzip")
    assert b"".join(decoder.feed(gzip.compress(b"one ") + gzip.compress(b"two"))) == b"one two"


def test_another_encoding_is_refused() -> None:
    with pytest.raises(compression.Unsupported):
        compression.decoder("br")
