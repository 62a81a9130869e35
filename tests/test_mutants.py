"""`make mutants`: its mutations, its reproducible sample, and that every excused mutant still exists."""

from __future__ import annotations

import ast
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tools.mutants import equivalent, reach, report, unreached
from tools.mutants.checkout import Checkout
from tools.mutants.mutations import Mutant, mutants
from tools.mutants.packages import PACKAGES, SOURCE, STARTED_BY, source_files
from tools.mutants.packages import test_files as files_of_tests
from tools.mutants.reach import ReachingTest, reaching
from tools.mutants.sample import every, sample
from tools.mutants.trial import TIME_LIMIT, Outcome, run


def changes(tmp_path: Path, text: str) -> set[tuple[str, str]]:
    file = tmp_path / "module.py"
    file.write_text(textwrap.dedent(text))
    return {(mutant.original, mutant.mutated) for mutant in mutants(file, tmp_path)}


def of_lines(tmp_path: Path, *lines: str) -> set[str]:
    return {
        mutation
        for _, mutation in changes(tmp_path, "def f():\n" + "".join(f"    {line}\n" for line in lines))
    }


def test_protocols_are_left_alone(tmp_path: Path) -> None:
    text = """
        class Store(Protocol[T]):
            def jobs(self, limit: int = 50) -> int: ...
        class Kept:
            def jobs(self, limit: int = 40) -> int:
                return self.kept
    """
    assert {mutation for _, mutation in changes(tmp_path, text)} == {
        "def jobs(self, limit: int = 0) -> int:",
        "return None",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a == 'b'", {"x = a != 'b'", 'x = a == ""'}),
        ("x = a is None", {"x = a is not None"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = bool(a)"}),
        ("x = a + b", {"x = a - b"}),
        ("x = a + 'text'", set()),
        ("x = [0, 5, True]", {"x = [1, 5, True]", "x = [0, 0, True]", "x = [0, 5, False]"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if not (c)]"}),
        ("x = a['key']", {'x = a[""]'}),
        ("self.x = a", {"pass"}),
        ("x += a", {"pass"}),
        ("call(a)", {"pass"}),
        ("await call(a)", {"pass"}),
        ("return a", {"return None"}),
        ("raise Error('words')", {"pass"}),
        ("log.info('words %s', a == b)", set()),
        ("x = call(help='words', strict=True)", set()),
        ('"""A docstring."""', set()),
        ("x: int = a", set()),
        ("return None", set()),
        ("assert a == b", set()),
        ("é = 'é' == a", {"é = 'é' != a", 'é = "" == a'}),
    ],
)
def test_a_line_offers_these_changes(tmp_path: Path, line: str, expected: set[str]) -> None:
    text = f"async def f():\n    {line}\n"
    (tmp_path / "module.py").write_text(text)
    assert {mutant.mutated for mutant in mutants(tmp_path / "module.py", tmp_path)} == expected


def test_branches_loops_and_handlers_are_looked_into(tmp_path: Path) -> None:
    assert of_lines(tmp_path, "if a:", "    b()", "else:", "    c()") == {"if not (a):", "pass"}
    assert of_lines(tmp_path, "for a in b:", "    continue") == {"pass"}
    assert of_lines(tmp_path, "try:", "    a = b", "except E:", "    raise") == {"pass"}
    assert of_lines(tmp_path, "with a(1) as b:", "    c = d") == {"with a(0) as b:"}
    assert of_lines(tmp_path, "match a:", "    case b if c:", "        d()") == {"case b if not (c):", "pass"}


def test_what_only_types_and_people_read_is_left_alone(tmp_path: Path) -> None:
    text = """
    if TYPE_CHECKING:
        x = 1
    class A:
        def __repr__(self):
            return "x"
    if __name__ == "__main__":
        main()
    """
    assert changes(tmp_path, text) == set()


@pytest.mark.parametrize(("operator", "runs"), [("==", "a()"), ("!=", "b()")])
def test_code_for_another_system_is_left_alone(tmp_path: Path, operator: str, runs: str) -> None:
    text = f"""
    def f():
        if sys.platform {operator} "{sys.platform}":
            a()
        else:
            b()
    """
    assert changes(tmp_path, text) == {(runs, "pass")}


def test_a_mutant_is_the_whole_file_with_one_change(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("class A:\n    def f(self):\n        return (a\n                and b)\n")
    result = {mutant.mutated: mutant for mutant in mutants(file, tmp_path)}
    both = result["return ((a or b))"]
    assert (both.function, both.line, both.first, both.last) == ("A.f", 3, 3, 4)
    assert both.text == "class A:\n    def f(self):\n        return ((a or b))\n"
    assert both.valid(file.read_text())


def test_the_sample_is_steady_when_something_else_changes_or_the_file_moves(tmp_path: Path) -> None:
    ranks = []
    for name, more in (("one.py", ""), ("two.py", "x = 1\n\n\n")):
        (tmp_path / name).write_text(f"{more}def f():\n    return a < b\n")
        ranks.append([mutant.rank("1") for mutant in mutants(tmp_path / name, tmp_path) if mutant.function])
    assert ranks[0] == ranks[1]
    assert len({mutant.rank("2") for mutant in mutants(tmp_path / "one.py", tmp_path)} - set(ranks[0])) == 3


def test_every_source_file_belongs_to_a_package_that_has_tests() -> None:
    paths = {path for package in PACKAGES.values() for path in source_files(package)}
    assert paths == set(SOURCE.rglob("*.py"))
    assert all(files_of_tests(package) for package in PACKAGES.values())


def test_a_sample_holds_valid_mutants_of_different_lines() -> None:
    mutants = sample(every(PACKAGES["skills"]), "1", 10)
    assert len({(mutant.file, mutant.line) for mutant in mutants}) == 10
    assert all(ast.parse(mutant.text) for mutant in mutants)
    assert mutants == sample(every(PACKAGES["skills"]), "1", 20)[:10]


def test_every_excused_mutant_still_exists_and_has_a_reason() -> None:
    files = {file for file, *_ in equivalent.known()}
    candidates = [mutant for file in files for mutant in mutants(SOURCE / file, SOURCE)]
    assert equivalent.stale(candidates, files) == []
    assert all(len(reason) > 10 for reason in equivalent.known().values())


MUTANT = Mutant("engine/a.py", "f", 1, 1, 1, "a < b", "a <= b", 0, "")


def test_a_package_below_the_goal_is_named() -> None:
    def outcomes(killed: int, survived: int, equivalent: int) -> list[Outcome]:
        verdicts = ["killed"] * killed + ["survived"] * survived + ["equivalent"] * equivalent
        return [
            Outcome(MUTANT, verdict, "" if place else TIME_LIMIT, 1, 0.0)
            for place, verdict in enumerate(verdicts)
        ]

    results = {"good": outcomes(17, 3, 0), "bad": outcomes(16, 4, 5)}
    assert report.too_low(results) == ["bad"]
    text = report.as_text(results)
    assert "bad                16          1        4          5    80%" in text
    assert "  - a < b\n  + a <= b" in text
    assert text.endswith("Below 85 %: bad. Write tests for the survivors, or list them as equivalent.")


def test_tests_whose_names_share_words_come_first_then_the_narrow_ones() -> None:
    file = source_files(PACKAGES["skills"])[-1]
    mutant = next(candidate for candidate in mutants(file, SOURCE) if candidate.function)
    function = mutant.function
    lines = {mutant.file: {function: list(range(500))}}
    more = {**lines, "other.py": {"g": [1, 2, 3]}}
    word = Path(mutant.file).stem
    tests = [
        ReachingTest("tests/x.py::wide", 1, more),
        ReachingTest("tests/x.py::narrow", 1, lines),
        ReachingTest(f"tests/x.py::{word}", 9, more),
    ]
    assert [test.name.partition("::")[2] for test in reaching(mutant, tests, 100)] == [word, "narrow", "wide"]
    assert [test.name.partition("::")[2] for test in reaching(mutant, tests, 10)] == [word, "narrow"]


def test_a_file_is_recorded_again_for_another_test_or_case_and_not_for_another_body(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    table, test = (
        'CASES = [{cases}]\n@pytest.mark.parametrize("case", CASES)\n',
        "def test_{name}(case):\n    {body}\n",
    )

    def hashed(cases: str = "1", name: str = "a", body: str = "pass", more: str = "") -> str:
        file.write_text(f"import pytest\n{table}{test}{more}".format(cases=cases, name=name, body=body))
        return reach._hash(file)

    before = hashed()
    assert hashed(body="assert case") == before
    others = [hashed(cases="1, 2"), hashed(name="b"), hashed(more="def test_c(): pass\n")]
    assert len({before, *others}) == 4


def test_code_that_no_test_runs_is_listed_by_file_and_function() -> None:
    file = source_files(PACKAGES["skills"])[-1]
    candidates = [mutant for mutant in mutants(file, SOURCE) if mutant.function]
    first = candidates[0]
    other_mutants = [mutant for mutant in candidates if mutant.function != first.function]
    tests = [ReachingTest("tests/x.py::a", 1, {first.file: {first.function: list(range(500))}})]
    report = unreached.unreached(candidates, tests)
    assert report == other_mutants
    text = unreached.as_text("skills", candidates, report)
    assert f"{len(other_mutants)} of {len(candidates)} mutants" in text
    assert f"{other_mutants[0].function} {other_mutants[0].line}" in text
    assert unreached.unreached(candidates, []) == candidates


def test_a_program_that_records_nothing_is_tested_by_its_starter_and_by_who_calls_it() -> None:
    file, (starter, function) = next(iter(STARTED_BY.items()))
    mutant = mutants(SOURCE / file, SOURCE)[-1]
    tests = [
        ReachingTest("tests/x.py::starts", 1, {starter: {function: [1]}}),
        ReachingTest("tests/x.py::other", 1, {starter: {"Process.other": [1]}}),
        ReachingTest("tests/x.py::calls", 1, {file: {mutant.function: list(range(500))}}),
    ]
    assert {test.name for test in reaching(mutant, tests, 100)} == {"tests/x.py::starts", "tests/x.py::calls"}


def test_of_a_table_without_functions_the_tests_that_share_words_with_it_run_first() -> None:
    table = mutants(SOURCE / "http" / "api" / "tables" / "limits.py", SOURCE)[-1]
    tests = [
        ReachingTest("tests/http/x.py::narrow", 1, {}),
        ReachingTest("tests/http/x.py::limits_of_tables", 9, {"x.py": {"f": [1, 2]}}),
    ]
    names = [test.name.partition("::")[2] for test in reaching(table, tests, 100)]
    assert names == ["limits_of_tables", "narrow"]
    assert len(reaching(table, tests, 9)) == 1


def test_a_constant_beside_functions_is_tried_with_its_files_tests_and_then_with_others() -> None:
    file = "mcp/tools/cancel_job.py"
    constant = next(mutant for mutant in mutants(SOURCE / file, SOURCE) if not mutant.function)
    tests = [
        ReachingTest("tests/http/x.py::other", 1, {}),
        ReachingTest("tests/mcp/x.py::cancel_job", 1, {}),
        ReachingTest("tests/mcp/x.py::runs", 9, {file: {"run": [0, 1]}}),
    ]
    names = [test.name.partition("::")[2] for test in reaching(constant, tests, 100)]
    assert names == ["runs", "cancel_job", "other"]
    function = next(mutant for mutant in mutants(SOURCE / "front" / "relay.py", SOURCE) if mutant.function)
    assert reaching(function, [ReachingTest("tests/mcp/x.py::other", 1, {})], 100) == []


def test_of_a_process_that_tests_kill_all_tests_of_its_folder_count() -> None:
    mutant = mutants(SOURCE / "front" / "main.py", SOURCE)[-1]
    reaches = {"front/main.py": {mutant.function: list(range(500))}}
    tests = [
        ReachingTest("tests/front/x.py::killed", 1, {}),
        ReachingTest("tests/front/x.py::recorded", 1, reaches),
        ReachingTest("tests/mcp/x.py::other", 1, {}),
    ]
    assert [test.name.partition("::")[2] for test in reaching(mutant, tests, 100)] == ["recorded", "killed"]


class ScriptedCheckout:
    """Answers each run of pytest with the next of these results."""

    def __init__(self, notes: Path, *results: tuple[int | None, str]) -> None:
        self.notes = notes
        self._results = list(results)
        self._text = "original"
        self.ran: list[tuple[str, list[str]]] = []

    def read(self, _file: str) -> str:
        return self._text

    def write(self, _file: str, text: str) -> None:
        self._text = text

    def pytest(self, _arguments: list[str], _seconds: float) -> tuple[int | None, str]:
        self.ran.append((self._text, (self.notes / "order").read_text().split()))
        return self._results.pop(0)


FAILS = (1, "FAILED tests/x.py::a - assert 1 == 2\n")
PASSES = (0, "")
HANGS = (None, "")
BREAKS = (3, "Traceback\nno memory\n")
MUTATED = replace(MUTANT, text="mutated")
A, B = (ReachingTest(f"tests/x.py::{name}", 1, {}) for name in "ab")


@pytest.mark.parametrize(
    ("results", "verdict", "ran"),
    [
        ([PASSES], ("survived", ""), [("mutated", [A.name, B.name])]),
        ([FAILS, FAILS], ("killed", A.name), [("mutated", [A.name, B.name]), ("mutated", [A.name])]),
        (
            [FAILS, PASSES, PASSES],
            ("survived", f"{A.name} failed once and then passed"),
            [("mutated", [A.name, B.name]), ("mutated", [A.name]), ("mutated", [B.name])],
        ),
        (
            [HANGS, PASSES],
            ("killed", TIME_LIMIT),
            [("mutated", [A.name, B.name]), ("original", [A.name, B.name])],
        ),
        (
            [HANGS, HANGS],
            ("survived", "its tests also fail without it: time limit"),
            [("mutated", [A.name, B.name]), ("original", [A.name, B.name])],
        ),
        (
            [BREAKS, PASSES],
            ("killed", "pytest ended with 3: no memory"),
            [("mutated", [A.name, B.name]), ("original", [A.name, B.name])],
        ),
        (
            [BREAKS, BREAKS],
            ("survived", "its tests also fail without it: pytest ended with 3: no memory"),
            [("mutated", [A.name, B.name]), ("original", [A.name, B.name])],
        ),
        ([(5, "no tests ran")], ("survived", ""), [("mutated", [A.name, B.name])]),
    ],
)
def test_a_busy_machine_kills_no_mutant(
    tmp_path: Path,
    results: list[tuple[int | None, str]],
    verdict: tuple[str, str],
    ran: list[tuple[str, list[str]]],
) -> None:
    checkout = ScriptedCheckout(tmp_path, *results)
    outcome = run(MUTATED, [A, B], cast("Checkout", checkout))
    assert (outcome.verdict, outcome.by) == verdict
    assert checkout.ran == ran
    assert checkout.read(MUTATED.file) == "original"


@pytest.mark.parametrize(
    ("results", "verdict", "portions"),
    [
        ([FAILS, FAILS], ("killed", A.name), [8, 1]),
        ([PASSES, PASSES], ("survived", ""), [8, 2]),
        (
            [FAILS, PASSES, PASSES, PASSES],
            ("survived", f"{A.name} failed once and then passed"),
            [8, 1, 7, 2],
        ),
    ],
)
def test_few_tests_run_first_and_the_others_when_these_pass(
    tmp_path: Path, results: list[tuple[int | None, str]], verdict: tuple[str, str], portions: list[int]
) -> None:
    checkout = ScriptedCheckout(tmp_path, *results)
    tests = [A, *(ReachingTest(f"tests/x.py::{number}", 1, {}) for number in range(9))]
    outcome = run(MUTATED, tests, cast("Checkout", checkout))
    assert (outcome.verdict, outcome.by) == verdict
    assert [len(names) for _, names in checkout.ran] == portions
