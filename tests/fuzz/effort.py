"""How hard to try: a few seconds with fixed inputs in CI, `make fuzz` for as long as you like with new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("COUNSEL_FUZZ_EXAMPLES", "0"))  # 0: the same few in every run

fuzz = settings(
    max_examples=EXAMPLES or 40,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
