"""Code that no test of its own package reaches: all its mutants survive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tools.mutants.mutations import Mutant
from tools.mutants.packages import STARTED_BY
from tools.mutants.reach import ReachingTest, function_at


def unreached(candidates: Sequence[Mutant], tests: Iterable[ReachingTest]) -> list[Mutant]:
    """Mutants in function lines that no test runs. Code at a module's top level runs at import."""
    lines: dict[tuple[str, str], set[int]] = defaultdict(set)
    for test in tests:
        for file, functions in test.lines.items():
            for function, offsets in functions.items():
                lines[file, function].update(offsets)
    return [mutant for mutant in candidates if not _is_reached(mutant, lines)]


def _is_reached(mutant: Mutant, lines: dict[tuple[str, str], set[int]]) -> bool:
    function, start = function_at(mutant)
    if not function or mutant.file in STARTED_BY:
        return True
    return not lines[mutant.file, function].isdisjoint(range(mutant.first - start, mutant.last - start + 1))


def as_text(package: str, candidates: Sequence[Mutant], mutants: Sequence[Mutant]) -> str:
    share = 100 * len(mutants) / len(candidates) if candidates else 0
    rows = [
        f"{package}: no test of the package reaches {len(mutants)} of {len(candidates)} mutants ({share:.0f} %)"
    ]
    by_file: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for mutant in mutants:
        by_file[mutant.file][mutant.function].add(mutant.line)
    for file, functions in sorted(by_file.items(), key=lambda row: -sum(map(len, row[1].values()))):
        places = "; ".join(f"{name} {', '.join(map(str, sorted(at)))}" for name, at in functions.items())
        rows.append(f"  {file}: {places}")
    return "\n".join(rows)
