"""Answers as JSON that matches the caller's schema: asked for, checked, corrected once, else a failure.

The vendor is asked for structured output where it has that (`models/wires/`), and the schema is in the system prompt for those
that do not, or that refuse the field. Whatever they promise, the answer is checked here.
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
    """Raises `InvalidArgument` for what is no JSON Schema, before anything is sent."""
    import jsonschema  # imported with the first schema

    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        where = schema_worker.path(error.absolute_path)
        raise InvalidArgument(
            f"The schema is not valid JSON Schema: {where}: {schema_worker.short(error.message)}.",
            hint="Nothing was sent. Correct it and ask again.",
            path=where,
        ) from None
    except RecursionError:
        raise InvalidArgument(
            "The schema is nested too deeply.", hint="Nothing was sent. Simplify it."
        ) from None


def _keywords(schema: object) -> Iterator[tuple[str, object]]:
    """Every keyword of a schema and of those inside of it."""
    if isinstance(schema, Mapping):
        for keyword, value in schema.items():
            yield keyword, value
            if keyword not in _DATA:
                yield from _keywords(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _keywords(part)


async def conforming(
    consultation: Consultation,
    step: Step,
    route: Route,
    call: Call,
    reply: Reply,
    *,
    tidied: Callable[[str], str] = str,
) -> Reply:
    """The reply with its JSON alone. One that does not match is sent back once with what is wrong.

    `tidied`: what is as good as a valid answer, made valid.
    """
    schema = call.schema or {}
    text, mismatch = await examined(tidied(reply.text), schema)
    if mismatch is None:
        return replace(reply, text=text)
    again = replace(
        call,
        turns=(*call.turns, Turn("assistant", reply.text), Turn("user", _correction(mismatch))),
        session=reply.session or call.session,
    )
    consultation.discard(step, route, f"its answer does not match the schema at {mismatch.path}")
    try:
        second = await consultation.ask(replace(step, key=f"{step.key}:corrected"), route, again)
    except CounselError as error:
        results.charge(error, reply.usage + (results.spent(error) or Usage(cost_usd=0.0)))
        raise
    text, mismatch = await examined(tidied(second.text), schema)
    if mismatch is not None:
        failure = SchemaMismatch(
            f"{route.name} did not answer with JSON that matches the schema, also when asked again: "
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


def bare(answer: str) -> str:
    """Without a code fence around it."""
    fenced = _FENCED(answer)
    return (fenced[1] if fenced else answer).strip()


async def examined(answer: str, schema: dict[str, object]) -> tuple[str, Mismatch | None]:
    """The answer's JSON text, and what is wrong with it."""
    text = bare(answer)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return text, Mismatch("$", f"it is not JSON ({schema_worker.short(str(error))})")
    if _SLOW.isdisjoint(keyword for keyword, _ in _keywords(schema)):
        wrong = schema_worker.mismatch(value, schema)
    else:
        wrong = await asyncio.to_thread(_in_worker, value, schema, answer)
    return text, Mismatch(*wrong) if wrong else None


def _in_worker(value: object, schema: dict[str, object], answer: str) -> tuple[str, str] | None:
    """A pattern cannot hang this process: the kernel ends the worker."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_WORKER)],
            input=json.dumps({"schema": schema, "value": value}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            timeout=_SECONDS,
            check=True,
        )
        wrong: tuple[str, str] | None = json.loads(done.stdout)
    except RecursionError:
        return "$", "it is nested too deeply"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "that takes too much time or memory"
        raise SchemaMismatch(
            f"The answer could not be checked against the schema: {why}.",
            hint="Simplify the schema's patterns: nested repetitions such as (a+)+ take exponential time.",
            path="$",
            partial=answer,
        ) from None
    return wrong


def _correction(mismatch: Mismatch) -> str:
    return (
        f"Your answer does not match the schema. At {mismatch.path}: {mismatch.why}.\n"
        "Answer again with the corrected JSON document and nothing else."
    )


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")
