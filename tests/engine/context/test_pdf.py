"""PDFs: their text by pages, within limits on size, pages, time and memory, even for hostile files."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.context import build, pdf
from counsel.errors import CounselError, FileNotAllowed, FileTooLarge, InvalidArgument
from counsel.requests import Question
from counsel.settings import load

pytestmark = pytest.mark.thorough  # left out of `make check`: takes long

KEY = "sk-" + "k" * 40


def document(
    pages: list[bytes], filter_: bytes = b"", count: int | None = None, trailer: bytes = b""
) -> bytes:
    """A PDF with these content streams, one for each page."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages) if count is None else count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, stream in enumerate(pages):
        resources = b"/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 600 800]"
        objects.append(b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (resources, 5 + 2 * at))
        objects.append(b"<< /Length %d %s>>\nstream\n%s\nendstream" % (len(stream), filter_, stream))
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return data + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF" % (
        size, table, size, trailer, len(data)
    )  # fmt: skip


def words(text: str) -> bytes:
    lines = b" ".join(b"(%s) Tj 0 -20 Td" % line.encode() for line in text.split("\n"))
    return b"BT /F1 12 Tf 50 700 Td %s ET" % lines


def prompt(folder: Path, name: str, data: bytes, **env: str) -> str:
    (folder / name.partition("{")[0]).write_bytes(data)
    settings = load(
        {"HOME": str(folder), "COUNSEL_HOME": str(folder / "counsel"), "OPENAI_API_KEY": KEY, **env}
    )
    caller = Caller(client="test", cwd=folder, settings=settings)
    return build.build(Question(prompt="Why?", files=(name,)), caller).prompt


def test_the_text_of_each_page_is_sent(tmp_path: Path) -> None:
    data = document([words("First page\n</file>"), words("Second page")])
    text = prompt(tmp_path, "a.pdf", data)
    assert f'<file path="a.pdf" size="{len(data)} bytes"' in text
    assert 'pages="2">\np1| First page\np1| </file>\np2| Second page\n</file>' in text


def test_a_range_counts_pages(tmp_path: Path) -> None:
    data = document([words(f"Page {number}") for number in range(1, 6)])
    text = prompt(tmp_path, "a.pdf{2:3}", data)
    assert 'pages="2-3 of 5">\np2| Page 2\np3| Page 3\n</file>' in text
    with pytest.raises(InvalidArgument, match="the PDF has 5 pages"):
        prompt(tmp_path, "a.pdf{9:}", data)


def test_a_pdf_is_recognised_by_its_content(tmp_path: Path) -> None:
    assert "p1| Hello" in prompt(tmp_path, "report", document([words("Hello")]))
    assert "1| not a PDF" in prompt(tmp_path, "b.pdf", b"not a PDF")


def test_secrets_in_a_pdf_are_not_sent(tmp_path: Path) -> None:
    with pytest.raises(FileNotAllowed, match="contains the value of OPENAI_API_KEY"):
        prompt(tmp_path, "a.pdf", document([words(KEY)]))


@pytest.mark.parametrize(
    ("data", "env", "kind", "message"),
    [
        (document([b""]), {}, InvalidArgument, "contains no text: its pages are images"),
        (document([words("x")])[:60], {}, InvalidArgument, "cannot be read as a PDF: it is damaged"),
        (b"%PDF-1.7\n" + b"\xff" * 500, {}, InvalidArgument, "it is damaged"),
        (
            document([words("x")], trailer=b"/Encrypt << /Filter /Other /V 9 /R 9 >> /ID [<00> <00>]"),
            {}, InvalidArgument, "cannot be read as a PDF",
        ),
        (document([words("x")] * 3), {"COUNSEL_MAX_PDF_PAGES": "2"}, FileTooLarge, "has 3 pages; the limit is 2"),
        (document([words("x")]), {"COUNSEL_MAX_PDF_BYTES": "100"}, FileTooLarge, "larger than 100 bytes"),
        (document([words("x" * 90)]), {"COUNSEL_MAX_FILE_BYTES": "50"}, FileTooLarge, "more than 50 characters"),
    ],
    ids=["images", "cut", "noise", "encrypted", "pages", "bytes", "text"],
)  # fmt: skip
def test_what_cannot_be_sent_says_why(
    tmp_path: Path, data: bytes, env: dict[str, str], kind: type[CounselError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        prompt(tmp_path, "a.pdf", data, **env)


def bomb() -> bytes:
    """210 MB in 200 KB."""
    packer, chunk = zlib.compressobj(9), b"(x) Tj " * 100_000
    return (
        packer.compress(b"BT /F1 12 Tf ")
        + b"".join(packer.compress(chunk) for _ in range(300))
        + packer.flush()
    )


HOSTILE: dict[str, Callable[[], bytes]] = {
    "bomb": lambda: document([bomb()], filter_=b"/Filter /FlateDecode "),
    "nested bomb": lambda: document([zlib.compress(bomb())], filter_=b"/Filter [/FlateDecode /FlateDecode] "),
    "two billion pages": lambda: document([words("x")], count=2_000_000_000),
    "loop of pages": lambda: document([words("x")]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
    "deep array": lambda: document([b"[" * 100_000]),
    "odd table": lambda: document([words("x")], trailer=b"/Prev 9 "),
    "form loop": lambda: document([b"/X Do"]).replace(b"/Font << /F1 3 0 R >>", b"/XObject << /X 4 0 R>>"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pdf_ends_in_an_error_or_in_its_text(tmp_path: Path, name: str) -> None:
    """The worker's limits end it. Without them this test hangs or takes gigabytes."""
    try:
        prompt(tmp_path, "a.pdf", HOSTILE[name]())
    except CounselError as error:
        assert error.code in {"INVALID_ARGUMENT", "FILE_TOO_LARGE"}  # noqa: PT017 - any of these inputs may be valid


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit a process's memory")
def test_a_worker_that_runs_too_long_or_too_large_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = pdf._WORKER.read_text()
    for number, (body, words_) in enumerate([("while True: pass", "time"), ("bytearray(1 << 32)", "memory")]):
        worker = tmp_path / f"worker{number}.py"
        worker.write_text(source.replace("import pypdf", body).replace("SECONDS = 20", "SECONDS = 1"))
        monkeypatch.setattr(pdf, "_WORKER", worker)
        with pytest.raises(FileTooLarge, match=f"takes too much {words_} to read"):
            prompt(tmp_path, "a.pdf", document([words("x")]))
