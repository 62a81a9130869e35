"""Which tests reach which lines. Recorded once per test file, and again when its tests or their cases change.

Lines are stored by function and offset, so that most of the record survives an edit of the source.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tools.mutants.checkout import Checkout
from tools.mutants.mutations import Mutant
from tools.mutants.packages import OFTEN_KILLED, ROOT, SOURCE, STARTED_BY

STORED = ROOT / ".cache" / "mutants"  # a file for each test file: several runs may record at a time
LONGEST = 1200.0  # seconds for one test file, on a busy machine


@dataclass(frozen=True)
class ReachingTest:
    name: str
    seconds: float
    lines: dict[str, dict[str, list[int]]]  # file, function, offsets

    @property
    def breadth(self) -> int:
        return sum(len(offsets) for functions in self.lines.values() for offsets in functions.values())


class Reach:
    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: dict[str, dict[str, object]] = {}
        for path in paths:
            if (file := _stored(path)).exists():
                self._files[_name(path)] = json.loads(zlib.decompress(file.read_bytes()))

    def missing(self, paths: Iterable[Path]) -> list[Path]:
        """Files whose tests or cases changed, or failed: they may have failed on a busy machine."""
        records = {path: self._files.get(_name(path), {}) for path in paths}
        return [
            path
            for path, record in records.items()
            if record.get("hash") != _hash(path) or record.get("failed")
        ]

    def record(self, path: Path, checkout: Checkout) -> list[str]:
        """Run one test file without a mutant. Return its failed tests."""
        with checkout.recording():
            checkout.pytest([_name(path)], LONGEST)
        results = checkout.notes / "tests.json"
        document: dict[str, Any] = (
            json.loads(results.read_text()) if results.exists() else {"passed": {}, "failed": [_name(path)]}
        )
        lines = _lines(checkout)
        tests = {
            name: [round(seconds, 3), lines.get(name, {})] for name, seconds in document["passed"].items()
        }
        copy = checkout.folder / _name(path)  # the original may have changed since
        failures = list(document["failed"])
        self._files[_name(path)] = {"hash": _hash(copy), "tests": tests, "failed": bool(failures)}
        STORED.mkdir(parents=True, exist_ok=True)
        _stored(path).write_bytes(zlib.compress(json.dumps(self._files[_name(path)]).encode(), 1))
        return failures

    def tests(self, paths: Iterable[Path]) -> list[ReachingTest]:
        matches = []
        for path in paths:
            record = self._files.get(_name(path), {}).get("tests")
            if isinstance(record, dict):
                matches += [ReachingTest(name, seconds, lines) for name, (seconds, lines) in record.items()]
        return matches


def reaching(mutant: Mutant, tests: Sequence[ReachingTest], most_seconds: float) -> list[ReachingTest]:
    """Tests that run the mutated statement; if none does, its function; else its file. What is outside functions runs
    when it is imported, so after those any test may notice a change of it.

    First those whose names share words with the mutated line, then those that run the fewest lines.
    """
    function, start = function_at(mutant)
    in_file = [test for test in tests if mutant.file in test.lines]
    in_function = [test for test in in_file if function in test.lines[mutant.file]]
    offsets = set(range(mutant.first - start, mutant.last - start + 1))
    on_line = [test for test in in_function if offsets & set(test.lines[mutant.file][function])]
    if starter := STARTED_BY.get(mutant.file):
        file, function = starter
        on_line += [test for test in tests if test not in on_line and function in test.lines.get(file, {})]
    selection: list[ReachingTest] = []
    total = 0.0
    words = _words(f"{mutant.file} {mutant.function} {mutant.original}")

    def by_likelihood(some: Iterable[ReachingTest]) -> list[ReachingTest]:
        return sorted(
            some,
            key=lambda test: (-len(words & _words(test.name.partition("/")[2])), test.breadth, test.name),
        )

    order = by_likelihood(on_line or in_function or in_file)
    if not function:
        names = {test.name for test in order}
        order += by_likelihood(test for test in tests if test.name not in names)
    for test in [*order, *_beside(mutant, tests, order)]:
        if total + test.seconds <= most_seconds or not selection:
            selection.append(test)
            total += test.seconds
    return selection


def _beside(
    mutant: Mutant, tests: Sequence[ReachingTest], order: Sequence[ReachingTest]
) -> list[ReachingTest]:
    folder, names = mutant.file.partition("/")[0], {test.name for test in order}
    if folder not in OFTEN_KILLED:
        return []
    own = [test for test in tests if test.name.startswith(f"tests/{folder}/") and test.name not in names]
    return sorted(own, key=lambda test: (test.seconds, test.name))


def _words(text: str) -> set[str]:
    """By their beginnings: `drifted` and `drift` are one."""
    return {word[:5] for word in re.findall(r"[a-z]{4,}", text.lower())} - {"test", "return", "self"}


def function_at(mutant: Mutant) -> tuple[str, int]:
    return next(
        (
            (name, start)
            for name, start, stop in _functions(SOURCE / mutant.file)
            if start <= mutant.line <= stop
        ),
        ("", 0),
    )


@cache
def _functions(path: Path) -> list[tuple[str, int, int]]:
    """Outermost functions and methods with their lines."""
    matches: list[tuple[str, int, int]] = []

    def look(body: list[ast.stmt], names: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, (*names, node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                matches.append((".".join((*names, node.name)), node.lineno, node.end_lineno or node.lineno))

    look(ast.parse(path.read_text()).body, ())
    return matches


def _lines(checkout: Checkout) -> dict[str, dict[str, dict[str, list[int]]]]:
    from coverage import CoverageData

    result: dict[str, dict[str, dict[str, list[int]]]] = defaultdict(dict)
    sets: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    source = checkout.folder / "src" / "counsel"
    for data_file in checkout.notes.glob("lines.*"):
        data = CoverageData(basename=str(data_file))
        try:
            data.read()
        except Exception:  # noqa: BLE001, S112 (its process was killed while writing)
            continue
        for file_name in data.measured_files():
            path = Path(file_name)
            if not path.is_relative_to(source) or "\0" in file_name:  # the same, half written
                continue
            functions = _functions(path)
            file = path.relative_to(source).as_posix()
            for line, contexts in data.contexts_by_lineno(file_name).items():
                for name, start, stop in functions:
                    if start < line <= stop:  # the header runs when the module is imported
                        for test in contexts:
                            sets[test, file, name].add(line - start)
    for (test, file, name), offsets in sets.items():
        result[test].setdefault(file, {})[name] = sorted(offsets)
    return result


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _stored(path: Path) -> Path:
    return STORED / f"{_name(path).replace('/', '.')}.json.z"


def _hash(path: Path) -> str:
    """Changes when tests or their cases are added, removed or renamed; an edited test reaches much the same lines."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = []
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]
