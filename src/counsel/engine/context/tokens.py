"""Estimates a call's tokens before it is sent: fast, and on the high side."""

from __future__ import annotations

import json
from collections.abc import Callable

from counsel.errors import ContextLengthExceeded
from counsel.types import Call, Image, Model, Turn

_PER_TURN = 4  # role and separators


def estimate(text: str) -> int:
    """A quarter of a token per character, and half a token for each byte that UTF-8 needs beyond one.

    That makes 0.75 for a Cyrillic letter, 1.25 for a Chinese one and 1.75 for an emoji, with no loop in Python.
    """
    if text.isascii():
        return -(-len(text) // 4)
    beyond = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return -(-(len(text) + 2 * beyond) // 4)


def _anthropic(width: int, height: int) -> int:
    return min(width * height // 750 + 1, 1_600)


def _google(width: int, height: int) -> int:
    return 258 if max(width, height) <= 384 else min(258 * (-(-width // 768)) * (-(-height // 768)), 2_240)


def _tiles(width: int, height: int) -> int:
    """OpenAI's high detail: scaled to fit into 2048, then to a shortest side of 768, then cut into squares of 512."""
    scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
    across, down = int(width * scale + 511) // 512, int(height * scale + 511) // 512
    return 85 + 170 * across * down


def _patches(width: int, height: int) -> int:
    return min((-(-width // 32)) * (-(-height // 32)), 1_792)


IMAGE_RULES: dict[str, Callable[[int, int], int]] = {
    "anthropic": _anthropic,
    "google": _google,
    "openai": lambda width, height: max(_tiles(width, height), _patches(width, height)),
}
_UNKNOWN_SIZE = 1_600


def estimate_image(image: Image, model: Model) -> int:
    if not (image.width and image.height):
        return _UNKNOWN_SIZE
    return IMAGE_RULES.get(model.provider, _patches)(image.width, image.height)


def estimate_turn(turn: Turn, model: Model) -> int:
    size = estimate(turn.text)
    if not (turn.tool_results or turn.tool_calls or turn.images):
        return _PER_TURN + size
    size += sum(estimate(result.text) for result in turn.tool_results)
    calls = sum(estimate(call.name) + estimate(_json(call.arguments)) for call in turn.tool_calls)
    return _PER_TURN + size + calls + sum(estimate_image(image, model) for image in turn.images)


def estimate_call(call: Call, model: Model) -> int:
    tools = sum([estimate(tool.name + tool.description + _json(tool.schema)) for tool in call.tools])
    return estimate(call.system or "") + tools + sum([estimate_turn(turn, model) for turn in call.turns])


_CHUNK = 4_096  # characters that are classified together
_SPARSE = 12  # prose and code have a blank or line break in every 12 characters; base64 and digits do not
_FRAMING = 1_000  # tokens that a vendor adds: its template, instructions for tools
_SEARCH_RESULTS = 30_000  # tokens of search results that the vendor adds to the input


def at_most(call: Call, model: Model) -> int:
    """An upper bound of the input tokens, for which a budget is reserved.

    It is 1.5 times `estimate_call`, and one token per 1.5 characters where text is dense: base64, digits and minified
    JSON need two to three times as many tokens as prose.
    """
    texts = [call.system or "", *(_json(tool.schema) for tool in call.tools)]
    for turn in call.turns:
        texts += [turn.text, *(result.text for result in turn.tool_results)]
        if turn.native is not None:
            texts.append(_json(turn.native))
    dense = sum(_extra_tokens(text) for text in texts)
    native = sum(estimate(_json(turn.native)) for turn in call.turns if turn.native is not None)
    search = _SEARCH_RESULTS if call.model_settings.web_search and model.web_search else 0
    return (estimate_call(call, model) + native) * 3 // 2 + dense + _FRAMING + search


def _extra_tokens(text: str) -> int:
    """The tokens that dense parts of a text need beyond 1.5 times their estimate."""
    chunks = (text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK))
    lengths = (
        len(chunk)
        for chunk in chunks
        if (chunk.count(" ") + chunk.count("\n")) * _SPARSE < len(chunk) and chunk.isascii()
    )
    return -(-sum(lengths) * 7 // 24)  # 2/3 per character minus the 3/8 that are already counted


def check_window(call: Call, model: Model) -> int:
    """The estimate. Raises `ContextLengthExceeded` with both numbers if it exceeds the model's context window."""
    size = estimate_call(call, model)
    if size > model.context:
        raise ContextLengthExceeded(
            f"About {size:,} tokens exceed the context window of {model.id}, which is {model.context:,}.",
            hint="Send less, start a new conversation, or choose a model with a larger context.",
            max_tokens=model.context,
            provided_tokens=size,
            model=model.id,
        )
    return size


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
