"""Answers as JSON that matches the caller's schema: checked, corrected once, and otherwise a failure.

Vendors that have structured output are asked for it (`models/wires/`). For the others, and those that refuse the field,
the schema is in the system prompt. In all cases the answer is checked here.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from counsel.engine import results
from counsel.engine.consult import schema_worker
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route
from counsel.engine.store.model import Reply
from counsel.errors import CounselError, InvalidArgument, SchemaMismatch
from counsel.lazy_dataclass import dataclass, replace
from counsel.types import Call, Turn, Usage

_FENCED = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL).fullmatch
_WORKER = Path(schema_worker.__file__)
_SECONDS = 60.0  # for the worker, whose CPU time has a lower limit
_DATA = frozenset({"const", "default", "enum", "examples"})  # keywords whose values are not schemas
_SLOW = frozenset({"$dynamicRef", "$recursiveRef", "$ref", "pattern", "patternProperties"})


@dataclass(frozen=True, slots=True)
class Mismatch:
    path: str  # `$.items[2].name`; `$`: the whole answer
    why: str


def check_schema(schema: dict[str, object]) -> None:
    """Raise `InvalidArgument` for anything but a valid JSON Schema, before anything is sent."""
    import jsonschema  # imported with the first schema

    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        path = schema_worker.path(error.absolute_path)
        raise InvalidArgument(
            f"The schema is not valid JSON Schema: {path}: {schema_worker.short(error.message)}.",
            hint="Nothing was sent. Correct it and ask again.",
            path=path,
        ) from None
    except RecursionError:
        raise InvalidArgument(
            "The schema is nested too deeply.", hint="Nothing was sent. Simplify it."
        ) from None


def _keywords(schema: object) -> Iterator[tuple[str, object]]:
    """Every keyword of a schema and its subschemas."""
    if isinstance(schema, Mapping):
        for keyword, value in schema.items():
            yield keyword, value
            if keyword not in _DATA:
                yield from _keywords(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _keywords(part)


async def valid_reply(
    consultation: Consultation,
    step: Step,
    route: Route,
    call: Call,
    reply: Reply,
    *,
    normalize: Callable[[str], str] = str,
) -> Reply:
    """The reply with its JSON alone. A reply that does not match is sent back once with what is wrong.

    `normalize`: turns an answer that is as good as a valid one into a valid one.
    """
    schema = call.schema or {}
    text, mismatch = await check_answer(normalize(reply.text), schema)
    if mismatch is None:
        return replace(reply, text=text)
    retry = replace(
        call,
        turns=(*call.turns, Turn("assistant", reply.text), Turn("user", _correction(mismatch))),
        session=reply.session or call.session,
    )
    consultation.discard(step, route, f"its answer does not match the schema at {mismatch.path}")
    try:
        second = await consultation.ask(replace(step, key=f"{step.key}:corrected"), route, retry)
    except CounselError as error:
        results.charge(error, reply.usage + (results.usage_of(error) or Usage(cost_usd=0.0)))
        raise
    text, mismatch = await check_answer(normalize(second.text), schema)
    if mismatch is not None:
        failure = SchemaMismatch(
            f"{route.name} did not answer with JSON that matches the schema, even when asked again: "
            f"{mismatch.path}: {mismatch.why}.",
            hint="Simplify the schema, or ask another model. The job keeps its last answer.",
            provider=route.provider,
            model=route.name,
            path=mismatch.path,
            partial=second.text,
        )
        results.charge(failure, reply.usage + second.usage)
        raise failure
    return replace(second, text=text, usage=reply.usage + second.usage, ms=reply.ms + second.ms)


def without_fence(answer: str) -> str:
    """The answer without the code fence around it."""
    match = _FENCED(answer)
    return (match[1] if match else answer).strip()


async def check_answer(answer: str, schema: dict[str, object]) -> tuple[str, Mismatch | None]:
    """The answer's JSON text, and what is wrong with it."""
    text = without_fence(answer)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return text, Mismatch("$", f"it is not JSON ({schema_worker.short(str(error))})")
    if _SLOW.isdisjoint(keyword for keyword, _ in _keywords(schema)):
        mismatch = schema_worker.mismatch(value, schema)
    else:
        mismatch = await asyncio.to_thread(_in_worker, value, schema, answer)
    return text, Mismatch(*mismatch) if mismatch else None


def _in_worker(value: object, schema: dict[str, object], answer: str) -> tuple[str, str] | None:
    """Check in a worker process, which the kernel ends if a pattern takes too long."""
    try:
        process = subprocess.run(
            [sys.executable, "-I", str(_WORKER)],
            input=json.dumps({"schema": schema, "value": value}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=_SECONDS,
            check=True,
        )
        mismatch: tuple[str, str] | None = json.loads(process.stdout)
    except RecursionError:
        return "$", "it is nested too deeply"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "this takes too much time or memory"
        raise SchemaMismatch(
            f"The answer could not be checked against the schema: {why}.",
            hint="Simplify the schema's patterns: nested repetitions such as (a+)+ take exponential time.",
            path="$",
            partial=answer,
        ) from None
    return mismatch


def _correction(mismatch: Mismatch) -> str:
    return (
        f"Your answer does not match the schema. At {mismatch.path}: {mismatch.why}.\n"
        "Answer again with the corrected JSON document and nothing else."
    )


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")
