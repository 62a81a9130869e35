"""Selects mutants of one package."""

from __future__ import annotations

from collections.abc import Iterator

from tools.mutants.mutations import Mutant, mutants
from tools.mutants.packages import SOURCE, Package, source_files


def every(package: Package) -> list[Mutant]:
    return [mutant for path in source_files(package) for mutant in mutants(path, SOURCE)]


def sample(candidates: list[Mutant], seed: str, count: int) -> list[Mutant]:
    """The `count` mutants with the lowest ranks, at most one per line."""
    selection: list[Mutant] = []
    lines: set[tuple[str, int]] = set()
    for mutant in sorted(candidates, key=lambda mutant: mutant.rank(seed)):
        if len(selection) == count:
            break
        if (mutant.file, mutant.line) not in lines and mutant.valid((SOURCE / mutant.file).read_text()):
            lines.add((mutant.file, mutant.line))
            selection.append(mutant)
    return selection


def matching(candidates: list[Mutant], place: str) -> Iterator[Mutant]:
    """All mutants of `FILE`, `FILE:LINE` or `FILE:FUNCTION`."""
    file, _, where = place.partition(":")
    for mutant in candidates:
        matches = mutant.file.endswith(file) and where in {"", str(mutant.line), mutant.function}
        if matches and mutant.valid((SOURCE / mutant.file).read_text()):
            yield mutant
