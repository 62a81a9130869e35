"""Answers as JSON: which schemas are refused, how an answer is read, and which errors are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.consult import schema_worker, structured
from counsel.engine.consult.structured import Mismatch
from counsel.errors import InvalidArgument, SchemaMismatch

ITEM: dict[str, object] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
LIST: dict[str, object] = {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}}
# A pattern or a reference is checked in a process of its own.
PATTERN: dict[str, object] = {
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": "^[a-z]+$"}},
}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"properties": {"a": value}}
    return value


def test_an_invalid_schema_is_refused_with_its_location() -> None:
    structured.check_schema(LIST)
    with pytest.raises(InvalidArgument, match=r"\$\.properties\.a\.type") as excinfo:
        structured.check_schema({"properties": {"a": {"type": "text"}}})
    assert excinfo.value.fields["path"] == "$.properties.a.type"
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        structured.check_schema(nested(5000))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('\n {"a": 1} \n', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\n{"a": 1}\n```\n', '{"a": 1}'),
        ("So: ```json\n{}\n```", "So: ```json\n{}\n```"),
    ],
)
def test_a_fence_around_an_answer_is_removed(answer: str, text: str) -> None:
    assert structured.without_fence(answer) == text


@pytest.mark.parametrize(
    ("answer", "schema", "mismatch"),
    [
        ('{"items": [{"name": "a"}]}', LIST, None),
        ("null", {}, None),
        (
            '{"items": [{"name": "a"}, {"name": 3}]}',
            LIST,
            Mismatch("$.items[1].name", "3 is not of type 'string'"),
        ),
        ('{"items": [{}]}', LIST, Mismatch("$.items[0]", "'name' is a required property")),
        ("[]", LIST, Mismatch("$", "[] is not of type 'object'")),
        ("So: {}", {}, Mismatch("$", "it is not JSON (Expecting value: line 1 column 1 (char 0))")),
        ("[NaN]", {}, Mismatch("$", "it is not JSON (NaN is not a JSON value)")),
    ],
)
async def test_what_is_wrong_with_an_answer(
    answer: str, schema: dict[str, object], mismatch: Mismatch | None
) -> None:
    assert await structured.check_answer(answer, schema) == (answer, mismatch)


async def test_patterns_are_checked_in_a_process_of_their_own() -> None:
    assert await structured.check_answer('{"id": "ab"}', PATTERN) == ('{"id": "ab"}', None)
    _, wrong = await structured.check_answer('{"id": "A1"}', PATTERN)
    assert wrong == Mismatch("$.id", "'A1' does not match '^[a-z]+$'")


async def test_a_value_named_like_a_keyword_is_not_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: object) -> None:
        raise AssertionError("there is no pattern")

    monkeypatch.setattr(structured, "_in_worker", no_process)
    await structured.check_answer("{}", {"const": {}, "default": {"pattern": "x"}})
    with pytest.raises(AssertionError):
        await structured.check_answer("{}", {"properties": {"a": [{"pattern": "x"}]}})


async def test_a_check_that_takes_too_long_is_stopped_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "_SECONDS", 0.001)
    with pytest.raises(SchemaMismatch, match="this takes too much time or memory") as excinfo:
        await structured.check_answer('{"id": "ab"}', PATTERN)
    assert (excinfo.value.partial, excinfo.value.fields["path"]) == ('{"id": "ab"}', "$")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SchemaMismatch, match="No such file"):
        await structured.check_answer('{"id": "ab"}', PATTERN)


def test_a_mismatch_is_reported_with_its_path_and_a_short_reason() -> None:
    assert schema_worker.path(["items", 2, "name"]) == "$.items[2].name"
    assert schema_worker.short(" a\n  b ") == "a b"
    assert schema_worker.short("x" * 300) == "x" * 300
    assert schema_worker.short("x" * 301) == "x" * 300 + "…"
    assert schema_worker.mismatch({}, {"$ref": "https://x/schema"}) == (
        "$", "the schema refers to https://x/schema, which it does not contain"
    )  # fmt: skip


def test_values_that_are_nested_too_deeply_are_reported() -> None:
    schema: dict[str, Any] = {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}
    value: list[Any] = []
    for _ in range(3000):
        value = [value]
    assert schema_worker.mismatch(value, schema) == ("$", "it is nested too deeply")


_LIMITS = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import schema_worker
if sys.argv[2]:
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
schema_worker.main()
print("", *resource.getrlimit(resource.RLIMIT_CPU), *resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.parametrize(("hard", "seconds"), [("", schema_worker.SECONDS), ("3", 3)])
def test_the_checking_process_lowers_its_limits_and_never_raises_them(hard: str, seconds: int) -> None:
    folder = str(Path(schema_worker.__file__).parent)
    process = subprocess.run(
        [sys.executable, "-I", "-c", _LIMITS, folder, hard],
        input='{"schema": {"type": "string"}, "value": "x"}',
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["null", str(seconds), str(seconds), "0", "0"]
