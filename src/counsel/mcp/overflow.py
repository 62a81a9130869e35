"""Full texts of results that are too long for their client: in a private file, and as a resource that is read in
pages."""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path

from counsel.lazy_dataclass import dataclass
from counsel.mcp import render
from counsel.requests import Engine
from counsel.types import Json

_URI = re.compile(r"counsel://jobs/([A-Za-z0-9_-][A-Za-z0-9_.-]{0,79})/text(?:\?page=([0-9]{1,6}))?")
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True, slots=True)
class StoredText:
    path: Path | None
    uri: str | None

    @property
    def hint(self) -> str:
        parts = [f"resource {self.uri}" if self.uri else "", f"file {self.path}" if self.path else ""]
        places = " or ".join(location for location in parts if location)
        return f"full text: {places}" if places else "raise MAX_MCP_OUTPUT_TOKENS for more"

    def link(self) -> dict[str, object]:
        return {
            "type": "resource_link",
            "uri": self.uri,
            "name": "full text",
            "description": "The whole text of this result.",
            "mimeType": "text/plain",
        }


def store(home: Path | None, job: str | None, text: str) -> StoredText:
    """Write the text to a private file. If that fails (a full disk), the answer is sent without it."""
    name = job if job and _SAFE.fullmatch(job) else f"result_{secrets.token_hex(8)}"
    if home is None:
        return StoredText(None, uri(name) if name == job else None)
    path = home / "outputs" / f"{name}.txt"
    try:
        # no `parents`: a home that the user has deleted stays deleted
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _replace(path, text)
    except OSError:
        return StoredText(None, uri(name) if name == job else None)
    return StoredText(path, uri(name) if name == job else None)


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(path)


def uri(job: str, page: int = 1) -> str:
    return f"counsel://jobs/{job}/text" + (f"?page={page}" if page > 1 else "")


def parse(uri: str) -> tuple[str, int] | None:
    match = _URI.fullmatch(uri)
    return (match[1], int(match[2] or 1)) if match else None


async def read(engine: Engine, resource: str, most: int) -> Json | None:
    """Answer `resources/read`: one page of a job's text, or None if it does not exist."""
    target = parse(resource)
    if target is None:
        return None
    job, number = target
    pages = _pages(render.full_text(await engine.status(job)), most)
    if not 1 <= number <= len(pages):
        return None
    text = pages[number - 1]
    if len(pages) > 1:
        after = f"next: {uri(job, number + 1)}" if number < len(pages) else "the last"
        text += f"\n\n[page {number} of {len(pages)}; {after}]"
    return {"contents": [{"uri": resource, "mimeType": "text/plain", "text": text}]}


def _pages(text: str, most: int) -> list[str]:
    """The text in pages of at most `most` characters as JSON, which escapes newlines and quotes."""
    pages: list[str] = []
    while len(json.dumps(text, ensure_ascii=False)) > most:
        size = most
        while (excess := len(json.dumps(text[:size], ensure_ascii=False)) - most) > 0:
            size -= max(1, excess // 2)
        at = max(text.rfind("\n", size // 2, size), text.rfind(" ", size // 2, size)) + 1 or size
        pages.append(text[:at])
        text = text[at:]
    return [*pages, text]


async def recent(engine: Engine) -> list[dict[str, object]]:
    """Answer `resources/list`: the texts of the newest finished jobs."""
    return [
        {"uri": uri(job.job_id), "name": job.title or job.job_id, "mimeType": "text/plain"}
        for job in (await engine.recent()).jobs
        if job.status in {"completed", "completed_with_errors"}
    ]
