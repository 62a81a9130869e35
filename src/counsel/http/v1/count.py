"""`/v1/messages/count_tokens`: an estimate that errs on the high side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from counsel import json_reader as read
from counsel import strict_json
from counsel.agents import registry
from counsel.caller import Caller
from counsel.engine.context import tokens
from counsel.http.v1 import consensus, messages_request
from counsel.models.catalog import Catalog
from counsel.types import Call, Model

_COUNTED_BLOCKS = ("text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking")
_LEAST_OF_PDF = 3_000  # tokens; Anthropic: 1,500 to 3,000 a page, and its image
_LETTERS_PER_TOKEN = 10  # of base64


async def count_tokens(
    body: dict[str, object], headers: Mapping[bytes, str], caller: Caller
) -> dict[str, int]:
    completion = messages_request.parse(body, headers, counts=True).completion
    model = await asyncio.to_thread(_model, completion.model, caller)
    call = Call(completion.turns, completion.system, tools=completion.tools)
    return {"input_tokens": tokens.estimate_call(call, model) + _own_block_tokens(body)}


def _own_block_tokens(body: Mapping[str, object]) -> int:
    """Tokens of documents and of other blocks that only Anthropic's own models understand."""
    total = 0
    for message in read.parts(body, "messages"):
        for block in read.parts(message, "content"):
            inner = read.parts(block, "content") if block.get("type") == "tool_result" else []
            total += sum(_size(part) for part in (block, *inner) if part.get("type") not in _COUNTED_BLOCKS)
    return total


def _size(block: Mapping[str, object]) -> int:
    source = read.part(block, "source")
    if source.get("type") == "base64":  # a PDF: its pages are counted as text and as images
        return max(_LEAST_OF_PDF, len(read.text(source, "data")) // _LETTERS_PER_TOKEN)
    return tokens.estimate(strict_json.dumps(block))


def _model(name: str, caller: Caller) -> Model:
    """The model: images cost a different number of tokens in each. Raises `ModelNotFound`."""
    if name.lower() == "auto" or "," in name or consensus.is_named(name) or registry.resolve(name):
        return Model(name, "", name)
    return Catalog.load(caller.settings).lookup(name)
