"""`counsel review` as a person or a CI runs it, on a real repository: its outputs and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from counsel import cli
from counsel.cli.questions.review import ReviewBoard
from counsel.cli.terminal import rich_rows
from counsel.job_events import ModelStarted, TextAdded
from fake import FakeProcess
from support import planted
from support.client_programs import ROOT, missing
from support.stdio_client import SHORT_LIVED, kill_daemon

pytestmark = pytest.mark.thorough  # left out of `make check`: takes long

Run = Callable[..., "Result"]
PANEL = ("-m", ",".join(planted.MODELS), "--standalone")
TEXT = """\
8 findings (1 disputed) in 2 files: working tree against HEAD. Reviewed by
gpt-5, sonnet, gemini-2.5-flash.

CRITICAL  store.py:13  (agreed)
  SQL injection through name
  The name is put into the SQL text, so a quote in it ends the string: name = "'
  OR 1=1 --" returns a user.
  Fix: Pass name as a parameter.
  Found by gpt-5, sonnet, gemini-2.5-flash (gpt-5: critical, sonnet: high,
  gemini-2.5-flash: critical).

HIGH  store.py:24  (confirmed)
  The first price is skipped
  range(1, len(prices)) starts at the second entry, so total([5]) is 0.
  Fix: Iterate over prices.
  Found by gpt-5.
  sonnet checked it: confirmed. Index 0 is never read.

HIGH  tokens.py:5  (confirmed)
  A prefix of the token is accepted
  zip stops at the shorter one, so an empty token is valid.
  Fix: Compare lengths, or use hmac.compare_digest.
  Found by gemini-2.5-flash.
  gpt-5 checked it: confirmed. all of zip('', x) is empty.

MEDIUM  store.py:18  (confirmed)
  The opened file is never closed
  open(path).read() leaves the handle to the garbage collector.
  Fix: Use a with statement.
  Found by gpt-5, sonnet (gpt-5: medium, sonnet: low).
  gemini-2.5-flash checked it: confirmed. Line 18 has no close.

MEDIUM  store.py:38  (confirmed, outside the change)
  last_page is empty for a multiple of 20 items
  len(items) // 20 is one too high then.
  Found by gemini-2.5-flash.
  gpt-5 checked it: confirmed. 20 // 20 is page 1, which is empty.

MEDIUM  store.py:16  (unsure)
  Mutable default argument is shared by all callers
  cache={} is made once, when the function is defined.
  Fix: Default to None.
  Found by sonnet.
  gpt-5 checked it: unsure. That may be intended: it is a cache.

LOW  cache.py:3  (unsure, no such file or line)
  The cache has no limit
  It grows with every path.
  Found by gpt-5.
  sonnet checked it: unsure. cache.py is not shown.

LOW  tokens.py:7  (disputed)
  time.sleep(0) blocks the event loop
  It suspends the thread.
  Found by gemini-2.5-flash.
  gpt-5 checked it: disputed. sleep(0) returns at once, and there is no loop.
"""


@pytest.fixture(scope="module")
def vendor() -> Iterator[FakeProcess]:
    with FakeProcess() as fake:
        yield fake


@pytest.fixture
def fake_process(vendor: FakeProcess) -> FakeProcess:
    vendor.reset()
    return vendor


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.repository(tmp_path_factory.mktemp("template") / "project", commit=True)


@pytest.fixture
def project(tmp_path: Path, template: Path) -> Path:
    """On the branch `change`, whose last commit has the defects."""
    return Path(shutil.copytree(template, tmp_path / "project"))


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
        "GOOGLE_API_KEY": "test-key",
        "GOOGLE_GEMINI_BASE_URL": fake_process.url,
    }


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(
    env: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs in this process: a separate one takes a second on a busy machine."""
    for name in list(os.environ):
        if name not in {"PATH", "CI"} and not name.startswith("PYTEST"):
            monkeypatch.delenv(name)

    def start(*arguments: str) -> Result:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path / "project")
        code = cli.run(arguments)
        return Result(code, *capsys.readouterr())

    return start


@pytest.fixture
def process(env: dict[str, str], tmp_path: Path) -> Run:
    def start(*arguments: str, stdin: str = "") -> Result:
        result = subprocess.run(
            [sys.executable, "-m", "counsel", *arguments],
            check=False,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path / "project",
        )
        return Result(result.returncode, result.stdout, result.stderr)

    return start


@pytest.fixture
def repository(project: Path, fake_process: FakeProcess) -> Path:
    """The defects are in the working tree, and the panel finds them."""
    planted.script(fake_process)
    planted.git(project, "reset", "-q", "--soft", "HEAD^")
    planted.git(project, "reset", "-q")
    return project


def test_the_text_reads_well_at_80_columns(run: Run, repository: Path) -> None:
    (repository / "notes.txt").write_text("untracked")
    result = run("review", *PANEL)
    assert result.returncode == 0
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert result.stdout == TEXT
    assert "Reviewing working tree against HEAD: 2 files." in result.stderr
    assert "Not included: 1 untracked file (notes.txt)" in result.stderr
    assert "sonnet: reviewing …" in result.stderr
    assert "gemini-2.5-flash: checking findings …" in result.stderr


def test_the_board_of_a_review_is_as_small_as_its_text() -> None:
    board = ReviewBoard()
    for slot, model in enumerate(planted.MODELS):
        board.add(ModelStarted(slot, 0.0, str(slot), model, "review"))
        board.add(TextAdded(slot, 0.0, str(slot), '{"severity": "high"} {"severity"', 0, "review"))
    lines = [row.text for row in rich_rows.render(Console(width=80), board.render(80, 24), 80)]
    assert len(lines) == 6, "two rows of boxes with one line each"
    assert lines[1].count("2 findings so far") == 2
    assert "reviewing" in lines[2]


def test_a_job_shows_the_review_and_says_the_same(run: Run, repository: Path) -> None:
    job = json.loads(run("review", *PANEL, "--json").stdout)["id"]
    assert run("jobs", job, "--standalone").stdout == TEXT
    document = json.loads(run("jobs", job, "--json", "--standalone").stdout)
    assert (document["tool"], document["verdict"], len(document["findings"])) == (
        "review",
        "review_complete",
        8,
    )
    row = json.loads(run("jobs", "--json", "--standalone").stdout)["jobs"][0]
    assert (row["tool"], row["completed"], row["total"]) == ("review", 3, 3)


def test_a_background_review_in_the_daemon_is_followed_and_stopped(
    process: Run, repository: Path, env: dict[str, str]
) -> None:
    env |= SHORT_LIVED
    try:
        job = process("review", "-m", ",".join(planted.MODELS), "--background").stdout.strip()
        assert process("jobs", job, "--follow").stdout == TEXT
        assert "Nothing to stop" in process("cancel", job).stderr
    finally:
        kill_daemon(Path(env["COUNSEL_HOME"]))


def test_json_is_one_document(run: Run, repository: Path) -> None:
    document = json.loads(run("review", *PANEL, "--json").stdout)
    assert document["status"] == "review_complete"
    assert document["files"] == ["store.py", "tokens.py"]
    assert [entry["model"] for entry in document["reviewers"]] == list(planted.MODELS)
    assert document["cost_usd"] > 0


def sarif_schema() -> Any:
    """The OASIS schema from a Microsoft package (`make clients`): this repository has no third-party files."""
    package = ROOT / ".cache" / "conformance" / "node_modules" / "@microsoft" / "jest-sarif"
    path = package / "lib" / "schemas" / "sarif-2.1.0-rtm.5.json"
    if not path.exists():
        missing(f"{path} does not exist: run `make clients`")
    return json.loads(path.read_text())


def test_sarif_is_valid_and_has_every_finding(run: Run, repository: Path) -> None:
    result = run("review", *PANEL, "--sarif", "out.sarif")
    assert result.stdout == TEXT
    document = json.loads((repository / "out.sarif").read_text())
    schema = sarif_schema()
    jsonschema.Draft7Validator(schema).validate(document)
    (sarif_run,) = document["runs"]
    results = {entry["message"]["text"].split("\n")[0]: entry for entry in sarif_run["results"]}
    assert len(results) == 7
    rules = sarif_run["tool"]["driver"]["rules"]
    assert all(rules[entry["ruleIndex"]]["id"] == entry["ruleId"] for entry in sarif_run["results"])
    sql = results["SQL injection through name"]
    place = sql["locations"][0]["physicalLocation"]
    assert (sql["level"], place["artifactLocation"]["uri"], place["region"]["startLine"]) == (
        "error",
        "store.py",
        13,
    )
    # GitHub refuses a whole document if one result has no location
    (notification,) = sarif_run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("cache.py:3 does not exist: The cache has no limit")
    assert results["time.sleep(0) blocks the event loop"]["suppressions"][0]["kind"] == "external"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**document, "version": "2"})


def test_github_annotations_are_escaped(run: Run, repository: Path) -> None:
    lines = run("review", *PANEL, "--github").stdout.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith(
        "::error file=store.py,line=13,endLine=13,title=critical (agreed)::SQL injection through name%0A%0A"
    )
    assert lines[-1].startswith("::notice file=tokens.py,line=7,endLine=7,title=low (disputed)::")
    assert not [line for line in lines if "cache.py" in line.split("::")[1]]


@pytest.mark.parametrize(
    "options", [(), ("--json",), ("--sarif", "-"), ("--github",)], ids=lambda options: options[:1]
)
def test_no_text_of_a_model_and_no_file_name_commands_githubs_runner(
    run: Run, repository: Path, fake_process: FakeProcess, env: dict[str, str], options: tuple[str, ...]
) -> None:
    """The runner executes every line of a log that begins with `::`, and every `##[` in one."""
    hostile = "::add-mask::x\n \t::stop-commands::y\r::error::z ##[group]all"
    finding = planted.finding("store.py", 13, "high", f"A claim\n{hostile}", hostile, hostile)
    fake_process.reset()
    fake_process.script(
        vendor="openai-responses",
        contains="Review this",
        text=json.dumps({"findings": [finding]}),
        times=None,
    )
    fake_process.script(vendor="anthropic", status=400, message=hostile, times=None)
    fake_process.script(text='{"findings": [], "verdicts": []}', times=None)
    for name in ("\n::warning::binary", "##[debug]binary"):
        (repository / name).write_bytes(b"\0")
    planted.git(repository, "add", ".")
    env["GITHUB_ACTIONS"] = "true"
    result = run("review", *PANEL, *options)
    assert result.returncode == 0
    lines = re.split(r"[\r\n]", f"{result.stdout}\n{result.stderr}")
    commands = [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    expected = (
        ["::error file=store.py", "::warning title=counsel review::"] if options == ("--github",) else []
    )
    assert [line.startswith(start) for line, start in zip(commands, expected, strict=True)] == [True] * len(
        expected
    )
    assert "stop-commands" in result.stdout
    if options in {("--json",), ("--sarif", "-")}:
        assert "##[group]all" in str(json.loads(result.stdout))
    env["GITHUB_ACTIONS"] = ""
    assert options or "\n  ::add-mask::x" in run("review", *PANEL).stdout, "elsewhere it is text"


def test_fail_on_sets_the_exit_code(run: Run, repository: Path) -> None:
    assert run("review", *PANEL, "--fail-on", "critical").returncode == 1
    assert run("review", *PANEL, "--fail-on", "info").returncode == 1


def test_disputed_findings_and_those_without_a_place_do_not_fail_unless_asked(
    run: Run, project: Path, fake_process: FakeProcess
) -> None:
    only = planted.FINDINGS[2][3], planted.FINDINGS[0][3]  # disputed; in a file that does not exist
    text = json.dumps({"findings": only})
    fake_process.script(vendor="gemini", contains="Review this change", text=text, times=None)
    fake_process.script(contains="Review this change", text='{"findings": []}', times=None)
    fake_process.script(contains="Check these findings", text=planted.checks(), times=None)
    assert run("review", *PANEL, "--fail-on", "info").returncode == 0
    assert run("review", *PANEL, "--fail-on", "info", "--fail-on-disputed").returncode == 1


def test_a_review_that_fails_has_an_exit_code_of_its_own(
    run: Run, project: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(status=401, times=None)
    result = run("review", *PANEL, "--json", "--fail-on", "high")
    assert result.returncode == 3
    assert json.loads(result.stdout)["code"] == "UPSTREAM_ERROR"
    assert run("review", "no-such-branch", *PANEL).returncode == 3
    assert run("review", "-m", "no-such-model", "--standalone").returncode == 3


def test_quiet_shows_why_a_review_failed(run: Run, project: Path) -> None:
    result = run("review", "no-such-branch", "-q", *PANEL)
    assert (result.returncode, result.stdout) == (3, "")
    assert "There is no commit 'no-such-branch'" in result.stderr


def test_text_that_is_not_a_diff_is_not_taken_for_an_empty_diff(run: Run, repository: Path) -> None:
    (repository / "stat.txt").write_text(planted.git(repository, "diff", "--stat"))
    result = run("review", "--diff", "stat.txt", *PANEL, "--fail-on", "high")
    assert (result.returncode, result.stdout) == (3, "")
    assert "stat.txt is not a unified diff" in result.stderr


def test_a_sarif_file_that_cannot_be_written_is_refused_before_anything_is_sent(
    run: Run, repository: Path, fake_process: FakeProcess
) -> None:
    assert run("review", *PANEL, "--sarif", "no/such/folder.sarif").returncode == 2
    assert fake_process.calls == []


def test_findings_at_impossible_places(run: Run, repository: Path, fake_process: FakeProcess) -> None:
    raw_findings = [
        planted.finding("../../etc/passwd", 1, "high", "Outside of the repository", "x"),
        planted.finding("tokens.py", -3, "low", "A negative line", "x"),
        {**planted.finding("tokens.py", 2, "low", "Ends too late", "x"), "end_line": 4_000},
        planted.finding("tokens.py", 900, "high", "Behind the end", "x"),
    ]
    fake_process.reset()
    fake_process.script(
        vendor="gemini", contains="Review this change", text=json.dumps({"findings": raw_findings})
    )
    fake_process.script(contains="Review this change", text='{"findings": []}', times=None)
    result = run("review", *PANEL, "--json", "--fail-on", "high")
    findings = {entry["title"]: entry for entry in json.loads(result.stdout)["findings"]}
    places = {
        title: (finding["line"], finding["end_line"], finding["location"])
        for title, finding in findings.items()
    }
    assert places == {
        "Outside of the repository": (1, 1, "missing"),
        "A negative line": (None, None, "diff"),
        "Ends too late": (2, 9, "diff"),
        "Behind the end": (900, 900, "missing"),
    }
    assert result.returncode == 0


def test_options_that_cannot_be_combined_are_bad_usage(run: Run, repository: Path) -> None:
    for options in (
        ("main", "--staged"),
        ("--staged", "--diff", "x"),
        ("--json", "--github"),
        ("--json", "--sarif", "-"),
        ("--fail-on-disputed",),
        ("--background", "--fail-on", "high"),
        ("--fail-on", "awful"),
    ):
        assert run("review", *options).returncode == 2, options


def test_a_diff_from_standard_input_or_a_file(run: Run, process: Run, repository: Path) -> None:
    diff = planted.git(repository, "diff")
    planted.git(repository, "checkout", "-q", ".")
    result = process("review", "--diff", "-", *PANEL, "--json", stdin=diff)
    assert json.loads(result.stdout)["about"] == "the diff on standard input"
    (repository / "change.diff").write_text(diff)
    assert json.loads(run("review", "--diff", "change.diff", *PANEL, "--json").stdout)["files"] == [
        "store.py",
        "tokens.py",
    ]


def test_a_diff_that_was_cut_off_says_so(run: Run, repository: Path) -> None:
    diff = planted.git(repository, "diff")
    (repository / "cut.diff").write_text(diff[: diff.rindex("\n+    return True")])
    result = run("review", "--diff", "cut.diff", *PANEL, "--json")
    document = json.loads(result.stdout)
    assert document["files"] == ["store.py", "tokens.py"]
    reason = "one of its hunks has fewer lines than the header says"
    assert document["left_out"] == [{"file": "tokens.py", "reason": reason}]
    assert f"Not reviewed: tokens.py: {reason}." in document["content"]
    assert f"Not reviewed: tokens.py: {reason}." in result.stderr
    (repository / "whole.diff").write_text(diff)
    assert json.loads(run("review", "--diff", "whole.diff", *PANEL, "--json").stdout)["left_out"] == []


def test_nothing_to_review_is_not_a_failure_and_asks_nobody(
    run: Run, repository: Path, fake_process: FakeProcess
) -> None:
    planted.git(repository, "checkout", "-q", ".")
    result = run("review", *PANEL, "--sarif", "-", "--fail-on", "info")
    assert result.returncode == 0
    assert "Nothing to review (working tree against HEAD): no changes." in result.stderr
    document = json.loads(result.stdout)
    jsonschema.Draft7Validator(sarif_schema()).validate(document)
    assert document["runs"][0]["results"] == []
    review = json.loads(run("review", *PANEL, "--json").stdout)
    assert (review["findings"], review["content"]) == ([], "Nothing to review: working tree against HEAD.")
    (repository / "uv.lock").write_text("version = 1\n")
    planted.git(repository, "add", "uv.lock")
    assert "HEAD): the only changed file was left out." in run("review", *PANEL).stderr
    (repository / "store.py").unlink()
    (repository / "store.py").symlink_to("/etc/passwd")
    result = run("review", *PANEL)
    assert result.stderr.count("Not reviewed: store.py") == 1, "git shows a new type as two changes"
    assert "HEAD): all 2 changed files were left out." in result.stderr
    assert fake_process.calls == []


def test_a_branch_is_compared_with_its_merge_base(run: Run, project: Path, fake_process: FakeProcess) -> None:
    planted.script(fake_process)
    (project / "store.py").write_text("x = 1\n")
    result = run("review", "main", *PANEL, "--json")
    assert json.loads(result.stdout)["files"] == ["store.py", "tokens.py"]
    assert "Uncommitted changes are not included." in result.stderr
    planted.git(project, "checkout", "-q", ".")
    assert "Reviewing HEAD since it branched off main" in run("review", *PANEL).stderr


def test_what_a_review_leaves_out_is_reported(run: Run, repository: Path, fake_process: FakeProcess) -> None:
    planted.write(
        repository,
        {
            ".env": "PASSWORD=hunter22\n",
            "uv.lock": "version = 1\n",
            "made.py": "# Code generated by protoc. DO NOT EDIT.\nx = 1\n",
            "node_modules/x/index.js": "x\n",
        },
    )
    (repository / "logo.png").write_bytes(b"\x89PNG\0\1")
    planted.git(repository, "add", "-f", ".")
    result = run("review", "--staged", *PANEL, "--json")
    reasons = {entry["file"]: entry["reason"] for entry in json.loads(result.stdout)["left_out"]}
    assert reasons == {
        ".env": "an environment file often holds keys",
        "uv.lock": "it is a lock file",
        "made.py": "it is generated",
        "logo.png": "it is binary",
        "node_modules/x/index.js": "it is third-party code",
    }
    assert "Not reviewed: .env: an environment file often holds keys." in result.stderr
    assert "hunter22" not in json.dumps([request["body"] for request in fake_process.calls])
