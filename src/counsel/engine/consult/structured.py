"""Answers as JSON that matches the caller's schema: asked for, checked, corrected once, else a failure.

The vendor is asked for structured output where it has that (`models/wires/`), and the schema is in the system prompt for those
that do not, or that refuse the field. Whatever they promise, the answer is checked here.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route
from counsel.engine.store.model import Reply
from counsel.errors import InvalidArgument, SchemaMismatch
from counsel.lazy_dataclass import dataclass
from counsel.types import Call, Json, Turn

_FENCED = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL).fullmatch
_LONGEST = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class Mismatch:
    path: str  # `$.items[2].name`; `$`: the whole answer
    why: str


def check_schema(schema: Json) -> None:
    """Raises `InvalidArgument` for what is no JSON Schema, before anything is sent."""
    import jsonschema  # imported with the first schema

    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InvalidArgument(
            f"The schema is not valid JSON Schema: {_path(error.absolute_path)}: {_short(error.message)}.",
            hint="Nothing was sent. Correct it and ask again.",
            path=_path(error.absolute_path),
        ) from None
    except RecursionError:
        raise InvalidArgument(
            "The schema is nested too deeply.", hint="Nothing was sent. Simplify it."
        ) from None


async def conforming(consultation: Consultation, step: Step, route: Route, call: Call, reply: Reply) -> Reply:
    """The reply with its JSON alone. One that does not match is sent back once with what is wrong."""
    schema = consultation.job.task.schema or {}
    text, mismatch = examined(reply.text, schema)
    if mismatch is None:
        return replace(reply, text=text)
    again = replace(
        call,
        turns=(*call.turns, Turn("assistant", reply.text), Turn("user", _correction(mismatch))),
        session=reply.session or call.session,
    )
    second = await consultation.ask(replace(step, key=f"{step.key}:corrected"), route, again)
    text, mismatch = examined(second.text, schema)
    if mismatch is not None:
        raise SchemaMismatch(
            f"{route.name} did not answer with JSON that matches the schema, also when asked again: "
            f"{mismatch.path}: {mismatch.why}.",
            hint="Simplify the schema, or ask another model. `partial` has its last answer.",
            provider=route.provider,
            model=route.name,
            path=mismatch.path,
            partial=second.text,
        )
    return replace(second, text=text, usage=reply.usage + second.usage, ms=reply.ms + second.ms)


def examined(answer: str, schema: Json) -> tuple[str, Mismatch | None]:
    """The answer's JSON text, and what is wrong with it."""
    fenced = _FENCED(answer)
    text = (fenced[1] if fenced else answer).strip()
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return text, Mismatch("$", f"it is not JSON ({_short(str(error))})")
    return text, _mismatch(value, schema)


def _mismatch(value: object, schema: Json) -> Mismatch | None:
    import jsonschema
    import referencing

    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    # An empty registry: a `$ref` to a URL is never fetched.
    validator = kind(schema, registry=referencing.Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except RecursionError:
        return Mismatch("$", "it is nested too deeply")
    except referencing.exceptions.Unresolvable as unresolved:
        return Mismatch("$", f"the schema refers to {_short(str(unresolved.ref))}, which it does not contain")
    return Mismatch(_path(error.absolute_path), _short(error.message)) if error else None


def _correction(mismatch: Mismatch) -> str:
    return (
        f"Your answer does not match the schema. At {mismatch.path}: {mismatch.why}.\n"
        "Answer again with the corrected JSON document and nothing else."
    )


def _path(parts: Any) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")
