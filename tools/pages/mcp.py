"""The generated parts of docs/use/tools.md and docs/internals/interfaces.md, and the front's manifest."""

from __future__ import annotations

import json
import re
from typing import Any

from counsel.mcp import client_timeouts
from counsel.mcp.session import listing
from tools.generate import within


def manifest() -> str:
    """The tools that the front lists before it has a daemon."""
    return json.dumps({"tools": listing()}, ensure_ascii=False, separators=(",", ":")) + "\n"


def tools() -> str:
    return within("docs/use/tools.md", tools="\n\n".join(_tool(tool) for tool in listing()))


def interfaces() -> str:
    rows = [
        f"| {name} | {row.stdio} | {row.http} | {row.source} |"
        for name, row in client_timeouts.CLIENTS.items()
    ]
    default = client_timeouts.OTHERS
    rows.append(f"| others | {default.stdio} | {default.http} | {default.source} |")
    head = "| client | seconds on stdio | on HTTP | source |\n|---|---|---|---|\n"
    return within("docs/internals/interfaces.md", limits=head + "\n".join(rows))


def _tool(tool: Any) -> str:
    schema = tool["inputSchema"]
    rows = [
        _row(name, argument, name in schema.get("required", []))
        for name, argument in schema["properties"].items()
    ]
    table = "\n".join(["| argument | type | default | what it is |", "|---|---|---|---|", *rows])
    return f"### `{tool['name']}`\n\n{tool['description']}\n\n{table}"


def _row(name: str, schema: Any, required: bool) -> str:
    default = "required" if required else f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    return f"| `{name}` | {_type(schema)} | {default} | {schema.get('description', '')} |"


def _type(schema: Any) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        count = f", {schema['minItems']} to {schema['maxItems']}" if "minItems" in schema else ""
        items = re.sub(r"\b(string|object)\b", r"\1s", _type(schema["items"]))
        return f"list of {items}{count}"
    if "minimum" in schema:
        most = f" to {schema['maximum']}" if "maximum" in schema else " or more"
        return f"{schema['type']} {schema['minimum']}{most}"
    return str(schema["type"])
