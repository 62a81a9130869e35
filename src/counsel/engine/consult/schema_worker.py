"""Checks a value against a JSON Schema. Imports nothing from counsel, as it also runs as a process of its own.

A pattern such as `(a+)+$` can take years on a short string, and so can branching references. Neither can be interrupted
inside a process, but the kernel's limits end this one. Run as `python -I schema_worker.py`: `{"schema": …, "value": …}`
on stdin, `[path, reason]` or null on stdout.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

SECONDS = 5  # CPU time
BYTES = 1 << 30  # address space; macOS does not enforce it
LONGEST = 300  # characters of a reason


def mismatch(value: object, schema: dict[str, Any]) -> tuple[str, str] | None:
    """Where the value does not match, and why; None if it matches."""
    import jsonschema
    import referencing

    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    # An empty registry: a `$ref` to a URL is never fetched.
    validator = kind(schema, registry=referencing.Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except RecursionError:
        return "$", "it is nested too deeply"
    except referencing.exceptions.Unresolvable as unresolved:
        return "$", f"the schema refers to {short(str(unresolved.ref))}, which it does not contain"
    return (path(error.absolute_path), short(error.message)) if error else None


def path(parts: Any) -> str:
    """`$.items[2].name`; `$`: the whole value."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def main() -> None:
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, BYTES),
        (resource.RLIMIT_FSIZE, 0),  # does not limit writes to a pipe
    ):
        _, hard = resource.getrlimit(kind)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))
    document = json.load(sys.stdin)
    json.dump(mismatch(document["value"], document["schema"]), sys.stdout)


if __name__ == "__main__":
    main()
