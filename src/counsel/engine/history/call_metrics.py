"""Counters of this process's calls to models, for Prometheus, which sums them over servers and notices restarts.

The number of series is limited; models and people beyond the limit are counted together as `other`.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from dataclasses import field

from counsel.engine.store.records import UsageRecord
from counsel.lazy_dataclass import dataclass

BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)  # seconds
MOST_MODELS = 200
MOST_PEOPLE = 200
OTHER = "other"


@dataclass(slots=True)
class Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect.bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class Sums:
    calls: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)  # by code

    def add(self, call: UsageRecord) -> None:
        self.calls += 1
        self.input += call.input
        self.output += call.output
        self.cost += call.cost or 0.0
        if call.code:
            self.errors[call.code] += 1


class CallMetrics:
    def __init__(self) -> None:
        self.models: dict[tuple[str, str], Sums] = defaultdict(Sums)  # by provider and model
        self.people: dict[str, Sums] = defaultdict(Sums)  # by name
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)  # durations of calls, by provider
        self.jobs: Counter[tuple[str, str]] = Counter()  # ended jobs, by tool and status
        self.job_seconds: dict[str, Histogram] = defaultdict(Histogram)  # durations of jobs, by tool
        self.job_waits = Histogram()  # how long jobs waited before they began here

    def called(self, call: UsageRecord, person: str | None) -> None:
        key = (call.provider, call.model)
        if key not in self.models and len(self.models) >= MOST_MODELS:
            key = (
                call.provider if any(call.provider == provider for provider, _ in self.models) else OTHER,
                OTHER,
            )
        self.models[key].add(call)
        self.seconds[key[0]].observe(call.ms / 1000)
        if person is not None:
            is_full = person not in self.people and len(self.people) >= MOST_PEOPLE
            self.people[OTHER if is_full else person].add(call)

    def began(self, seconds: float) -> None:
        self.job_waits.observe(max(0.0, seconds))

    def ended(self, tool: str, status: str, seconds: float) -> None:
        self.jobs[tool, status] += 1
        self.job_seconds[tool].observe(max(0.0, seconds))


METRICS = CallMetrics()  # of this process
