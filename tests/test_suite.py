"""`make test` repeats a few failed tests alone, and says so; a test that fails twice is a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import suite

pytestmark = pytest.mark.thorough  # left out of `make check`: each test is a run of pytest

ONCE = """
from pathlib import Path

def test_fails_once():
    mark = Path(__file__).with_suffix(".ran")
    first = not mark.exists()
    mark.touch()
    assert not first

def test_passes():
    with Path(__file__).with_suffix(".runs").open("a") as runs:
        runs.write("x")
"""
TWICE = "def test_fails():\n    assert False\n"
MANY = "import pytest\n\n@pytest.mark.parametrize('n', range(6))\ndef test_fails(n):\n    assert False\n"


def folder_with(tmp_path: Path, source: str) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_sample.py").write_text(source, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        pytest.param(ONCE, 0, "passed alone", id="fails-once"),
        pytest.param(TWICE, 1, "run again alone", id="fails-twice"),
    ],
)
def test_a_failure_gets_a_second_run(
    source: str, code: int, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert suite.run(["-q"], ["-p", "no:cov"], folder_with(tmp_path, source)) == code
    assert words in capfd.readouterr().out


def test_only_what_failed_runs_again(tmp_path: Path) -> None:
    assert suite.run(["-q"], ["-p", "no:cov"], folder_with(tmp_path, ONCE)) == 0
    assert (tmp_path / "test_sample.runs").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(MANY, 1, id="many-failures"),
        pytest.param("def broken(:\n", 2, id="not-collected"),
        pytest.param("", 5, id="no-tests"),
    ],
)
def test_what_is_broken_does_not_run_again(
    source: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert suite.run(["-q"], ["-p", "no:cov"], folder_with(tmp_path, source)) == code
    assert "again" not in capfd.readouterr().out


def test_what_is_missing_is_named_and_takes_the_floor_of_the_coverage_away(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs: list[list[str]] = []

    def run(_: list[str], options: list[str]) -> int:
        runs.append(options)
        return 0

    monkeypatch.setattr(suite, "run", run)
    monkeypatch.setattr(
        suite, "PROGRAMS", {"Emacs": (("no-such-program",), ()), "Python": ((sys.executable,), ())}
    )
    monkeypatch.delenv("CI", raising=False)
    assert suite.main() == 0
    assert "--cov-fail-under=0" in runs[-1]
    assert "Not installed, so their tests were skipped: Emacs." in capfd.readouterr().out
    monkeypatch.setenv("CI", "true")
    suite.main()
    assert "--cov-fail-under=0" not in runs[-1]
    monkeypatch.setattr(suite, "PROGRAMS", {})
    monkeypatch.delenv("CI")
    suite.main()
    assert "--cov-fail-under=0" not in runs[-1]
