"""One mutant against the tests that reach it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.mutants.checkout import Checkout
from tools.mutants.mutations import Mutant
from tools.mutants.packages import SOURCE
from tools.mutants.reach import ReachingTest

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
GRACE = 40.0  # seconds on top of the tests' own, on a machine that does other things


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    verdict: str  # killed, survived or equivalent
    by: str  # the test that failed, "time limit", or why it counts as equivalent
    tests: int
    seconds: float


def run(mutant: Mutant, tests: Sequence[ReachingTest], checkout: Checkout) -> Outcome:
    began = time.monotonic()
    if not tests:
        return Outcome(mutant, "survived", "no test reaches it", 0, 0.0)
    original = (SOURCE / mutant.file).read_text()
    for old in checkout.notes.glob("*"):
        old.unlink()
    (checkout.notes / "order").write_text("\n".join(test.name for test in tests))
    files = dict.fromkeys(test.name.partition("::")[0] for test in tests)
    checkout.write(mutant.file, mutant.text)
    try:
        code, output = checkout.pytest(["-x", *files], GRACE + 4 * sum(test.seconds for test in tests))
    finally:
        checkout.write(mutant.file, original)
    seconds = time.monotonic() - began
    if code == 0:
        return Outcome(mutant, "survived", "", len(tests), seconds)
    named = _FAILED.search(output)
    by = "time limit" if code is None else named[1] if named else f"pytest ended with {code}"
    return Outcome(mutant, "killed", by, len(tests), seconds)
