"""`/metrics` in Prometheus's text format.

A server of one person counts what its database contains. If there are several servers, each counts its own calls, so
that sums over them are correct; the queue is the same for all of them (take its maximum).
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
    ("counsel_calls_total", "Calls to models.", lambda sums: sums.calls),
    ("counsel_input_tokens_total", "Tokens sent.", lambda sums: sums.input),
    ("counsel_output_tokens_total", "Tokens received.", lambda sums: sums.output),
    ("counsel_cost_usd_total", "Cost of the calls whose price is known.", lambda sums: sums.cost),
)
_PERSON_SUMS: _Rows = (
    ("counsel_person_calls_total", "Calls of each person.", lambda sums: sums.calls),
    ("counsel_person_input_tokens_total", "Tokens sent, by person.", lambda sums: sums.input),
    ("counsel_person_output_tokens_total", "Tokens received, by person.", lambda sums: sums.output),
    ("counsel_person_cost_usd_total", "Cost of each person's calls.", lambda sums: sums.cost),
    ("counsel_person_errors_total", "Failed calls of each person.", lambda sums: sums.errors.total()),
)


@dataclass(frozen=True, slots=True)
class Load:
    """What this process is doing now."""

    calls: Mapping[tuple[str, str], int]  # to models, by provider and model
    jobs: int
    people: bool = False  # whether people are shown by name


async def text(store: Store, load: Load) -> str:
    team = store.team
    if team is None:
        calls = list(_stored_calls(await store.usage_totals()))
        open_jobs = await store.open_jobs()
        queue = QueueState(len(open_jobs))
    else:
        calls = [*_process_calls(METRICS), *(_people(METRICS) if load.people else ())]
        queue = await team.health.queue()
    lines = [*calls, *_histograms(METRICS), *_load(load), *_queue(queue), *_process()]
    return "\n".join(itertools.chain.from_iterable(lines)) + "\n"


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────


def _stored_calls(totals: list[UsageTotal]) -> Iterator[list[str]]:
    rows = [({"provider": total.provider, "model": total.model}, total) for total in totals]
    yield from _sums((labels, Sums(t.calls, t.input, t.output, t.cost)) for labels, t in rows)
    yield [
        *_head("counsel_response_seconds", "Duration of calls.", "summary"),
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


def _process_calls(metrics: CallMetrics) -> Iterator[list[str]]:
    rows = [
        ({"provider": provider, "model": model}, sums) for (provider, model), sums in metrics.models.items()
    ]
    yield from _sums(rows)
    yield _errors(
        ({**labels, "code": code}, count) for labels, sums in rows for code, count in sums.errors.items()
    )


def _sums(rows: Iterable[tuple[Labels, Sums]]) -> Iterator[list[str]]:
    groups = list(rows)
    for name, help_, value in _SUMS:
        yield _family(name, help_, "counter", ((labels, value(sums)) for labels, sums in groups))


def _errors(samples: Iterable[Sample]) -> list[str]:
    return _family("counsel_errors_total", "Failed calls, by code.", "counter", samples)


def _people(metrics: CallMetrics) -> Iterator[list[str]]:
    rows = [({"person": name}, sums) for name, sums in metrics.people.items()]
    for name, help_, value in _PERSON_SUMS:
        yield _family(name, help_, "counter", ((labels, value(sums)) for labels, sums in rows))


def _histograms(metrics: CallMetrics) -> Iterator[list[str]]:
    by_provider = {name: metrics.seconds[name] for name in sorted(metrics.seconds)}
    yield _histogram(
        "counsel_call_duration_seconds",
        "Duration of calls.",
        [({"provider": name}, times) for name, times in by_provider.items()],
    )
    yield _histogram(
        "counsel_job_duration_seconds",
        "Time from a question to the end of its job.",
        [({"tool": name}, times) for name, times in metrics.job_seconds.items()],
    )
    yield _histogram(
        "counsel_job_wait_seconds", "Time that jobs waited before they began here.", [({}, metrics.job_waits)]
    )
    yield _family(
        "counsel_jobs_total",
        "Jobs that ended in this process.",
        "counter",
        (({"tool": tool, "status": status}, count) for (tool, status), count in metrics.jobs.items()),
    )


# ── load and queue ───────────────────────────────────────────────────────────────────────────────────


def _load(load: Load) -> Iterator[list[str]]:
    calls = (
        ({"provider": provider, "model": model}, count) for (provider, model), count in load.calls.items()
    )
    yield _family("counsel_running_calls", "Calls in progress.", "gauge", calls)
    yield _family("counsel_running_jobs", "Jobs running in this process.", "gauge", [({}, load.jobs)])


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


def _start_time() -> float:
    """The process's start in seconds since 1970. This module is imported later, by the first request for metrics."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):  # not Linux
        return time.time() - time.process_time()
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def _process() -> Iterator[list[str]]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield _family("counsel_info", "The release.", "gauge", [({"version": __version__}, 1)])
    yield _family(
        "process_cpu_seconds_total", "CPU time.", "counter", [({}, usage.ru_utime + usage.ru_stime)]
    )
    yield _family("process_start_time_seconds", "When the process started.", "gauge", [({}, _start_time())])
    yield _family("process_resident_memory_bytes", "Memory.", "gauge", [({}, _memory(usage))])
    with suppress(OSError):
        files = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are not needed
        yield _family("process_open_fds", "Open file descriptors.", "gauge", [({}, files)])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _family("process_max_fds", "The limit of open file descriptors.", "gauge", [({}, limit)])


def _memory(usage: resource.struct_rusage) -> int:
    """The memory in use now on Linux; on other systems the peak so far."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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
    label_text = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{label_text}}} {value}" if label_text else f"{name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
