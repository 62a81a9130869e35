"""`-f` as a person uses it: folders, patterns, several paths, files elsewhere; up to what a vendor receives."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from counsel import cli
from counsel.cli.questions import ask_files
from fake import FakeProcess
from support.user import Output, User

KEY = "sk-" + "k" * 40


@pytest.fixture
def person(user: User, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> User:
    for name in ask_files.AGENT_MARKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", fake_process.v1)
    user.command = "ask"
    (user.project / ".git").mkdir()
    write(user.project / "src/a.py", "AAA\n")
    write(user.project / "src/deep/b.py", "BBB\n")
    write(user.project / "src/deep/notes.md", "NOTES\n")
    write(user.project / "top.md", "TOP\n")
    write(user.home / "elsewhere.txt", "ELSEWHERE\n")
    return user


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def ask(person: User, *arguments: str) -> Output:
    return person.run("--standalone", "-m", "gpt-5", *arguments)


def sent_files(fake: FakeProcess) -> list[str]:
    """The names of the files that the vendor received."""
    return [name for call in fake.calls for name in re.findall(r'<file path="([^"]+)"', call["text"])]


def test_a_path_of_the_same_repository_is_sent_from_a_subfolder(
    person: User, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person.project / "src/deep")
    result = ask(person, "Why?", "-f", "../a.py", "-f", "../../top.md")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == ["src/a.py", "top.md"]


def test_a_typed_path_outside_is_sent(person: User, fake_process: FakeProcess) -> None:
    result = ask(person, "Why?", "-f", str(person.home / "elsewhere.txt"), "-f", "~/elsewhere.txt")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == [str(person.home / "elsewhere.txt")]


def test_a_link_of_the_project_that_leads_out_is_not_consent(person: User, fake_process: FakeProcess) -> None:
    (person.project / "README").symlink_to(person.home / "elsewhere.txt")
    (person.project / "docs").symlink_to(person.home)
    for name in ("README", "docs", "docs/elsewhere.txt", "docs/*.txt"):
        result = ask(person, "Why?", "-f", name, "--json")
        assert (result.code, result.json["code"]) == (1, "FILE_NOT_ALLOWED"), name
    assert "name the file itself" in result.err
    assert fake_process.calls == []


@pytest.mark.parametrize("mark", ask_files.AGENT_MARKS)
def test_a_command_that_an_agent_runs_has_no_consent(
    person: User, fake_process: FakeProcess, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.setenv(mark, "claude")
    monkeypatch.chdir(person.project / "src")
    for name in (str(person.home / "elsewhere.txt"), "../top.md", str(person.home), "../*.md"):
        result = ask(person, "Why?", "-f", name, "--json")
        assert (result.code, result.json["code"]) == (1, "FILE_NOT_ALLOWED"), name
    assert fake_process.calls == []


def test_a_secret_needs_its_own_option(person: User, fake_process: FakeProcess) -> None:
    write(person.project / ".env", "HUSH=1\n")
    refusal = ask(person, "Why?", "-f", ".env", "--json")
    assert (refusal.code, refusal.json["code"]) == (1, "FILE_NOT_ALLOWED")
    assert "--allow-secret" in refusal.json["hint"]
    assert fake_process.calls == []
    result = ask(person, "Why?", "-f", ".env", "--allow-secret")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == [".env"]


def test_a_folder_is_sent_without_what_does_not_belong_in_a_question(
    person: User, fake_process: FakeProcess
) -> None:
    src = person.project / "src"
    write(person.project / ".gitignore", "*.log\nbuild/\n")
    write(src / "debug.log", "LOG\n")
    write(src / "build/out.js", "OUT\n")
    write(src / "keep/.gitignore", "!debug.log\n")
    write(src / "keep/debug.log", "KEPT\n")
    write(src / ".env", "HUSH=1\n")
    write(src / "config.txt", f"key = {KEY}\n")
    write(src / "large.txt", "x" * (2 << 20))
    (src / "data.bin").write_bytes(b"\0" * 10)
    write(src / "node_modules/p/index.js", "JS\n")
    (src / "out").symlink_to(person.home / "elsewhere.txt")
    (src / "outside").symlink_to(person.home)
    (src / "again").symlink_to("a.py")
    os.mkfifo(src / "pipe")
    result = ask(person, "Why?", "-f", "src", "--allow-secret")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == ["src/a.py", "src/deep/b.py", "src/deep/notes.md", "src/keep/.gitignore", "src/keep/debug.log"]  # fmt: skip
    lines = [line for line in result.err.splitlines() if line.startswith("left out: ")]
    assert "left out: src/build, src/debug.log (ignored by .gitignore)" in lines
    assert "left out: src/out, src/outside (a link that leads out of the folder)" in lines
    assert "left out: src/.env (an environment file often holds keys)" in lines
    for name in ("config.txt", "large.txt", "data.bin", "node_modules"):
        assert any(line.startswith(f"left out: src/{name} (") for line in lines), name
    assert "HUSH" not in result.err + str(fake_process.calls)
    assert KEY not in result.err + fake_process.calls[0]["text"]


def test_a_pattern_is_sent(person: User, fake_process: FakeProcess) -> None:
    write(person.project / "src/.hidden.py", "HIDDEN\n")
    result = ask(person, "Why?", "-f", "src/**/*.py", "-f", "*.md", "-f", "src/deep/*.m[cd]{1:1}")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == ["src/a.py", "src/deep/b.py", "top.md", "src/deep/notes.md"]


def test_several_paths_may_follow_one_option(person: User, fake_process: FakeProcess) -> None:
    result = ask(person, "-f", "src/a.py", "top.md", "src/deep/b.py{1:1}", "Why does it fail?")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == ["src/a.py", "top.md", "src/deep/b.py"]
    assert fake_process.calls[0]["text"].startswith("Why does it fail?")


def test_a_file_whose_name_has_the_signs_of_a_pattern_is_that_file(
    person: User, fake_process: FakeProcess
) -> None:
    write(person.project / "[id].tsx", "PAGE\n")
    result = ask(person, "Why?", "-f", "[id].tsx")
    assert result.code == 0, result.err
    assert sent_files(fake_process) == ["[id].tsx"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("src/*.java", "has no file to send"),
        ("empty", "has no file to send"),
        ("none/*.py", "is not a folder"),
        ("none", "does not exist"),
    ],
)
def test_nothing_to_send_is_an_error(person: User, fake_process: FakeProcess, name: str, words: str) -> None:
    (person.project / "empty").mkdir()
    result = ask(person, "Why?", "-f", name)
    assert result.code == 1
    assert words in result.err
    assert fake_process.calls == []


def test_more_files_than_the_limit_are_an_error_and_not_a_part_of_them(
    person: User, fake_process: FakeProcess
) -> None:
    for number in range(101):
        write(person.project / f"many/{number}.txt", "x")
    result = ask(person, "Why?", "-f", "many")
    assert result.code == 1
    assert "has 101 files; the limit is 100" in result.err
    assert fake_process.calls == []


def test_quiet_prints_the_answer_and_nothing_else(person: User) -> None:
    write(person.project / "src/.env", "HUSH=1\n")
    result = ask(person, "Why?", "-f", "src", "-q")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("gpt-5 says: Why?")
    failure = ask(person, "Why?", "-f", "none", "-q")
    assert failure.err.startswith("error: none does not exist.")


def test_a_missing_file_is_named_once(
    person: User, fake_process: FakeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(person.project / "none")
    for command in (
        ("ask", "Why?", "-m", "gpt-5", "-f", path, "--standalone"),
        ("review", "--diff", path, "--standalone"),
        ("images", "add", "none"),
    ):
        assert cli.run([*command]) != 0
        assert capsys.readouterr().err.count(path) == 1
    relative = ask(person, "Why?", "-f", "none")
    assert f"error: none does not exist.\n  Looked for {path}.\n" in relative.err


def test_the_daemon_gets_the_consent_with_the_request(person: User) -> None:
    """What `--standalone` sends, the daemon sends: the caller's document carries the typed paths and nothing else."""
    from counsel import caller
    from counsel.daemon import rpc_server

    path = str(person.home / "elsewhere.txt")
    attachments = ask_files.attach([path, "src/*.py"], [], caller.local_caller("cli"), allow_secret=True)
    daemon_caller = rpc_server.caller_from_json(
        json.loads(json.dumps(rpc_server.caller_to_json(attachments.caller)))
    )
    assert daemon_caller.consented_files == (Path(path), person.project / "src/a.py")
    assert daemon_caller.consented_secrets == (Path(path),)


def test_a_pattern_has_at_most_as_many_characters_as_a_path(tmp_path: Path) -> None:
    longest = f"{tmp_path}/".ljust(4096, "*")
    assert ask_files.is_path(longest, tmp_path)
    assert not ask_files.is_path(f"{longest}*", tmp_path)
