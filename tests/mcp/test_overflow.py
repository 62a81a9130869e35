"""Texts that are too long for a client are stored in a private file and read page by page."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from counsel.mcp import overflow
from counsel.results import JobList, JobStatus


@pytest.mark.parametrize(
    ("uri", "page"),
    [
        ("counsel://jobs/job_1/text", ("job_1", 1)),
        ("counsel://jobs/job_1/text?page=7", ("job_1", 7)),
        ("counsel://jobs/job_1/text?page=", None),
        ("counsel://jobs/../text", None),
        ("counsel://jobs/a/b/text", None),
        ("counsel://jobs/.hidden/text", None),
        (f"counsel://jobs/{'x' * 80}/text", ("x" * 80, 1)),
        (f"counsel://jobs/{'x' * 81}/text", None),
        ("counsel://jobs/job_1/text?page=1234567", None),
        ("file:///etc/passwd", None),
    ],
)
def test_which_addresses_name_a_page_of_a_job(uri: str, page: tuple[str, int] | None) -> None:
    assert overflow.parse(uri) == page


def test_the_first_page_needs_no_number() -> None:
    assert overflow.uri("job_1") == overflow.uri("job_1", 1) == "counsel://jobs/job_1/text"
    assert overflow.uri("job_1", 2) == "counsel://jobs/job_1/text?page=2"


def test_a_text_is_kept_where_only_the_user_reads_it(tmp_path: Path) -> None:
    full_text = overflow.store(tmp_path, "job_1", "Grüße")
    path = tmp_path / "outputs" / "job_1.txt"
    assert full_text.path == path
    assert path.read_text(encoding="utf-8") == "Grüße"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert full_text.hint == f"full text: resource counsel://jobs/job_1/text or file {path}"
    assert full_text.link()["uri"] == "counsel://jobs/job_1/text"
    assert full_text.link()["type"] == "resource_link"
    overflow.store(tmp_path, "job_1", "again")
    assert path.read_text() == "again"
    assert [entry.name for entry in path.parent.iterdir()] == ["job_1.txt"]


def test_an_unsafe_name_is_replaced_and_has_no_address(tmp_path: Path) -> None:
    for name in ("../escape", "", None):
        full_text = overflow.store(tmp_path, name, "text")
        assert full_text.path is not None
        assert full_text.path.name.startswith("result_")
        assert full_text.uri is None
        assert full_text.hint == f"full text: file {full_text.path}"


def test_without_a_home_or_a_disk_there_is_the_address_alone(tmp_path: Path) -> None:
    (tmp_path / "outputs").touch()
    for home in (None, tmp_path, tmp_path / "gone"):
        full_text = overflow.store(home, "job_1", "text")
        assert (full_text.path, full_text.uri) == (None, "counsel://jobs/job_1/text")
    assert not (tmp_path / "gone").exists()
    assert overflow.store(None, None, "text").hint == "raise MAX_MCP_OUTPUT_TOKENS for more"


class OneJobEngine:
    """An engine with one finished job of 100 words."""

    text = " ".join(f"word{n:03}" for n in range(100))

    async def status(self, job: str) -> JobStatus:
        content = {"status": "completed", "job_id": job, "result": {"content": self.text}}
        return JobStatus.from_json({"content": content})

    async def recent(self) -> JobList:
        rows = [
            ("a", "completed", "Title"),
            ("b", "processing", "t"),
            ("c", "completed_with_errors", ""),
            ("d", "failed", "t"),
        ]
        jobs = [{"job_id": job, "status": status, "title": title} for job, status, title in rows]
        return JobList.from_json({"content": {"jobs": jobs}})


async def page(number: int, most: int) -> str | None:
    resource = await overflow.read(OneJobEngine(), overflow.uri("job_1", number), most)  # type: ignore[arg-type]
    if resource is None:
        return None
    (content,) = resource["contents"]
    assert (content["uri"], content["mimeType"]) == (overflow.uri("job_1", number), "text/plain")
    return str(content["text"])


async def test_pages_hold_the_whole_text_and_say_what_comes_next() -> None:
    full_text = await page(1, 100_000)
    assert full_text is not None
    assert "[page" not in full_text
    pieces, number = [], 1
    while (text := await page(number, 300)) is not None:
        body, _, note = text.rpartition("\n\n[page ")
        pieces.append(body)
        assert len(json.dumps(body, ensure_ascii=False)) <= 300
        number += 1
    assert "".join(pieces) == full_text
    assert number - 1 == len(pieces) > 2
    assert note == f"{len(pieces)} of {len(pieces)}; the last]"
    first = await page(1, 300)
    assert first is not None
    assert first.endswith(f"[page 1 of {len(pieces)}; next: counsel://jobs/job_1/text?page=2]")
    for missing in (0, len(pieces) + 1):
        assert await overflow.read(OneJobEngine(), f"{overflow.uri('job_1')}?page={missing}", 300) is None  # type: ignore[arg-type]
    assert await overflow.read(OneJobEngine(), "nonsense", 300) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["x" * 1_000, "\n" * 1_000, '"' * 500, "a b " * 300, "é" * 900])
def test_pages_fit_whatever_characters_they_contain(text: str) -> None:
    pages = overflow._pages(text, 100)
    assert "".join(pages) == text
    assert all(len(json.dumps(page_text, ensure_ascii=False)) <= 100 for page_text in pages)
    assert len(pages) < len(json.dumps(text, ensure_ascii=False)) / 40


async def test_texts_of_finished_jobs_are_listed() -> None:
    resources = await overflow.recent(OneJobEngine())  # type: ignore[arg-type]
    assert [(entry["uri"], entry["name"]) for entry in resources] == [
        ("counsel://jobs/a/text", "Title"),
        ("counsel://jobs/c/text", "c"),
    ]
