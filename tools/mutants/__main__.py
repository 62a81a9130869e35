from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tools.mutants import equivalent, report, unreached
from tools.mutants.checkout import Checkout
from tools.mutants.mutations import Mutant
from tools.mutants.packages import PACKAGES, Package, test_files
from tools.mutants.reach import Reach, reaching
from tools.mutants.sample import every, matching, sample
from tools.mutants.trial import Outcome, run

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A number of checkouts; each works on one item at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: queue.SimpleQueue[Checkout] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            self._free.put(Checkout(folder / str(number)))

    def map(self, work: Callable[[Item, Checkout], Result], items: Sequence[Item]) -> list[Result]:
        def task(item: Item) -> Result:
            checkout = self._free.get()
            try:
                return work(item, checkout)
            finally:
                self._free.put(checkout)

        with ThreadPoolExecutor(self._count) as pool:
            try:
                return list(pool.map(task, items))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    packages = [PACKAGES[name] for name in options.packages or PACKAGES]
    candidates = {package.name: every(package) for package in packages}
    with tempfile.TemporaryDirectory(prefix="counsel-mutants-") as folder:
        workers = Workers(Path(folder).resolve(), options.workers)
        reach = _record_missing(packages, workers, again=options.record)
        if options.unreached:
            for package in packages:
                mutants = unreached.unreached(candidates[package.name], reach.tests(test_files(package)))
                print(unreached.as_text(package.name, candidates[package.name], mutants))
            return 0
        results = {}
        for package in packages:
            selection = _selection(candidates[package.name], options)
            results[package.name] = _outcomes(package, selection, reach, workers, options.seconds)
    stale = [key for name in results for key in _stale(candidates[name])]
    print(json.dumps(report.as_json(results), indent=1) if options.json else report.as_text(results))
    for key in stale:
        print("equivalent.toml has an entry for code that has changed:", *key, sep="\n  ", file=sys.stderr)
    return 1 if stale or report.too_low(results) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "packages", nargs="*", metavar="PACKAGE", help=f"one of {', '.join(PACKAGES)}; default: all"
    )
    parser.add_argument("-n", type=int, default=30, help="mutants per package (%(default)s)")
    parser.add_argument("--seed", default="1", help="selects the sample (%(default)s)")
    parser.add_argument("--at", help="all mutants of FILE, FILE:LINE or FILE:FUNCTION instead of a sample")
    parser.add_argument(
        "--seconds", type=float, default=45.0, help="of tests per mutant, at most (%(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time (%(default)s)"
    )
    parser.add_argument(
        "--unreached", action="store_true", help="only list code that no test of its package reaches"
    )
    parser.add_argument("--record", action="store_true", help="record again which tests reach which lines")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.packages if name not in PACKAGES]:
        parser.error(f"unknown package {', '.join(unknown)}; choose from {', '.join(PACKAGES)}")
    return options


def _record_missing(packages: Sequence[Package], workers: Workers, *, again: bool) -> Reach:
    every_path = sorted({path for package in packages for path in test_files(package)})
    reach = Reach(every_path)
    paths = every_path if again else reach.missing(every_path)

    def record(path: Path, checkout: Checkout) -> None:
        failures = reach.record(path, checkout)
        print(
            f"recorded {path.name}",
            *(f"(fails without a mutant: {name})" for name in failures),
            file=sys.stderr,
        )

    workers.map(record, paths)
    return reach


def _selection(candidates: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    if options.at:
        return list(matching(candidates, options.at))
    return sample(candidates, options.seed, options.n)


def _outcomes(
    package: Package, selection: list[Mutant], reach: Reach, workers: Workers, seconds: float
) -> list[Outcome]:
    tests = reach.tests(test_files(package))
    reasons = equivalent.known()

    def attempt(mutant: Mutant, checkout: Checkout) -> Outcome:
        if reason := reasons.get(mutant.key):
            return Outcome(mutant, "equivalent", reason, 0, 0.0)
        outcome = run(mutant, reaching(mutant, tests, seconds), checkout)
        print(report.line(package.name, outcome), file=sys.stderr, flush=True)
        return outcome

    return workers.map(attempt, selection)


def _stale(candidates: list[Mutant]) -> list[equivalent.Key]:
    return equivalent.stale(candidates, {mutant.file for mutant in candidates})


if __name__ == "__main__":
    sys.exit(main())
