"""The tools: schemas, refused arguments, results and their size limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from counsel import argument_schema
from counsel.engine.jobs import arguments
from counsel.errors import InvalidArgument
from counsel.mcp import render, tool_result
from counsel.mcp.session import listing
from counsel.mcp.tools import TOOLS, ask_model, chat, consensus
from counsel.requests import ChatRequest, ConsensusRequest, Request
from counsel.results import ChatResult, JobStatus
from support.session_client import SessionClient


def test_the_list_of_tools_is_small() -> None:
    assert len(json.dumps({"tools": listing()}, ensure_ascii=False)) / 4 < 2_500
    assert [tool["name"] for tool in listing()] == [
        "chat",
        "consensus",
        "check_status",
        "cancel_job",
        "askModel",
    ]


@pytest.mark.parametrize("tool", listing(), ids=lambda tool: tool["name"])
def test_every_schema_is_json_schema(tool: Any) -> None:
    for name in ("inputSchema", "outputSchema"):
        jsonschema.Draft202012Validator.check_schema(tool[name])
        assert tool[name]["type"] == "object"
    assert tool["inputSchema"]["additionalProperties"] is False


REQUESTS: dict[str, Callable[[Any], Request]] = {
    "chat": chat.request,
    "consensus": consensus.request,
    "askModel": ask_model.request,
}
GOOD: list[tuple[str, Any]] = [
    ("chat", {"prompt": "p"}),
    ("chat", {"prompt": "p", "temperature": 1, "files": [], "async": True, "reasoning_effort": "max"}),
    ("consensus", {"prompt": "p", "models": ["a", {"model": "b"}]}),
    ("check_status", None),
    ("check_status", {"continuation_id": "x", "full_history": True}),
    ("askModel", {"model": "codex", "prompt": "p", "sessionTag": "t", "tools": ["s"]}),
]
BAD: list[tuple[str, Any, str]] = [
    ("chat", None, "prompt is missing"),
    ("chat", [], "arguments must be an object, not a list"),
    ("chat", {"prompt": 3}, "prompt must be a string, not a number"),
    ("chat", {"prompt": " "}, "prompt must not be empty"),
    ("chat", {"prompt": None}, "prompt must be a string, not null"),
    ("chat", {"prompt": ""}, "prompt must not be empty"),
    ("cancel_job", {"continuation_id": None}, "continuation_id must be a string, not null"),
    ("chat", {"prompt": "p", "modle": "x"}, "modle is not known (did you mean model?)"),
    ("chat", {"prompt": "p", "temperature": 1.1}, "temperature must be from 0 to 1, not 1.1"),
    ("chat", {"prompt": "p", "temperature": True}, "temperature must be a number, not true or false"),
    ("chat", {"prompt": "p", "temperature": float("nan")}, "temperature must be from 0 to 1"),
    (
        "chat",
        {"prompt": "p", "reasoning_effort": "huge"},
        "must be one of minimal, low, medium, high, max, not huge",
    ),
    ("chat", {"prompt": "p", "files": "a"}, "files must be a list, not a string"),
    ("chat", {"prompt": "p", "files": "[a]"}, "files must be a list, not a string"),
    ("chat", {"prompt": "p", "files": "[" * 100_000}, "files must be a list, not a string"),
    ("chat", {"prompt": "p", "files": "[1]"}, "files[0] must be a string, not a number"),
    ("chat", {"prompt": "p", "files": ["a", 1]}, "files[1] must be a string, not a number"),
    ("chat", {"prompt": "p", "async": "yes"}, "async must be true or false, not a string"),
    ("chat", {"prompt": "p", "temperature": "warm"}, "temperature must be a number, not a string"),
    ("chat", {"prompt": "p", "temperature": "nan"}, "temperature must be a number, not a string"),
    ("chat", {"prompt": "p", "temperature": "1e999"}, "temperature must be a number, not a string"),
    ("chat", {"prompt": "p", "temperature": "2"}, "temperature must be from 0 to 1, not 2"),
    ("consensus", {"prompt": "p", "models": ["", None]}, "models must have 1 to 20 entries, not 0"),
    (
        "consensus",
        {"prompt": "p", "models": ["a"], "rounds": "1.5"},
        "rounds must be a whole number, not 1.5",
    ),
    ("consensus", {"prompt": "p", "models": []}, "models must have 1 to 20 entries, not 0"),
    ("consensus", {"prompt": "p", "models": ["a"] * 21}, "models must have 1 to 20 entries, not 21"),
    ("consensus", {"prompt": "p", "models": [4]}, "models[0] must be a string or an object, not a number"),
    ("consensus", {"prompt": "p", "models": [{"name": "a"}]}, "models[0].model is missing"),
    ("consensus", {"prompt": "p", "models": "o3"}, "models must be a list"),
    ("consensus", {"prompt": "p", "models": ["a"], "rounds": 2.5}, "rounds must be a whole number, not 2.5"),
    ("consensus", {"prompt": "p", "models": [{"model": "a", "stance": " "}]}, "not ' '"),
    ("consensus", {"prompt": "p", "models": [{"model": ""}]}, "models[0].model must not be empty"),
    ("chat", {"prompt": "p", "max_cost_usd": 10**400}, "max_cost_usd must be 0 or more, not 1000"),
    ("cancel_job", {}, "continuation_id is missing"),
    ("askModel", {"prompt": "p"}, "model is missing"),
]


@pytest.mark.parametrize(("tool", "arguments"), GOOD)
def test_good_arguments_pass_here_and_in_a_real_validator(tool: str, arguments: Any) -> None:
    argument_schema.check(tool, TOOLS[tool].schema, arguments)
    jsonschema.validate(arguments or {}, TOOLS[tool].schema)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("blank", [None, "", []])
def test_a_blank_optional_argument_was_not_given(name: str, blank: Any) -> None:
    tool = TOOLS[name]
    fields_ = {"prompt": "p", "models": ["a"], "model": "m", "continuation_id": "x"}
    required_arguments = {field: fields_[field] for field in tool.required}
    optional = {field: blank for field in tool.properties if field not in tool.required}
    assert argument_schema.check(name, tool.schema, {**required_arguments, **optional}) == required_arguments


def test_a_blank_field_of_a_member_was_not_given() -> None:
    models = [
        "a",
        {"model": "b", "role": None, "stance": ""},
        {"model": "c", "role": "critic", "stance": None},
    ]
    values = {"prompt": "p", "models": models}
    checked_arguments = argument_schema.check("consensus", consensus.TOOL.schema, values)
    assert checked_arguments["models"] == ["a", {"model": "b"}, {"model": "c", "role": "critic"}]
    assert models[1] == {"model": "b", "role": None, "stance": ""}, "the caller's own list is not changed"


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """JSON Schema allows it, and some clients have only floats."""
    values = {"prompt": "p", "models": ["a"], "rounds": 3.0}
    rounds = argument_schema.check("consensus", consensus.TOOL.schema, values)["rounds"]
    assert (rounds, type(rounds)) == (3, int)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("temperature", "1", 1.0),
        ("max_cost_usd", " 2 ", 2.0),
        ("async", "true", True),
        ("export", "False", False),
    ],
)
def test_a_number_or_boolean_may_be_written_as_text(name: str, text: str, value: object) -> None:
    checked_arguments = argument_schema.check("chat", chat.TOOL.schema, {"prompt": "p", name: text})
    assert (checked_arguments[name], type(checked_arguments[name])) == (value, type(value))


def test_a_whole_number_may_be_written_as_text() -> None:
    values = {"prompt": "p", "models": ["a"], "rounds": "2"}
    rounds = argument_schema.check("consensus", consensus.TOOL.schema, values)["rounds"]
    assert (rounds, type(rounds)) == (2, int)


def test_a_list_may_be_written_as_json_in_text() -> None:
    values = {"prompt": "p", "files": ' ["a.py", "", "b.py"]', "images": "[]"}
    checked_arguments = argument_schema.check("chat", chat.TOOL.schema, values)
    assert checked_arguments == {"prompt": "p", "files": ["a.py", "b.py"], "images": []}
    members = [{"model": "a", "role": ""}, "b"]
    values = {"prompt": "p", "models": json.dumps(members)}
    models = argument_schema.check("consensus", consensus.TOOL.schema, values)["models"]
    assert models == [{"model": "a"}, "b"]


def test_blank_entries_of_a_list_were_not_given() -> None:
    values = {"prompt": "p", "files": [None, "", "a.py"], "images": [""]}
    assert argument_schema.check("chat", chat.TOOL.schema, values) == {
        "prompt": "p",
        "files": ["a.py"],
        "images": [],
    }
    values = {"prompt": "p", "models": ["a", None, ""]}
    assert argument_schema.check("consensus", consensus.TOOL.schema, values)["models"] == ["a"]


@pytest.mark.parametrize(("tool", "arguments", "words"), BAD)
def test_bad_arguments_are_refused_with_what_is_wrong(tool: str, arguments: Any, words: str) -> None:
    with pytest.raises(InvalidArgument) as excinfo:
        argument_schema.check(tool, TOOLS[tool].schema, arguments)
    assert words in excinfo.value.message
    assert "Arguments:" in str(excinfo.value.hint)


@pytest.mark.parametrize(("wrong", "expected"), [(1, 1), (10, 10), (11, 10), (100_000, 10)])
def test_many_problems_are_listed_up_to_a_limit(wrong: int, expected: int) -> None:
    arguments = {"prompt": "hello", "files": [5] * wrong}
    with pytest.raises(InvalidArgument) as excinfo:
        argument_schema.check("chat", TOOLS["chat"].schema, arguments)
    problems = excinfo.value.message.split("; ")
    assert len([problem for problem in problems if "files" in problem]) == expected
    assert (problems[-1] == "and more.") == (wrong > expected)


@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        ("chat", {"prompt": " "}),
        ("chat", {"prompt": 5}),
        ("chat", {"model": 5, "temperature": 1.1}),
        ("chat", {"temperature": True}),
        ("chat", {"files": ["a", 1]}),
        ("chat", {"reasoning_effort": "huge", "verbosity": "loud", "media_resolution": "HIGH"}),
        ("chat", {"use_websearch": "yes"}),
        ("chat", {"continuation_id": 7}),
        ("consensus", {"models": []}),
        ("consensus", {"models": ["a"] * 21}),
        ("consensus", {"models": ["a", " "]}),
        ("consensus", {"enable_cross_feedback": 1, "cross_feedback_prompt": 5}),
        ("askModel", {"tools": [1]}),
    ],
)
def test_the_engine_refuses_the_same_arguments_with_the_same_message(tool: str, wrong: Any) -> None:
    fields_ = {"prompt": "p", "model": "m", "models": ["a"]}
    values = {**{name: fields_[name] for name in TOOLS[tool].required}, **wrong}
    with pytest.raises(InvalidArgument) as by_schema:
        argument_schema.check(tool, TOOLS[tool].schema, values)
    with pytest.raises(InvalidArgument) as by_engine:
        arguments.checked(REQUESTS[tool](values))
    assert by_engine.value.message == by_schema.value.message


async def test_a_refusal_is_a_result_and_nothing_is_sent(tmp_path: Path) -> None:
    client = SessionClient(tmp_path)
    await client.initialize()
    result = await client.call("chat", {"prompt": "p", "model": 1})
    assert result["isError"]
    assert result["structuredContent"]["code"] == "INVALID_ARGUMENT"
    assert result["content"][0]["text"].startswith("INVALID_ARGUMENT: chat: model must be a string")
    assert not client.engine.jobs


async def test_arguments_reach_the_engine_as_a_request(tmp_path: Path) -> None:
    client = SessionClient(tmp_path)
    await client.initialize()
    await client.call(
        "chat", {"prompt": "echo", "files": ["a"], "use_websearch": True, "export": True, "verbosity": "low"}
    )
    await client.call("consensus", {"prompt": "echo", "models": ["a", {"model": "b"}], "temperature": 0.1})
    await client.call("askModel", {"model": "codex", "prompt": "echo", "sessionTag": "t", "tools": ["s"]})
    requests = [job.request for job in client.engine.jobs.values()]
    assert requests == [
        ChatRequest(prompt="echo", files=("a",), use_websearch=True, export=True, verbosity="low"),
        ConsensusRequest(prompt="echo", models=("a", "b"), temperature=0.1),
        ChatRequest(prompt="echo", model="codex", tool="askModel", session_tag="t", tools=("s",)),
    ]


async def test_status_and_cancel_have_converses_shape(tmp_path: Path) -> None:
    client = SessionClient(tmp_path)
    await client.initialize()
    await client.call("chat", {"prompt": "hang", "async": True})
    status = await client.call("check_status", {"continuation_id": "conv_1"})
    assert status["structuredContent"]["content"]["status"] == "processing"
    many = await client.call("check_status", None)
    assert [job["id"] for job in many["structuredContent"]["content"]["jobs"]] == ["conv_1"]
    cancellation = await client.call("cancel_job", {"continuation_id": "conv_1"})
    assert cancellation["structuredContent"]["content"]["status"] == "cancelled"
    missing = await client.call("check_status", {"continuation_id": "nope"})
    assert missing["structuredContent"]["code"] == "NOT_FOUND"


async def test_failed_models_are_named_first(tmp_path: Path) -> None:
    client = SessionClient(tmp_path)
    await client.initialize()
    result = await client.call("consensus", {"prompt": "echo words", "models": ["a", "b"]})
    text = result["content"][0]["text"]
    assert text.index("✗ broken: TIMEOUT: no") < text.index("## a") < text.index("## b")


def size(result: Any) -> float:
    return len(json.dumps(result, ensure_ascii=False, separators=(",", ":"))) / 4


async def test_a_long_answer_is_cut_and_the_whole_is_one_call_away(tmp_path: Path) -> None:
    client = SessionClient(tmp_path, MAX_MCP_OUTPUT_TOKENS="2000")
    await client.initialize()
    result = await client.call("chat", {"prompt": "long 20000"})
    assert size(result) <= 2_000
    assert size(result) > 1_500  # the available space is used
    content = result["structuredContent"]["content"]
    head, _, note = content.rpartition("\n\n[cut here: ")
    full_text = client.engine.jobs["conv_1"].outcome["content"]  # type: ignore[index]
    assert full_text.startswith(head + " ")  # at a boundary between words
    assert "counsel://jobs/conv_1/text" in note
    assert result["structuredContent"]["continuation"]["id"] == "conv_1"
    file = tmp_path / "outputs" / "conv_1.txt"
    assert full_text in file.read_text()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert result["content"][1]["uri"] == "counsel://jobs/conv_1/text"
    uri, pages = result["content"][1]["uri"], []
    while uri:
        resource = (await client.ask("resources/read", {"uri": uri}))["result"]
        assert size(resource) <= 2_000
        text, _, foot = resource["contents"][0]["text"].rpartition("\n\n[page ")
        pages.append(text)
        uri = foot.rpartition("next: ")[2][:-1] if "next: " in foot else None
    assert "".join(pages) == file.read_text()


async def test_old_revisions_get_no_link_that_they_cannot_read(tmp_path: Path) -> None:
    client = SessionClient(tmp_path, MAX_MCP_OUTPUT_TOKENS="2000")
    await client.initialize("2024-11-05")
    result = await client.call("chat", {"prompt": "long 20000"})
    assert [part["type"] for part in result["content"]] == ["text"]


@pytest.mark.parametrize(
    "content",
    [
        {"history": [{"role": "user", "content": f"message {number}"} for number in range(5_000)]},
        {"history": [{"role": "user", "content": '"\\\n' * 3_000} for _ in range(200)]},
        {"models_status": [{"model": f"m{number}", "text": "ü\u2028 " * 9_000} for number in range(20)]},
        {"error": {"error": "no-boundary" * 9_000, "code": "X"}},
    ],
)
def test_whatever_is_too_long_fits_afterwards(tmp_path: Path, content: Any) -> None:
    frame = tool_result.Frame(1_000, lambda: tmp_path, links=True)
    document: dict[str, object] = {"content": {"id": "conv_1", "status": "completed", **content}}
    result = tool_result.success(JobStatus.from_json(document), frame, "conv_1", render.text)
    assert size(result) <= 1_000
    assert result["structuredContent"]["content"]["id"] == "conv_1"


def test_a_full_disk_loses_the_file_and_not_the_answer(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("in the way")
    frame = tool_result.Frame(1_000, lambda: tmp_path, links=True)
    answer = ChatResult.from_json({"content": "word " * 9_000})
    result = tool_result.success(answer, frame, "conv_1", render.text)
    assert size(result) <= 1_000
    assert result["content"][1]["uri"] == "counsel://jobs/conv_1/text"


def test_the_readable_text_says_what_the_metadata_says() -> None:
    """A client that shows only text must not hide that another model answered, or that the answer is cut."""
    result: dict[str, object] = {
        "content": "The answer.",
        "continuation": {"id": "conv_1"},
        "metadata": {
            "model": "sonnet",
            "provider": "anthropic",
            "finish_reason": "length",
            "passed_over": [
                {"model": "gpt-5", "code": "RATE_LIMIT_EXCEEDED", "error": "OpenAI rate limit exceeded."}
            ],
            "notices": [
                {"kind": "source", "text": "A page", "url": "https://example.com/a"},
                {"kind": "source", "text": "https://example.com/b", "url": "https://example.com/b"},
                {"kind": "warning", "text": "The session was lost."},
            ],
            "warnings": ["Nothing is kept."],
            "settings_left_out": ["temperature"],
        },
        "export": "/p/conv_1",
    }
    assert render.text(ChatResult.from_json(result)).split("\n\n") == [
        "The answer.",
        "Sources:\n- A page: https://example.com/a\n- https://example.com/b",
        "Note: gpt-5 was passed over: OpenAI rate limit exceeded.",
        "Note: The session was lost.",
        "Note: Nothing is kept.",
        "Note: the answer was cut off at the model's output limit.",
        "Exported to /p/conv_1",
        "Note: sonnet does not take temperature: left out.",
        "— anthropic/sonnet · ? tokens · cost ? · continuation_id: conv_1",
    ]
