"""Serves the console's page: `/`, `/login`, `/assets/NAME` and a few more files, without a token: they contain no data.

The page is built from `console/` (`make console`) into the folder `page`. Its files are kept in memory, compressed
once: uncompressed, they are about three times as large. Only names of files in that folder are served.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from counsel.http.compression import takes_gzip
from counsel.lazy_dataclass import dataclass

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
FIXED_FILES = ("licenses.md",)  # further files, whose names do not change
HOW_TO_BUILD = "make console"
# Svelte creates its templates through this policy; no other code may turn text into HTML.
TRUSTED_TYPES = "svelte-trusted-html"
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        f"trusted-types {TRUSTED_TYPES}",
    )
)
SAFE = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
CHANGING = "no-cache"  # the browser asks every time whether it has changed
HASHED = "public, max-age=31536000, immutable"  # the name changes with the content
_COMPRESSED = ("text/", "application/json", "application/javascript", "image/svg+xml")
_SMALLEST = 500  # bytes that are worth compressing
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_MISSING = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>counsel</title></head>
<body>
<h1>The console is not built</h1>
<p>counsel runs, and everything else works: the command line, MCP at <code>/mcp</code> and the API at <code>/api</code>.</p>
<p>To build the page, run <code>{HOW_TO_BUILD}</code> in counsel's source folder (it needs Node.js 20.19 or newer), then
reload. A released package contains the page.</p>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    compressed: bytes | None
    media_type: str
    etag: str


class Page:
    """The built files by name, read again after each build."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built_at: int | None = None
        self._files: Mapping[str, PageFile] = {}
        self._read_lock = asyncio.Lock()

    async def file(self, name: str) -> PageFile | None:
        async with self._read_lock:
            built_at = self._stamp()
            if built_at != self._built_at:
                self._files = await asyncio.to_thread(self._read) if built_at else {}
                self._built_at = built_at
        return self._files.get(name)

    def _stamp(self) -> int | None:
        try:
            return (self._folder / INDEX).stat().st_mtime_ns
        except OSError:
            return None

    def _read(self) -> dict[str, PageFile]:
        assets = [f"assets/{path.name}" for path in (self._folder / "assets").glob("*")]
        paths = {name: self._folder / name for name in (INDEX, *FIXED_FILES, *assets)}
        return {name: page_file(name, path.read_bytes()) for name, path in paths.items() if path.is_file()}


def page_file(name: str, content: bytes) -> PageFile:
    suffix = Path(name).suffix
    media_type = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    compressed = None
    if len(content) >= _SMALLEST and media_type.startswith(_COMPRESSED):
        compressed = gzip.compress(content, 9, mtime=0)
    return PageFile(content, compressed, media_type, f'"{sha256(content).hexdigest()[:32]}"')


def routes() -> list[Route]:
    page = Page(FOLDER)

    async def index(request: Request) -> Response:
        file = await page.file(INDEX) or page_file(INDEX, _MISSING.encode())
        return _respond(request, file, CHANGING)

    async def asset(request: Request) -> Response:
        file = await page.file(f"assets/{request.path_params['name']}")
        return _respond(request, file, HASHED) if file else _empty(404)

    async def fixed_file(request: Request) -> Response:
        file = await page.file(request.url.path[1:])
        return _respond(request, file, CHANGING) if file else _empty(404)

    async def icon(_: Request) -> Response:
        """Browsers request it although the page names another icon."""
        return _empty(204)

    return [
        Route("/", index),
        Route("/login", index),
        Route("/assets/{name}", asset),
        Route("/favicon.ico", icon),
        *(Route(f"/{name}", fixed_file) for name in FIXED_FILES),
    ]


def _empty(status: int) -> Response:
    return Response(status_code=status, headers={**SAFE, "cache-control": CHANGING})


def _respond(request: Request, file: PageFile, caching: str) -> Response:
    headers = {**SAFE, "cache-control": caching, "etag": file.etag, "vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.compressed is not None and takes_gzip(request):
        return Response(
            file.compressed, headers={**headers, "content-encoding": "gzip"}, media_type=file.media_type
        )
    return Response(file.content, headers=headers, media_type=file.media_type)
