"""A completion's request as JSON, so that its job can run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counsel.requests import CompletionRequest


def dump(request: CompletionRequest) -> dict[str, object]:
    import msgspec  # 20 ms; commands that only read jobs do not need it

    document: dict[str, object] = msgspec.to_builtins(request, enc_hook=str)
    return document


def load(document: dict[str, object]) -> CompletionRequest:
    import msgspec

    return msgspec.convert(document, CompletionRequest, dec_hook=_decoded)


def _decoded(kind: type, value: Any) -> object:
    return Path(value) if kind is Path else value
