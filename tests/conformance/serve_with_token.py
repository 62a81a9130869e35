"""`counsel serve` for the conformance suite, which has no token: this server adds it to each request.

python tests/conformance/serve_with_token.py    prints the address, serves until stdin ends
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

from counsel import settings  # noqa: E402 - the path comes first
from counsel.engine.engine import open_engine  # noqa: E402 - the path comes first
from counsel.errors import UpstreamError  # noqa: E402 - the path comes first
from counsel.http import app, serve  # noqa: E402 - the path comes first
from counsel.http.loading import HttpApp  # noqa: E402 - the path comes first
from counsel.mcp import tools  # noqa: E402 - the path comes first
from counsel.mcp.tools.base import Tool  # noqa: E402 - the path comes first

TOKEN = "known-to-the-test-alone"


# ── the suite's own tools, through our dispatcher ──


@dataclass
class Document:
    content: str

    def to_json(self) -> dict[str, Any]:
        return {"content": self.content}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Document:
        return cls(document["content"])


async def _simple(_call: Any, _arguments: Any) -> Document:
    return Document("This is a simple text response for testing.")


async def _error(_call: Any, _arguments: Any) -> Document:
    raise UpstreamError("This tool intentionally returns an error for testing")


async def _progress(call: Any, _arguments: Any) -> Document:
    for at in (0, 50, 100):
        if call.report:
            call.report(at, f"{at} of 100")
        await asyncio.sleep(0.06)
    return Document("done")


def diagnose() -> None:
    runs = {"test_simple_text": _simple, "test_error_handling": _error, "test_tool_with_progress": _progress}
    for name, handler in runs.items():
        tools.TOOLS[name] = Tool(
            name=name,
            run=handler,
            text=lambda result: result.content,
            description="For the conformance suite.",
            properties={},
            output={},
            annotations={},
        )


async def main(home: Path) -> None:
    diagnose()
    config = settings.load({"COUNSEL_HOME": str(home), "COUNSEL_TOKEN": TOKEN})
    engine = await open_engine(home)
    application = app.build(engine, config, host="127.0.0.1", secret=TOKEN)

    async def with_token(scope: Any, receive: Any, send: Any) -> None:
        header = (b"authorization", f"Bearer {TOKEN}".encode())
        await application.app({**scope, "headers": [*scope["headers"], header]}, receive, send)

    def announce(_: str, port: int) -> None:
        sys.stdout.write(f"http://localhost:{port}/mcp\n")
        sys.stdout.flush()

    server = serve.Server(HttpApp(with_token, application.close), "127.0.0.1", 0, announce)

    def read() -> None:
        if not os.read(0, 1):
            server.should_exit = True

    asyncio.get_running_loop().add_reader(0, read)
    await server.serve()
    await engine.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
