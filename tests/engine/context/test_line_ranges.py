"""Lines of a file that is too large to send whole: which are read, in which encoding, and where reading ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counsel.engine.context import ranges
from counsel.engine.context.allowed_folders import OpenFile
from counsel.engine.context.ranges import Part, Range
from counsel.errors import CounselError, FileNotAllowed, FileTooLarge, InvalidArgument


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield OpenFile("big.txt", path, fd, path.stat().st_size, 0.0)
    finally:
        os.close(fd)


def read(
    tmp_path: Path,
    data: bytes,
    first: int,
    last: int | None,
    *,
    limit: int = 1000,
    check: Callable[[str], None] = lambda _: None,
) -> Part:
    path = tmp_path / "big.txt"
    path.write_bytes(data)
    with opened(path) as file:
        return ranges.read(file, Range(first, last, limit), check)


@pytest.fixture(autouse=True, params=[1, 3, 1 << 20])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that are read at a time: what is read does not depend on it."""
    size: int = request.param
    monkeypatch.setattr(ranges, "_CHUNK", size)
    return size


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [
        (1, 1, ["one"]),
        (1, 2, ["one", "two"]),
        (2, 2, ["two"]),
        (2, 3, ["two", ""]),
        (3, 4, ["", "four"]),
        (4, 4, ["four"]),
        (2, None, ["two", "", "four"]),
        (4, 9, ["four"]),
        (4, None, ["four"]),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last_end", [True, False])
def test_exactly_the_named_lines_are_read(
    tmp_path: Path, first: int, last: int | None, lines: list[str], line_end: str, *, last_end: bool
) -> None:
    text = line_end.join(["one", "two", "", "four", ""] if last_end else ["one", "two", "", "four"])
    assert read(tmp_path, text.encode(), first, last).lines == lines


@pytest.mark.parametrize(("first", "last", "count"), [(1, None, 3), (1, 4, 3), (3, 4, 3), (1, 2, None)])
def test_the_count_of_lines_is_known_once_the_file_was_read_to_its_end(
    tmp_path: Path, first: int, last: int | None, count: int | None, chunk: int
) -> None:
    assert read(tmp_path, b"a\nb\nc\n", first, last).count == count
    if count is not None:
        assert read(tmp_path, b"a\nb\nc", first, last).count == count


@pytest.mark.parametrize("data", [b"a\nb\n", b"a\nb"])
def test_a_line_after_the_last_one_is_refused_with_their_count(tmp_path: Path, data: bytes) -> None:
    for last in (3, 4, None):
        with pytest.raises(InvalidArgument) as excinfo:
            read(tmp_path, data, 3, last)
        assert excinfo.value.message == "big.txt: the file has 2 lines."
        assert excinfo.value.fields["file"] == "big.txt"


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("latin-1", "latin-1"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
    ],
)
def test_lines_are_read_in_the_files_own_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    part = read(tmp_path, "größer\nkleiner ä\n".encode(encoding), 1, 2)
    assert (part.encoding, part.lines) == (name, ["größer", "kleiner ä"])


def test_a_file_that_is_not_what_its_byte_order_mark_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="says UTF-16, but it is not valid UTF-16"):
        read(tmp_path, b"\xff\xfea\0\n\0\x00\xd8b\0", 1, None)


def test_nothing_after_the_last_line_decides_about_the_encoding(tmp_path: Path, chunk: int) -> None:
    part = read(tmp_path, b"one\ntwo\n" + b"x" * 10 + b"\xff", 1, 1)
    assert part.lines == ["one"]
    assert part.encoding == ("latin-1" if chunk > 100 else "utf-8")


def test_lines_of_exactly_the_limit_are_sent(tmp_path: Path) -> None:
    data = "x\näöü\ny\n".encode()
    assert read(tmp_path, data, 2, 2, limit=7).lines == ["äöü"]
    with pytest.raises(FileTooLarge, match=r"these lines are larger than 6 bytes") as excinfo:
        read(tmp_path, data, 2, 2, limit=6)
    assert excinfo.value.hint == "Name fewer lines, or raise COUNSEL_MAX_FILE_BYTES."


def test_lines_far_into_a_file_are_not_searched_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    if chunk > 100:  # the whole file is one piece
        chunk = 12
        monkeypatch.setattr(ranges, "_CHUNK", chunk)
    monkeypatch.setattr(ranges, "CEILING", 12)
    assert read(tmp_path, b"a\nb\nc\nd\ne\nf\ng\n", 5, 5).lines == ["e"]
    for last, words in ((7, "7"), (None, "the end")):
        with pytest.raises(FileTooLarge) as excinfo:
            read(tmp_path, b"a\nb\nc\nd\ne\nf\ng\n", 5, last)
        assert f"the lines up to {words} are not within the first 12 bytes" in excinfo.value.message


def test_all_text_up_to_the_last_line_is_checked_and_pieces_overlap(tmp_path: Path, chunk: int) -> None:
    def check(text: str) -> None:
        if "secret" in text:
            raise FileNotAllowed("It holds a secret.")

    data = b"a\nse" + b"cret\nb\nc\n"
    for first, last in ((1, 3), (3, 3), (4, None), (2, 2)):
        with pytest.raises(CounselError, match="It holds a secret"):
            read(tmp_path, data, first, last, check=check)
    if chunk < 100:
        assert read(tmp_path, data, 1, 1, check=check).lines == ["a"]
