"""The shapes of tests/models/vendor_responses: real answers of vendors, and what counsel makes of them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake import FakeAPI

FOLDER = Path(__file__).with_name("vendor_responses")
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
USUAL_MODEL = {
    "anthropic": "claude-sonnet-4-5",
    "openai_chat": "deepseek-chat",
    "openai_responses": "gpt-5.1",
    "gemini": "gemini-2.5-flash",
}


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    expected: dict[str, Any]

    @property
    def wire(self) -> str:
        return self.name.partition("-")[0]

    @property
    def model(self) -> str:
        return str(self.expected.get("model", USUAL_MODEL[self.wire]))

    @property
    def is_stream(self) -> bool:
        return self.file.suffix == ".sse"

    @property
    def file(self) -> Path:
        return next(FOLDER.glob(f"{self.name}.[sj]*"))

    def play(self, fake: FakeAPI, **fields: Any) -> None:
        """Answer every request with it."""
        text = self.file.read_text(encoding="utf-8")
        answer: dict[str, Any] = {"raw": text} if self.is_stream else {"body": json.loads(text)}
        fake.script(times=None, status=self.expected.get("status"), **answer, **fields)


SHAPES = [Shape(name, expected) for name, expected in EXPECTED.items()]
