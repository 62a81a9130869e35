"""`ask`, `consensus`, `jobs`, `cancel`, `conversations`, `usage` as a person runs them: real processes, standalone
engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake import FakeProcess, marked

pytestmark = pytest.mark.thorough  # left out of `make check`: a process for each test


@pytest.fixture
def env(tmp_path: Path, fake_process: FakeProcess) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "sk-test-000000000000000000000000",
        "OPENAI_BASE_URL": fake_process.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test-000000000000",
        "ANTHROPIC_BASE_URL": fake_process.url,
    }


@pytest.fixture
def counsel(env: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    project = tmp_path / "project"
    project.mkdir()

    def run(*arguments: str, stdin: str | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "counsel", *arguments],
            check=False,
            env={**env, **more},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=project,
        )

    return run


def test_ask_prints_the_answer_alone_on_stdout(
    counsel: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = counsel("ask", "hello", "-m", "gpt-5", "--standalone")
    assert (result.returncode, result.stdout) == (0, "gpt-5 says: hello\n")
    assert "openai/gpt-5" in result.stderr
    assert re.search(r"-c [0-9a-f]{8}$", result.stderr.strip())


def test_sources_are_named_beside_the_answer(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    fake_process.script(text="It rains.", sources=[{"url": "https://example.com/w", "title": "Weather"}])
    result = counsel("ask", "weather?", "-m", "gpt-5", "--web", "--standalone")
    assert result.stdout == "It rains.\n"
    assert "- Weather: https://example.com/w" in result.stderr


def test_ask_json_prints_one_document_and_nothing_else(
    counsel: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = counsel("ask", "hello", "-m", "gpt-5", "--standalone", "--json")
    document = json.loads(result.stdout)
    assert document["content"] == "gpt-5 says: hello"
    assert result.stderr == ""


def test_stdin_is_the_prompt_or_its_context(counsel: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    alone = counsel("ask", "-m", "gpt-5", "--standalone", stdin="from a pipe")
    assert alone.stdout == "gpt-5 says: from a pipe\n"
    both = counsel("ask", "explain", "-m", "gpt-5", "--standalone", stdin="some diff")
    assert both.stdout == "gpt-5 says: explain\n\n<stdin>\nsome diff\n</stdin>\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ask",), 2, "No prompt"),
        (("ask", " "), 2, "empty"),
        (("conversations", "delete", "x"), 2, "--yes"),
        (("ask", "x", "-m", "gpt5x"), 1, "gpt-5"),
        (("ask", "x", "-f", "missing.py"), 1, "missing.py"),
        (("ask", "x", "-f", "/etc/shadow"), 1, "/etc/shadow"),
        (("ask", "x", "-c", "conv_00000000-0000-0000-0000-000000000000"), 1, "no conversation"),
        (("ask", "x", "--effort", "huge"), 2, "huge"),
        (("ask", "x", "--cwd", "/no/such/folder"), 2, "/no/such/folder"),
        (("ask", "x", "--temperature", "3"), 2, "3.0"),
        (("consensus", "x", "-m", "gpt-5,"), 2, "empty"),
        (("consensus", "x", "-m", "gpt-5,sonnet,gpt5x"), 1, "gpt5x"),
        (("consensus", "x", "-m", "gpt-5,grok-4"), 1, "X.AI is not available"),
        (("consensus", "x", "-m", "gpt-5,gpt5x,sonet"), 1, "sonet"),
        (("consensus", "x", *(("-m", "gpt-5") * 21)), 1, "21"),
        (("ask", "x", "-m", "gpt-5,,sonnet"), 2, "name is empty"),
        (("ask", "x", "-m", "gpt-5,gpt5x", "--standalone"), 1, "gpt5x"),
        (("ask", "x", "-m", "gpt-5", "--max-cost", "0", "--standalone"), 1, "--max-cost of $0"),
        (("ask", "x", "-m", "gpt-5", "--max-cost", "-1"), 2, "--max-cost"),
        (("jobs", "--follow"), 1, "no jobs yet"),
        (("jobs", "--history"), 2, "ID"),
        (("jobs", "x", "--stream"), 2, "--follow"),
        (("ask", "x", "--stream", "--background"), 2, "--background"),
        (("usage", "--since", "soon"), 2, "7d"),
        (("conversations", "show", "nothing"), 1, "nothing"),
    ],
)
def test_bad_input_is_named_and_nothing_is_sent(
    counsel: Callable[..., subprocess.CompletedProcess[str]],
    fake_process: FakeProcess,
    arguments: Any,
    code: int,
    words: str,
) -> None:
    standalone = ("--standalone",) if arguments[0] in {"ask", "consensus", "jobs"} else ()
    result = counsel(*arguments, *standalone)
    assert result.returncode == code
    assert words in result.stderr
    assert result.stdout == ""
    assert fake_process.calls == []


def test_bad_usage_is_a_document_with_json(counsel: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for arguments in (
        ("ask", "x", "--effort", "huge", "--json"),
        ("ask", "--json"),
        ("ask", "x", "--stream", "--json"),
    ):
        result = counsel(*arguments)
        assert result.returncode == 2
        assert json.loads(result.stdout)["code"] == "INVALID_ARGUMENT"


def test_stdin_in_any_encoding(env: dict[str, str], tmp_path: Path) -> None:
    """Bytes that are not UTF-8 once lost an answer that was paid for."""

    def ask_with(data: bytes) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "counsel", "ask", "what?", "-m", "gpt-5", "--standalone"]
        return subprocess.run(
            command, check=False, env=env, input=data, capture_output=True, timeout=60, cwd=tmp_path
        )

    latin = ask_with("café".encode("latin-1"))
    assert (latin.returncode, "café" in latin.stdout.decode()) == (0, True)
    binary = ask_with(b"\x7fELF\0\0")
    assert (binary.returncode, b"Standard input is not a text" in binary.stderr) == (1, True)


def test_arguments_and_folders_that_are_not_utf8(env: dict[str, str], tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102 - its name is no text
    Path(os.fsdecode(folder + b"/n\xffte.txt")).write_text("in the file")
    command = [
        os.fsencode(sys.executable),
        b"-m",
        b"counsel",
        b"ask",
        b"caf\xe9?",
        b"-m",
        b"gpt-5",
        b"-f",
        b"n\xffte.txt",
    ]
    result = subprocess.run(
        [*command, b"--standalone", b"--json"],
        check=False,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert "in the file" in document["content"]
    listing = subprocess.run(
        [*command[:3], b"conversations", b"list"], check=False, env=env, capture_output=True, timeout=60
    )
    assert document["continuation"]["id"].encode() in listing.stdout


def test_the_log_says_who_was_asked_and_how_it_went(
    counsel: Callable[..., subprocess.CompletedProcess[str]], env: dict[str, str], fake_process: FakeProcess
) -> None:
    fake_process.script(status=500)
    fake_process.script(text="the answer's words")
    quiet = counsel("ask", "my own words", "-m", "gpt-5", "--standalone", "--json")
    job = json.loads(quiet.stdout)["job_id"]
    assert quiet.stderr == ""
    log = Path(env["COUNSEL_HOME"], "logs", "counsel.log")
    text = log.read_text()
    assert f"{job}: will be tried again: attempt 2" in text
    assert f"{job}: openai/gpt-5: stop" in text
    for secret in ("my own words", "the answer's words", env["OPENAI_API_KEY"]):
        assert secret not in text


def test_a_standalone_engine_logs_to_stderr_at_the_level_debug(
    counsel: Callable[..., subprocess.CompletedProcess[str]], env: dict[str, str], fake_process: FakeProcess
) -> None:
    fake_process.script(status=401)
    loud = counsel("ask", "my own words", "-m", "gpt-5", "--standalone", LOG_LEVEL="debug")
    assert "openai/gpt-5: AUTHENTICATION_FAILED, status 401" in loud.stderr
    log = Path(env["COUNSEL_HOME"], "logs", "counsel.log").read_text()
    assert loud.stderr.splitlines()[0] in log
    for secret in ("my own words", "Incorrect API key", env["OPENAI_API_KEY"]):
        assert secret not in log


def test_the_log_has_prompts_only_when_the_user_wants_them_there(
    counsel: Callable[..., subprocess.CompletedProcess[str]], env: dict[str, str], fake_process: FakeProcess
) -> None:
    fake_process.script(text="the answer's words", times=None)
    prompt = f"my own words, and {env['OPENAI_API_KEY']}"
    counsel("ask", prompt, "-m", "gpt-5", "--standalone", COUNSEL_LOG_CONTENT="1")
    text = Path(env["COUNSEL_HOME"], "logs", "counsel.log").read_text()
    assert "my own words, and [hidden]" in text
    assert "the answer's words" in text
    assert env["OPENAI_API_KEY"] not in text


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_an_empty_answer_is_a_failure(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess, text: str
) -> None:
    fake_process.script(text=text, usage={"input": 100, "output": 10}, times=None)
    result = counsel("ask", "x", "-m", "gpt-5.1", "--standalone")
    assert result.returncode == 1
    assert not result.stdout.strip()
    assert "gpt-5.1 gave an empty answer" in result.stderr
    document = json.loads(counsel("ask", "x", "-m", "gpt-5.1", "--standalone", "--json").stdout)
    assert document["code"] == "EMPTY_ANSWER"
    assert document["usage"]["input_tokens"] == 100
    assert document["cost_usd"] > 0


def test_a_refused_answer_is_a_failure_that_says_why(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    fake_process.script(text="First, ", finish="filtered", times=None)
    result = counsel("ask", "x", "-m", "sonnet", "--standalone")
    assert result.returncode == 1
    assert "First" not in result.stdout
    assert "refused or blocked" in result.stderr


def test_an_error_is_a_document_with_json(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    fake_process.script(status=401)
    result = counsel("ask", "x", "-m", "gpt-5", "--standalone", "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert document["code"] == "AUTHENTICATION_FAILED"
    assert document["provider"] == "openai"
    assert "sk-test" not in result.stdout + result.stderr


def test_interrupt_stops_the_call_upstream(
    env: dict[str, str], fake_process: FakeProcess, tmp_path: Path
) -> None:
    fake_process.script(hang_after=1)
    process = subprocess.Popen(
        [sys.executable, "-m", "counsel", "ask", "x", "-m", "gpt-5", "--standalone"],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    fake_process.wait_for(deltas=1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    fake_process.wait_for(state="disconnected")


def test_consensus_names_who_failed_first(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    fake_process.script(status=401, model="gpt-5-mini", times=None)
    result = counsel("consensus", "which?", "-m", "gpt-5", "-m", "sonnet", "-m", "gpt-5-mini", "--standalone")
    assert result.returncode == 0
    assert result.stdout.startswith("⚠ gpt-5-mini failed")
    assert "## sonnet" in result.stdout
    assert "2 of 3 answered" in result.stderr
    document = json.loads(
        counsel("consensus", "which?", "-m", "gpt-5,sonnet", "--standalone", "--json").stdout
    )
    assert document["status"] == "consensus_complete"


def test_defaults_apply_when_nothing_is_given(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    for key, value in (
        ("default_model", "sonnet"),
        ("default_effort", "low"),
        ("consensus_models", "gpt-5,gpt-5-mini"),
    ):
        assert counsel("config", "set", key, value).returncode == 0
    first = json.loads(counsel("ask", "hello", "--standalone", "--json", "-c", "mine").stdout)
    assert (
        first["content"] == "claude-sonnet-4-5-20250929 says: hello" or "sonnet" in first["metadata"]["model"]
    )
    counsel("ask", "again", "--standalone", "-c", "other", "-m", "gpt-5")
    assert fake_process.calls[-1]["body"]["reasoning"]["effort"] == "low"
    document = json.loads(counsel("ask", "and now?", "--standalone", "--json", "-c", "other").stdout)
    assert document["metadata"]["model"] == "gpt-5"  # a conversation continues with its own model
    panel = json.loads(counsel("consensus", "which?", "--standalone", "--json").stdout)
    assert [answer["model"] for answer in panel["phases"]["initial"]] == ["gpt-5", "gpt-5-mini"]


def test_members_that_cannot_take_the_question_are_named_before_anything_is_sent(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    long = "word " * 300_000
    result = counsel("consensus", "-m", "gpt-4.1,sonnet", "--standalone", "--json", stdin=long)
    error = json.loads(result.stdout)
    assert (result.returncode, error["code"], error["models"]) == (1, "CONTEXT_LENGTH_EXCEEDED", ["sonnet"])
    assert fake_process.calls == []


def test_jobs_conversations_and_usage_show_what_happened(
    counsel: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    first = json.loads(counsel("ask", "about walruses", "-m", "gpt-5", "--standalone", "--json").stdout)
    name = first["continuation"]["id"]
    counsel("ask", "and tusks?", "-c", name, "--standalone")
    jobs = json.loads(counsel("jobs", "--standalone", "--json").stdout)["jobs"]
    assert [job["title"] for job in jobs] == ["and tusks?", "about walruses"]
    details = counsel("jobs", jobs[0]["job_id"], "--standalone")
    assert details.stdout == "gpt-5 says: and tusks?\n"
    matches = json.loads(counsel("conversations", "search", "WALRUSES", "--json").stdout)["conversations"]
    assert [match["id"] for match in matches] == [name]
    conversation = counsel("conversations", "show", name)
    assert "about walruses" in conversation.stdout
    assert "gpt-5 says: and tusks?" in conversation.stdout
    usage = json.loads(counsel("usage", "--json").stdout)
    assert usage["total"]["calls"] == 2
    assert usage["groups"][0]["model"] == "openai/gpt-5"
    assert "openai/gpt-5" in counsel("usage", "--by", "model").stdout
    export = counsel("conversations", "export", name)
    assert export.returncode == 0, export.stderr
    assert (tmp_path / "project" / name / "2_request.txt").read_text() == "and tusks?"
    assert counsel("conversations", "delete", name, "nothing", "--yes").returncode == 1
    assert counsel("conversations", "show", name).returncode == 0, "all or none"
    assert counsel("conversations", "delete", name, "--json").returncode == 2  # a program says yes, too
    assert counsel("conversations", "show", name).returncode == 0
    assert counsel("conversations", "delete", name, "--yes").returncode == 0
    failure = json.loads(
        counsel("ask", f"no {marked(status=401)}", "-m", "gpt-5", "--standalone", "--json").stdout
    )
    nothing, job = counsel("conversations", "show", failure["conversation"]).stderr.splitlines()
    assert nothing == "The conversation has no messages yet."
    assert f"job {failure['job_id']} failed" in job
    assert json.loads(counsel("conversations", "list", "--json").stdout) == {"conversations": []}


def test_export_goes_where_the_person_says(
    counsel: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    result = counsel(
        "ask", "x", "-m", "gpt-5", "-c", "mine", "--export", str(tmp_path / "out"), "--standalone"
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "mine" / "1_response.txt").read_text() == "gpt-5 says: x"


def test_stdin_that_is_too_large_or_has_no_end_is_refused_with_both_numbers(
    counsel: Callable[..., subprocess.CompletedProcess[str]], env: dict[str, str], tmp_path: Path
) -> None:
    large = tmp_path / "large.txt"
    large.write_text("x" * 5_000)
    small = {**env, "COUNSEL_MAX_PROMPT_BYTES": "2000"}
    for command in (f"cat {large} |", f"< {large}", "yes |"):
        line = f"{command} {sys.executable} -m counsel ask - -m gpt-5 --standalone"
        result = subprocess.run(
            ["/bin/sh", "-c", line], check=False, env=small, capture_output=True, text=True, timeout=60
        )
        assert result.returncode != 0
        assert ("5,000" if "<" in command else "more than 2,000") in result.stderr
        assert "the limit is 2,000" in result.stderr
    assert not (tmp_path / "home" / "counsel.db").exists()


def test_stdin_of_exactly_the_most_bytes_is_asked(
    counsel: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    command = ("ask", "-", "-m", "gpt-5", "--standalone")
    exact = counsel(*command, stdin="x" * 2000, COUNSEL_MAX_PROMPT_BYTES="2000")
    assert exact.stdout == f"gpt-5 says: {'x' * 2000}\n"
    longer = counsel(*command, stdin="x" * 2001, COUNSEL_MAX_PROMPT_BYTES="2000")
    assert "more than 2,000" in longer.stderr


def test_a_background_job_without_a_daemon_runs_while_it_is_followed(
    counsel: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    fake_process.script(hang_after=-1, times=None)
    submission = counsel("ask", "hello", "-m", "gpt-5", "--background", "--standalone")
    job = submission.stdout.strip()
    assert "waiting" in counsel("jobs", "--standalone").stdout
    fake_process.reset()
    result = counsel("jobs", job, "--follow", "--standalone")
    assert (result.returncode, result.stdout) == (0, "gpt-5 says: hello\n")
