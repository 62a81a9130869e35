"""The mutants of one package in the order of their ranks."""

from __future__ import annotations

from collections.abc import Iterator

from tools.mutants.mutations import Mutant, mutants
from tools.mutants.packages import SOURCE, Package, source_files


def every(package: Package) -> list[Mutant]:
    return [mutant for path in source_files(package) for mutant in mutants(path, SOURCE)]


def sample(candidates: list[Mutant], seed: str, count: int) -> list[Mutant]:
    """At most one mutant of each line."""
    chosen: list[Mutant] = []
    lines: set[tuple[str, int]] = set()
    for mutant in sorted(candidates, key=lambda mutant: mutant.rank(seed)):
        if len(chosen) == count:
            break
        if (mutant.file, mutant.line) not in lines and mutant.valid((SOURCE / mutant.file).read_text()):
            lines.add((mutant.file, mutant.line))
            chosen.append(mutant)
    return chosen


def matching(candidates: list[Mutant], place: str) -> Iterator[Mutant]:
    """All mutants of `FILE`, `FILE:LINE` or `FILE:FUNCTION`."""
    file, _, where = place.partition(":")
    for mutant in candidates:
        here = mutant.file.endswith(file) and where in {"", str(mutant.line), mutant.function}
        if here and mutant.valid((SOURCE / mutant.file).read_text()):
            yield mutant
