"""Does a value match a JSON Schema? Imports nothing of counsel: it also runs as a process of its own, which the kernel ends.

A pattern such as `(a+)+$` can take years on a short string, and references that branch take as long; neither can be interrupted
inside of a process. Run as `python -I schema_worker.py`: `{"schema": …, "value": …}` on stdin, `[path, reason]` or null on stdout.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

SECONDS = 5  # of CPU
BYTES = 1 << 30  # of address space; macOS does not enforce it
LONGEST = 300  # characters of a reason


def mismatch(value: object, schema: dict[str, Any]) -> tuple[str, str] | None:
    """Where the value does not match, and why; None: it matches."""
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
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, BYTES),
        (resource.RLIMIT_FSIZE, 0),  # writes to a pipe are not limited by it
    ):
        _, hard = resource.getrlimit(kind)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (wanted, wanted))
    document = json.load(sys.stdin)
    json.dump(mismatch(document["value"], document["schema"]), sys.stdout)


if __name__ == "__main__":
    main()
