"""Ids as people type them: a unique beginning or `last`, in every command that takes one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from counsel import cli
from fake import FakeProcess
from support.seeded import Seed, seed
from support.user import Output

pytestmark = pytest.mark.thorough  # left out of `make check`: takes long

Run = Callable[..., Output]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def counsel(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    for name in [name for name in os.environ if name.startswith(("COUNSEL", "CLIENT_CWD", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)
    (tmp_path / "home").mkdir()

    def run(*arguments: str) -> Output:
        needs = arguments[0] in {"jobs", "cancel", "ask", "consensus"}
        code = cli.run([*arguments, *(("--standalone",) if needs else ())])
        streams = capsys.readouterr()
        return Output(code, streams.out, streams.err)

    return run


@pytest.fixture
def vendors(fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000000000000000000000")
    monkeypatch.setenv("OPENAI_BASE_URL", fake_process.v1)
    return fake_process


def seeds(project: Path) -> tuple[Seed, ...]:
    return (
        Seed("7f3a1c2d", "9be01234", project, "Is it safe?", "It is safe.", age=300),
        Seed("7f3a9999", "9be0ffff", project, "Another one", "The newest here.", age=200),
        Seed("00aa00aa", "review", project, "A named one", "Reviewed.", age=250),
        Seed("11bb11bb", "22cc22cc", project.parent, "Elsewhere", "Not here.", age=10),
    )


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("jobs", "{}"),
    ("jobs", "{}", "--follow"),
    ("jobs", "{}", "--history"),
    ("jobs", "{}", "--json"),
    ("conversations", "show", "{}"),
    ("conversations", "show", "{}", "--json"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_unique_beginning_is_enough(
    counsel: Run, project: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    seed(tmp_path / "home", *seeds(project))
    for name, answer in (
        ("job_7f3a1c2d-0000-4000-8000-000000000000", "It is safe."),
        ("7f3a1", "It is safe."),
        ("job_7f3a1", "It is safe."),
        ("7F3A9", "The newest here."),
        ("conv_9be01", "It is safe."),
        ("9be0f", "The newest here."),
        ("review", "Reviewed."),
        ("rev", "Reviewed."),
        ("last", "The newest here."),
    ):
        result = counsel(*(part.format(name) for part in command))
        assert result.code == 0, (name, result.err)
        assert answer in result.out, name


@pytest.mark.parametrize(
    "command", [*COMMANDS, ("cancel", "{}"), ("conversations", "delete", "{}", "--yes")], ids=" ".join
)
def test_an_ambiguous_beginning_lists_what_it_could_be(
    counsel: Run, project: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    seed(tmp_path / "home", *seeds(project))
    is_conversation = command[0] == "conversations"
    beginning = "9be0" if is_conversation else "7f3a"
    result = counsel(*(part.format(beginning) for part in command))
    assert result.code == 2
    ids = re.findall(r"(?:job|conv)_[0-9a-f-]{36}", result.err)
    full_ids = [job.conversation_id if is_conversation else job.job_id for job in seeds(project)[:2]]
    assert sorted(ids) == full_ids
    assert "Another one" in result.err
    if "--json" in command:
        assert sorted(json.loads(result.out)["candidates"]) == full_ids


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        ("cancel", "{}"),
        ("conversations", "delete", "{}", "--yes"),
        ("conversations", "export", "{}"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["dddd", "nothing", "job_dddddddd-0000-4000-8000-000000000000"])
def test_an_unknown_id_is_named_with_the_command_that_lists_the_others(
    counsel: Run, project: Path, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    seed(tmp_path / "home", *seeds(project))
    result = counsel(*(part.format(name) for part in command))
    assert result.code == 1
    assert name in result.err
    assert f"`counsel {'conversations' if command[0] == 'conversations' else 'jobs'}`" in result.err
    assert "check_status" not in result.err + result.out


def test_nothing_is_changed_by_a_few_letters_or_none(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project), Seed("33dd33dd", "abc", project))
    for command in (("cancel",), ("conversations", "delete", "--yes")):
        for name in ("", " ", "7", "9be", "rev", "conv_", "job_", "c", "job"):
            assert counsel(*command, name).code == 2, name
    assert len(json.loads(counsel("conversations", "--json").out)["conversations"]) == 5
    assert counsel("conversations", "delete", "abc", "revi", "--yes").code == 0, "exact, and long enough"
    conversations = json.loads(counsel("conversations", "--json").out)["conversations"]
    assert {row["id"] for row in conversations} == {row.conversation_id for row in seeds(project)} - {
        "review"
    }


def test_deleting_the_last_one_takes_this_folders(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project))
    result = counsel("conversations", "delete", "last", "--yes", "--json")
    assert json.loads(result.out) == {"deleted": [seeds(project)[1].conversation_id]}


def test_export_takes_a_beginning(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project))
    result = counsel("conversations", "export", "9be01", str(tmp_path / "out"), "--json")
    full_id = seeds(project)[0].conversation_id
    assert json.loads(result.out) == {"id": full_id, "folder": str(tmp_path / "out" / full_id)}


def test_cancel_last_means_what_runs_here(counsel: Run, project: Path, tmp_path: Path) -> None:
    seed(tmp_path / "home", *seeds(project))
    result = counsel("cancel", "last")
    assert (result.code, "No job is running in this folder." in result.err) == (1, True)
    result = counsel("cancel", "7f3a1")
    assert (result.code, result.err) == (0, f"Nothing to stop: {seeds(project)[0].job_id} is done.\n")


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "last"),
        ("jobs", "--follow"),
        ("cancel", "last"),
        ("conversations", "show", "last"),
        ("ask", "x", "-c", "last"),
    ],
    ids=" ".join,
)
def test_an_empty_home_is_reported_with_what_to_do(counsel: Run, command: tuple[str, ...]) -> None:
    result = counsel(*command)
    assert result.code == 1
    assert "yet" in result.err
    assert "`counsel ask" in result.err


def test_a_database_that_cannot_be_read_causes_no_crash(counsel: Run, tmp_path: Path) -> None:
    (tmp_path / "home" / "counsel.db").write_bytes(b"not a database" * 500)
    result = counsel("conversations", "show", "9be01")
    assert result.code == 1
    assert "no conversation" in result.err


# ── continuing ───────────────────────────────────────────────────────────────────────────────────────


def test_ask_continues_the_newest_conversation_of_this_folder(
    counsel: Run, vendors: FakeProcess, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json.loads(counsel("ask", "one", "-m", "gpt-5", "--json").out)
    name = first["conversation"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert counsel("ask", "x", "-c", "last").code == 1, "this folder has none"
    assert len(vendors.calls) == 1
    counsel("ask", "another", "-m", "gpt-5")
    (project / "sub").mkdir()
    (project / ".git").mkdir()
    monkeypatch.chdir(project / "sub")  # of the same repository
    for arguments in (
        ("two", "-c", "last"),
        ("--continue", "And three?"),
        ("four", "--continue"),
        ("-c", "--json", "five"),
        ("six", "-c", name[:12]),
        ("seven", "-c", name.removeprefix("conv_")[:8]),
        ("eight", "-c", first["id"]),
    ):
        result = counsel("ask", *arguments, *(() if "--json" in arguments else ("--json",)))
        assert json.loads(result.out).get("conversation") == name, (arguments, result)
        assert result.err == ""
    conversation = json.loads(counsel("conversations", "show", "last", "--json").out)
    assert [message["content"] for message in conversation["history"] if message["role"] == "user"] == [
        "one", "two", "And three?", "four", "five", "six", "seven", "eight",
    ]  # fmt: skip
    reply = counsel("ask", "nine", "-c", "last")
    assert f"Continuing {name.removeprefix('conv_')[:8]}: one" in reply.err


def test_digits_alone_are_a_beginning_only_with_their_kind_in_front(
    counsel: Run, vendors: FakeProcess, tmp_path: Path, project: Path
) -> None:
    seed(tmp_path / "home", Seed("16190000", "16192024", project))
    for text in ("conv_1619", "job_1619", "16192024"):
        result = counsel("ask", "more", "-m", "gpt-5", "-c", text)
        assert (result.code, "Continuing 16192024" in result.err) == (0, True), (text, result)
    assert "Starting a new conversation: 1619\n" in counsel("ask", "more", "-m", "gpt-5", "-c", "1619").err


def test_a_new_name_says_that_it_starts_a_conversation(counsel: Run, vendors: FakeProcess) -> None:
    for command in (("ask", "x", "-m", "gpt-5"), ("consensus", "x", "-m", "gpt-5", "-m", "gpt-5")):
        name = f"my-{command[0]}"
        first = counsel(*command, "-c", name)
        assert (first.code, f"Starting a new conversation: {name}\n" in first.err) == (0, True)
        again = counsel(*command, "-c", name)
        assert (again.code, "Starting" in again.err) == (0, False)
    assert counsel("ask", "x", "-m", "gpt-5", "-c", "other", "--json").err == ""
    assert vendors.calls


def test_consensus_continues_the_last_one(counsel: Run, vendors: FakeProcess) -> None:
    first = json.loads(counsel("ask", "one", "-m", "gpt-5", "--json").out)
    models = ("-m", "gpt-5", "-m", "gpt-5-mini", "--no-feedback", "--json")
    result = json.loads(counsel("consensus", "--continue", "And two?", *models).out)
    assert result["conversation"] == first["conversation"]
    assert "one" in json.dumps(vendors.calls[-1]["body"])


def test_names_that_look_like_numbers_or_commits_stay_names(
    counsel: Run, vendors: FakeProcess, project: Path, tmp_path: Path
) -> None:
    seed(tmp_path / "home", Seed("55ee55ee", "12345678", project))
    for name in ("123", "1234", "abc", "beefbeef"):
        result = json.loads(counsel("ask", "x", "-m", "gpt-5", "-c", name, "--json").out)
        assert result["conversation"] == name
    failure = counsel("ask", "x", "-m", "gpt-5", "-c", "conv_dddd")
    assert (failure.code, "no conversation 'conv_dddd'" in failure.err) == (1, True)
    assert len(vendors.calls) == 4


@pytest.mark.parametrize("arguments", [("-c", ""), ("why", "-c", "two words")])
def test_a_value_that_names_no_conversation_is_refused(
    counsel: Run, vendors: FakeProcess, arguments: Any
) -> None:
    assert counsel("ask", "x" if arguments[0] == "-c" else arguments[0], *arguments[-2:]).code != 0
    assert vendors.calls == []


# ── following ────────────────────────────────────────────────────────────────────────────────────────


def test_following_without_an_id_takes_the_job_that_runs(
    counsel: Run, vendors: FakeProcess, project: Path
) -> None:
    vendors.script(text="The slow answer.", gate="slow", contains="slow")
    with running_command(project, "ask", "slow", "-m", "gpt-5") as slow:
        vendors.wait_for(contains="slow", timeout=60)
        while "slow" not in counsel("jobs").out:  # a foreground job is on disk after 200 ms
            pass
        assert counsel("ask", "quick", "-m", "gpt-5").code == 0, "newer, and done"
        with running_command(project, "jobs", "--follow") as following:
            assert following.stderr is not None
            line = following.stderr.readline()
            vendors.open_gate("slow")
            out, _ = following.communicate(timeout=60)
        slow.communicate(timeout=60)
    assert re.fullmatch(r"job job_[0-9a-f-]{36}: slow\n", line)
    assert (following.returncode, out) == (0, "The slow answer.\n")
    assert counsel("jobs", "--follow").out.endswith("quick\n"), "none runs: the newest"


@contextmanager
def running_command(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "counsel", *arguments, "--standalone"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
