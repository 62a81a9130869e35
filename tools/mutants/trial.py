"""One mutant against the tests that reach it.

A busy machine must not count as a good test. So a failed test must fail again, and tests that run into the time limit
must end in time without the mutant.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.mutants.checkout import Checkout
from tools.mutants.mutations import Mutant
from tools.mutants.reach import ReachingTest

_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
GRACE = 40.0  # seconds in addition to the tests' own, for a busy machine
TIME_LIMIT = "time limit"
FEW = 8  # tests that run first: they kill most mutants, and collecting all test files takes longer
NO_TESTS = 5  # pytest's exit code when the recorded tests no longer exist


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    verdict: str  # killed, survived or equivalent
    by: str  # the failed test, "time limit", or why it survived or counts as equivalent
    tests: int
    seconds: float


def run(mutant: Mutant, tests: Sequence[ReachingTest], checkout: Checkout) -> Outcome:
    began = time.monotonic()
    verdict, by = "survived", "" if tests else "no test reaches it"
    for portion in filter(None, (tests[:FEW], tests[FEW:])):
        if verdict == "survived":
            verdict, reason = _verdict(mutant, portion, checkout)
            by = reason or by
    return Outcome(mutant, verdict, by, len(tests), time.monotonic() - began)


def _verdict(mutant: Mutant, tests: Sequence[ReachingTest], checkout: Checkout) -> tuple[str, str]:
    failure = _failing(mutant.text, mutant.file, tests, checkout)
    if not failure:
        return "survived", ""
    suspects = [test for test in tests if test.name == failure]
    if not suspects:
        without = _failing(checkout.read(mutant.file), mutant.file, tests, checkout)
        return ("survived", f"its tests also fail without it: {without}") if without else ("killed", failure)
    if _failing(mutant.text, mutant.file, suspects, checkout):
        return "killed", failure
    rest = [test for test in tests if test.name != failure]
    if rest and (second := _failing(mutant.text, mutant.file, rest, checkout)) not in {"", TIME_LIMIT}:
        return "killed", second
    return "survived", f"{failure} failed once and then passed"


def _failing(text: str, file: str, tests: Sequence[ReachingTest], checkout: Checkout) -> str:
    """The first test that fails with this text in the mutant's file; TIME_LIMIT; or ""."""
    for old in checkout.notes.glob("*"):
        old.unlink()
    (checkout.notes / "order").write_text("\n".join(test.name for test in tests))
    files = dict.fromkeys(test.name.partition("::")[0] for test in tests)
    original = checkout.read(file)
    checkout.write(file, text)
    try:
        code, output = checkout.pytest(["-x", *files], GRACE + 4 * sum(test.seconds for test in tests))
    finally:
        checkout.write(file, original)
    if code in {0, NO_TESTS}:
        return ""
    match = _FAILED.search(output)
    if code is None:
        return TIME_LIMIT
    if match:
        return match[1]
    return f"pytest ended with {code}: {' '.join(output.splitlines()[-1:])[:200]}"
