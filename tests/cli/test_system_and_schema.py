"""`--system` and `--schema` as a person uses them, up to what each vendor receives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel.cli.questions import ask_files
from counsel.engine.consult import schema_worker, structured
from fake import FakeProcess
from support.user import Output, User

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
GOOD = '{"name": "a", "tags": ["b"]}'
MODELS = {"gpt-5": "openai", "sonnet": "anthropic", "gemini-2.5-flash": "google", "grok-4": "xai", "deepseek-chat": "deepseek"}  # fmt: skip


@pytest.fixture
def person(user: User, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> User:
    for name in ask_files.AGENT_MARKS:
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI", "XAI", "DEEPSEEK"):
        monkeypatch.setenv(f"{name}_BASE_URL", fake_process.v1)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake_process.url)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", fake_process.url)
    for name in ("OPENAI", "XAI", "DEEPSEEK", "ANTHROPIC", "GOOGLE"):
        monkeypatch.setenv(f"{name}_API_KEY", f"key-of-{name}-{'k' * 30}")
    user.command = "ask"
    (user.project / "schema.json").write_text(json.dumps(SCHEMA))
    return user


def ask(person: User, *arguments: str) -> Output:
    return person.run("--standalone", *arguments)


def system_of(body: Any) -> str:
    """The system prompt in each vendor's own field."""
    if "instructions" in body:
        return str(body["instructions"])
    if "systemInstruction" in body:
        return str(body["systemInstruction"]["parts"][0]["text"])
    if "system" in body:
        return str(body["system"][0]["text"])
    first = body["messages"][0]
    assert first["role"] in {"system", "developer"}
    return str(first["content"])


def schema_of(body: Any) -> Any:
    """The schema in each vendor's own field; None: it has none."""
    if "generationConfig" in body:
        assert body["generationConfig"]["responseMimeType"] == "application/json"
        return body["generationConfig"]["responseJsonSchema"]
    if "input" in body:
        assert body["text"]["format"]["strict"] is True
        return body["text"]["format"]["schema"]
    if "response_format" in body:
        return body["response_format"].get("json_schema", {}).get("schema")
    return body["output_config"]["format"]["schema"]


@pytest.mark.parametrize("model", MODELS)
def test_a_system_prompt_reaches_every_vendors_own_field(
    person: User, fake_process: FakeProcess, model: str
) -> None:
    result = ask(person, "Why?", "-m", model, "--system", "Answer like a pirate.")
    assert result.code == 0, result.err
    assert system_of(fake_process.calls[0]["body"]) == "Answer like a pirate."


def test_a_system_prompt_reaches_every_member_in_both_rounds(person: User, fake_process: FakeProcess) -> None:
    (person.project / "role.md").write_text("Answer like a pirate.\n")
    person.command = "consensus"
    result = ask(person, "Why?", "-m", "gpt-5,sonnet", "--system", "@role.md")
    assert result.code == 0, result.err
    assert [system_of(call["body"]).strip() for call in fake_process.calls] == ["Answer like a pirate."] * 4


def test_a_file_for_the_system_prompt_follows_the_rules_for_files(
    person: User, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (person.project / ".env").write_text("HUSH=1\n")
    assert ask(person, "Why?", "--system", "@.env", "--json").json["code"] == "FILE_NOT_ALLOWED"
    assert ask(person, "Why?", "--system", "@none", "--json").json["code"] == "NOT_FOUND"
    (person.home / "elsewhere.md").write_text("HUSH\n")
    monkeypatch.setenv("CLAUDECODE", "1")
    refusal = ask(person, "Why?", "--system", f"@{person.home / 'elsewhere.md'}", "--json")
    assert refusal.json["code"] == "FILE_NOT_ALLOWED"
    assert fake_process.calls == []


@pytest.mark.parametrize("model", MODELS)
def test_a_schema_reaches_every_vendor_and_stdout_has_the_json_alone(
    person: User, fake_process: FakeProcess, model: str
) -> None:
    fake_process.script(text=f"```json\n{GOOD}\n```")
    result = ask(person, "Why?", "-m", model, "--schema", "schema.json")
    assert result.code == 0, result.err
    assert result.out == GOOD + "\n"
    (call,) = fake_process.calls
    assert schema_of(call["body"]) == (None if model == "deepseek-chat" else SCHEMA)
    assert '"additionalProperties"' in system_of(call["body"])


def test_a_vendor_that_refuses_the_field_is_asked_in_the_prompt_alone(
    person: User, fake_process: FakeProcess
) -> None:
    fake_process.script(status=400, message="Unsupported parameter: text.format")
    fake_process.script(text=GOOD)
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "schema.json")
    assert (result.code, result.out) == (0, GOOD + "\n"), result.err
    assert "format" not in fake_process.calls[-1]["body"].get("text", {})


def test_an_answer_that_does_not_match_is_corrected_once(person: User, fake_process: FakeProcess) -> None:
    fake_process.script(text='{"name": "a", "tags": [7]}')
    fake_process.script(text=GOOD)
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "schema.json", "--json")
    assert result.json["content"] == GOOD
    first, second = fake_process.calls
    assert "$.tags[0]: 7 is not of type 'string'" in json.dumps(second["body"]["input"])
    assert result.json["metadata"]["usage"]["input_tokens"] > 0
    assert schema_of(first["body"]) == SCHEMA


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"name": "a", "tags": [7]}', "$.tags[0]"),
        ('{"name": "a"}', "$"),
        ("Sorry, I cannot.", "$"),
        ('{"name": NaN, "tags": []}', "$"),
        ("[" * 5000, "$"),
    ],
)
def test_an_answer_that_never_matches_is_an_error_with_its_place(
    person: User, fake_process: FakeProcess, text: str, path: str
) -> None:
    fake_process.script(text=text, times=None)
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "schema.json", "--json")
    assert (result.code, result.json["code"], result.json["path"]) == (1, "SCHEMA_MISMATCH", path)
    assert result.json["partial"] == text
    assert len(fake_process.calls) == 2
    plain = ask(person, "Why?", "-m", "gpt-5", "--schema", "schema.json")
    assert (plain.code, plain.out) == (1, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"type": "strin"}', "$.type"),
        ('{"properties": 7}', "$.properties"),
        ('{"items": {"pattern": "(a"}}', "$.items.pattern: '(a' is not a 'regex'"),
        ('{"patternProperties": {"*": {}}}', "'*' is not a 'regex'"),
    ],
)
def test_a_bad_schema_is_an_error_before_anything_is_paid(
    person: User, fake_process: FakeProcess, text: str, words: str
) -> None:
    (person.project / "bad.json").write_text(text)
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "bad.json", "--json")
    assert (result.code, result.json["code"]) == (1, "INVALID_ARGUMENT")
    assert words in result.json["error"]
    assert fake_process.calls == []


def test_a_reference_to_another_address_is_never_fetched(person: User, fake_process: FakeProcess) -> None:
    reference = {"$ref": f"{fake_process.url}/schema.json"}
    (person.project / "remote.json").write_text(json.dumps(reference))
    fake_process.script(text=GOOD, times=None)
    result = ask(person, "Why?", "-m", "sonnet", "--schema", "remote.json", "--json")
    assert result.json["code"] == "SCHEMA_MISMATCH"
    assert "does not contain" in result.json["error"]
    assert all("schema.json" not in call["path"] for call in fake_process.calls)


SLOW = "a" * 60 + "!"
BRANCHES = {
    f"level{number}": {"anyOf": [{"$ref": f"#/$defs/level{number + 1}"}] * 2} for number in range(40)
} | {"level40": {"const": 1}}


@pytest.mark.thorough  # each runs until the limit of CPU time
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"name": {"pattern": "^(a+)+$"}}}, {"name": SLOW}),
        ({"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False}, {SLOW: 1}),
        ({"$ref": "#/$defs/level0", "$defs": BRANCHES}, {"name": 1}),
    ],
    ids=["pattern", "patternProperties", "references"],
)
def test_a_schema_that_would_be_checked_forever_is_an_error_with_the_answer(
    person: User, fake_process: FakeProcess, schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = person.project / "worker.py"
    source = Path(schema_worker.__file__).read_text()
    quick.write_text(source.replace("SECONDS = 5 ", "SECONDS = 1 "))
    monkeypatch.setattr(structured, "_WORKER", quick)
    (person.project / "slow.json").write_text(json.dumps(schema))
    fake_process.script(text=json.dumps(value), times=None)
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "slow.json", "--json")
    assert (result.code, result.json["code"]) == (1, "SCHEMA_MISMATCH")
    assert "takes too much time" in result.json["error"]
    assert json.loads(result.json["partial"]) == value


def test_auto_does_not_pay_every_model_for_a_schema_that_none_matches(
    person: User, fake_process: FakeProcess
) -> None:
    (person.project / "never.json").write_text('{"type": "object", "required": ["nobody-writes-this"]}')
    fake_process.script(text="{}", times=None)
    result = ask(person, "Why?", "-m", "auto", "--schema", "never.json", "--json")
    assert (result.code, result.json["code"]) == (1, "SCHEMA_MISMATCH")
    assert len(fake_process.calls) == 4  # two models, each asked once more


def test_patterns_and_references_are_checked(person: User, fake_process: FakeProcess) -> None:
    """A property called `pattern` and a value that looks like a bad pattern are neither."""
    schema = {
        "properties": {"pattern": {"$ref": "#/$defs/word"}},
        "$defs": {"word": {"pattern": "^[a-z]+$"}},
        "examples": [{"pattern": "(a"}],
    }
    (person.project / "patterns.json").write_text(json.dumps(schema))
    fake_process.script(text='{"pattern": "UPPER"}')
    fake_process.script(text='{"pattern": "lower"}')
    result = ask(person, "Why?", "-m", "gpt-5", "--schema", "patterns.json", "--json")
    assert result.json["content"] == '{"pattern": "lower"}'
    assert "$.pattern: 'UPPER' does not match" in json.dumps(fake_process.calls[1]["body"]["input"])


def test_a_schema_file_that_is_missing_is_bad_usage(person: User, tmp_path: Path) -> None:
    assert ask(person, "Why?", "--schema", str(tmp_path / "none.json")).code == 2
    assert ask(person, "Why?", "--schema", "schema.json", "--stream").code == 2
