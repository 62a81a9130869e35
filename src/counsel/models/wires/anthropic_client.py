"""Anthropic Messages for a client that speaks a vendor's API to counsel: its own request, and its special settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from counsel.types import Adapted, Call, Exact, Model, Native, Turn

WIRE = "anthropic"
SAMPLING = {"top_p": "top_p", "top_k": "top_k"}
_SHAPING = ("temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def tool_choice(exact: Exact | None) -> dict[str, object] | None:
    if exact is None or (exact.tool_choice is None and exact.parallel_tool_calls is None):
        return None
    mode = exact.tool_choice or "auto"
    choice: dict[str, object] = (
        {"type": "tool", "name": mode[1:]} if mode.startswith("=") else {"type": _CHOICES[mode]}
    )
    if exact.parallel_tool_calls is not None and mode != "none":
        choice["disable_parallel_tool_use"] = not exact.parallel_tool_calls
    return choice


def requested_thinking(call: Call, model: Model) -> tuple[dict[str, object] | None, int] | None:
    """The thinking of a client that counts it in tokens, and `max_tokens`, which includes it."""
    if call.exact is None or call.exact.thinking_budget is None:
        return None
    limit, budget = min(call.max_output or model.output, model.output), call.exact.thinking_budget
    return ({"type": "enabled", "budget_tokens": budget} if budget else None), limit


def smaller_limit(call: Call, model: Model) -> tuple[Adapted, ...]:
    if call.exact is None or (call.max_output or 0) <= model.output:
        return ()
    why = (
        f"{model.id} answers with at most {model.output} tokens, which was sent instead of {call.max_output}."
    )
    return (Adapted("max_tokens", str(call.max_output), str(model.output), why),)


def refuses_thinking(call: Call) -> bool:
    """Whether the vendor refuses to think with a budget: when a tool must be called, and in a tool loop whose answer
    began without thinking. (Clients of OpenAI's API seldom send reasoning back.)
    """
    if call.exact is None:
        return False
    return call.exact.tool_choice not in (None, "auto", "none") or _began_without_thinking(call.turns)


def _began_without_thinking(turns: tuple[Turn, ...]) -> bool:
    """Whether the answer that these turns continue, tool call by tool call, has no thinking at its beginning."""
    first = None  # the first turn of that answer
    for before, turn in pairwise((None, *turns)):
        if turn is None or turn.role == "assistant":
            first = first or turn
        elif turn.role == "user" and (before is None or before.role != "tool"):
            first = None
    if first is None or not first.tool_calls:
        return False
    return not any(thought.wire == WIRE for thought in first.thoughts)


def client_body(
    native: Native, call: Call, model: Model, options: Mapping[str, Any]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """The client's own body without the fields that this model refuses, and their names."""
    refused_fields = _SHAPING if model.temperature is None else ()
    # An answer that another vendor's model began (the first of a fallback chain) is continued without thinking.
    thinking = native.body.get("thinking")
    if (
        isinstance(thinking, dict)
        and thinking.get("type") == "enabled"
        and _began_without_thinking(call.turns)
    ):
        refused_fields = (*refused_fields, "thinking")
    left_out = tuple(name for name in refused_fields if name in native.body)
    body = {name: value for name, value in native.body.items() if name not in left_out}
    body |= {"model": model.wire_id, "stream": True, **options.get("body", {})}
    if (partial_turn := call.turns[-1].native) is not None:  # models/paused_turns.py continues its own answer
        body["messages"] = [*native.body["messages"], {"role": "assistant", "content": partial_turn}]
    return body, left_out
