"""What the wires of OpenAI's two APIs have in common; Anthropic's uses some of it, too."""

from __future__ import annotations

import hashlib

from counsel import strict_json
from counsel.models.wires.call_settings import fits_strict_mode
from counsel.models.wires.token_counts import details, dollars
from counsel.types import Call, Endpoint, Exact, Json, VendorBlock

_LONGEST_NAME = 64  # of a tool, at OpenAI


def flat_name(namespace: str, name: str) -> str:
    """The name of a namespace's tool for clients and models without namespaces."""
    flat = f"{namespace}__{name}"
    if len(flat) <= _LONGEST_NAME:
        return flat
    return f"{flat[: _LONGEST_NAME - 9]}_{hashlib.sha256(flat.encode()).hexdigest()[:8]}"


def named_schema(call: Call) -> dict[str, object]:
    name, strict = (call.exact.schema_name, call.exact.schema_strict) if call.exact else ("answer", None)
    return {
        "name": name,
        "schema": call.schema,
        "strict": fits_strict_mode(call.schema) if strict is None else strict,
    }


def tool_choice(exact: Exact | None, *, nested: bool) -> object:
    """`nested`: Chat Completions has the name one level deeper than Responses."""
    if exact is None or exact.tool_choice is None or not exact.tool_choice.startswith("="):
        return exact.tool_choice if exact else None
    name = {"name": exact.tool_choice[1:]}
    return {"type": "function", **({"function": name} if nested else name)}


def bearer(endpoint: Endpoint) -> dict[str, str]:
    key = {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    return {**key, **endpoint.provider.headers}


def source_name(title: str | None, url: str) -> str:
    """X.AI titles its sources "1", "2" …: the URL is more useful."""
    return title if title and not title.isdigit() else url


def citations(wire: str, notes: list[Json], text: str, phase: str | None = None) -> VendorBlock:
    """Citations of the text before this block. A client's text may be longer: line breaks are added between texts."""
    more = {"phase": phase} if phase else {}
    return VendorBlock(wire, {"type": "citations", "citations": notes, "length": len(text), **more})


def parsed_arguments(raw: str | None) -> dict[str, object]:
    """A model can be cut off within its arguments, or write invalid JSON: then the tool reports what is missing."""
    try:
        arguments = strict_json.loads(raw or "{}")
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


_TICKS = 10_000_000_000  # in a dollar (docs.x.ai, "Cost Tracking")


def reported_cost(usage: Json) -> float | None:
    """The cost that the vendor itself reports: X.AI, OpenRouter and Perplexity (as an object) do."""
    if (ticks := dollars(usage.get("cost_in_usd_ticks"))) is not None:
        return ticks / _TICKS
    cost = dollars(details(usage, "cost").get("total_cost", usage.get("cost")))
    if cost is None:
        return None
    # With the user's own key for the upstream vendor, `cost` is OpenRouter's fee alone.
    upstream = dollars(details(usage, "cost_details").get("upstream_inference_cost"))
    return cost + upstream if upstream is not None and usage.get("is_byok", not cost) else cost
