"""`/metrics`: the text format that Prometheus reads.

A server of one person counts what its database holds. Of several servers each counts its own calls, so that sums over
them are right; the queue is the same for all of them (take its maximum).
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from counsel import __version__
from counsel.engine.history.call_metrics import BUCKETS, METRICS, CallMetrics, Histogram, Sums
from counsel.engine.store.health import QueueState
from counsel.engine.store.records import UsageTotal
from counsel.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[Labels, float]
_Rows: TypeAlias = tuple[tuple[str, str, Callable[[Sums], float]], ...]
_SUMS: _Rows = (
    ("counsel_calls_total", "Calls that were made.", lambda sums: sums.calls),
    ("counsel_input_tokens_total", "Tokens that were sent.", lambda sums: sums.input),
    ("counsel_output_tokens_total", "Tokens that came back.", lambda sums: sums.output),
    ("counsel_cost_usd_total", "Cost of the calls whose price is known.", lambda sums: sums.cost),
)
_OF_PEOPLE: _Rows = (
    ("counsel_person_calls_total", "Calls of each person.", lambda sums: sums.calls),
    ("counsel_person_input_tokens_total", "Tokens that were sent, by person.", lambda sums: sums.input),
    ("counsel_person_output_tokens_total", "Tokens that came back, by person.", lambda sums: sums.output),
    ("counsel_person_cost_usd_total", "Cost of each person's calls.", lambda sums: sums.cost),
    ("counsel_person_errors_total", "Failed calls of each person.", lambda sums: sums.errors.total()),
)


@dataclass(frozen=True, slots=True)
class Load:
    """What this process does now."""

    calls: Mapping[tuple[str, str], int]  # to models, by provider and model
    jobs: int
    people: bool = False  # whether people are shown by name


async def text(store: Store, load: Load) -> str:
    team = store.team
    if team is None:
        calls = list(_stored(await store.usage_totals()))
        open_jobs = await store.open_jobs()
        queue = QueueState(len(open_jobs))
    else:
        calls = [*_counted(METRICS), *(_people(METRICS) if load.people else ())]
        queue = await team.health.queue()
    lines = [*calls, *_histograms(METRICS), *_load(load), *_queue(queue), *_process()]
    return "\n".join(itertools.chain.from_iterable(lines)) + "\n"


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────


def _stored(totals: list[UsageTotal]) -> Iterator[list[str]]:
    rows = [({"provider": total.provider, "model": total.model}, total) for total in totals]
    yield from _sums((labels, Sums(t.calls, t.input, t.output, t.cost)) for labels, t in rows)
    yield [
        *_head("counsel_response_seconds", "Time that calls took.", "summary"),
        *itertools.chain.from_iterable(
            (
                _line("counsel_response_seconds_sum", labels, total.seconds),
                _line("counsel_response_seconds_count", labels, total.calls),
            )
            for labels, total in rows
        ),
    ]
    yield _errors(
        ({**labels, "code": code}, count) for labels, total in rows for code, count in total.errors.items()
    )


def _counted(metrics: CallMetrics) -> Iterator[list[str]]:
    rows = [
        ({"provider": provider, "model": model}, sums) for (provider, model), sums in metrics.models.items()
    ]
    yield from _sums(rows)
    yield _errors(
        ({**labels, "code": code}, count) for labels, sums in rows for code, count in sums.errors.items()
    )


def _sums(rows: Iterable[tuple[Labels, Sums]]) -> Iterator[list[str]]:
    known = list(rows)
    for name, help_, value in _SUMS:
        yield _family(name, help_, "counter", ((labels, value(sums)) for labels, sums in known))


def _errors(samples: Iterable[Sample]) -> list[str]:
    return _family("counsel_errors_total", "Calls that failed, by code.", "counter", samples)


def _people(metrics: CallMetrics) -> Iterator[list[str]]:
    rows = [({"person": name}, sums) for name, sums in metrics.people.items()]
    for name, help_, value in _OF_PEOPLE:
        yield _family(name, help_, "counter", ((labels, value(sums)) for labels, sums in rows))


def _histograms(metrics: CallMetrics) -> Iterator[list[str]]:
    by_provider = {name: metrics.seconds[name] for name in sorted(metrics.seconds)}
    yield _histogram(
        "counsel_call_duration_seconds",
        "Time that calls took.",
        [({"provider": name}, times) for name, times in by_provider.items()],
    )
    yield _histogram(
        "counsel_job_duration_seconds",
        "Time from a question to the end of its job.",
        [({"tool": name}, times) for name, times in metrics.job_seconds.items()],
    )
    yield _histogram(
        "counsel_job_wait_seconds", "Time that jobs waited before they began here.", [({}, metrics.waited)]
    )
    yield _family(
        "counsel_jobs_total",
        "Jobs that ended here.",
        "counter",
        (({"tool": tool, "status": status}, count) for (tool, status), count in metrics.jobs.items()),
    )


# ── now ──────────────────────────────────────────────────────────────────────────────────────────────


def _load(load: Load) -> Iterator[list[str]]:
    calls = (
        ({"provider": provider, "model": model}, count) for (provider, model), count in load.calls.items()
    )
    yield _family("counsel_running_calls", "Calls under way.", "gauge", calls)
    yield _family("counsel_running_jobs", "Jobs that run in this process.", "gauge", [({}, load.jobs)])


def _queue(queue: QueueState) -> Iterator[list[str]]:
    yield _family("counsel_open_jobs", "Unfinished jobs of all servers.", "gauge", [({}, queue.open)])
    yield _family(
        "counsel_queue_jobs", "Jobs of all servers that no process has taken.", "gauge", [({}, queue.waiting)]
    )
    yield _family(
        "counsel_queue_oldest_seconds",
        "How long the oldest of them has waited.",
        "gauge",
        [({}, queue.oldest_seconds)],
    )


def _started() -> float:
    """In seconds since 1970. This module is imported with the first request for metrics, much later."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return time.time() - time.process_time()
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def _process() -> Iterator[list[str]]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _family("counsel_info", "The release.", "gauge", [({"version": __version__}, 1)])
    yield _family("process_cpu_seconds_total", "CPU time.", "counter", [({}, used.ru_utime + used.ru_stime)])
    yield _family("process_start_time_seconds", "When it started.", "gauge", [({}, _started())])
    yield _family("process_resident_memory_bytes", "Memory.", "gauge", [({}, _memory(used))])
    with suppress(OSError):
        files = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are not needed
        yield _family("process_open_fds", "Open file descriptors.", "gauge", [({}, files)])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _family("process_max_fds", "Most file descriptors.", "gauge", [({}, most)])


def _memory(used: resource.struct_rusage) -> int:
    """Now, on Linux; elsewhere the most so far."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────


def _family(name: str, help_: str, kind: str, samples: Iterable[Sample]) -> list[str]:
    return [*_head(name, help_, kind), *(_line(name, labels, value) for labels, value in samples)]


def _histogram(name: str, help_: str, rows: Iterable[tuple[Labels, Histogram]]) -> list[str]:
    lines = _head(name, help_, "histogram")
    for labels, times in rows:
        limits = [*map(str, BUCKETS), "+Inf"]
        for limit, count in zip(limits, itertools.accumulate(times.counts), strict=True):
            lines.append(_line(f"{name}_bucket", {**labels, "le": limit}, count))
        lines.append(_line(f"{name}_sum", labels, times.sum))
        lines.append(_line(f"{name}_count", labels, sum(times.counts)))
    return lines


def _head(name: str, help_: str, kind: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
