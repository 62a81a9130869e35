"""What calls took and cost, from the ledger: for `counsel usage` and for Prometheus."""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from counsel.engine.store.sqlite.database import Database
from counsel.types import Json

By: TypeAlias = Literal["model", "provider", "day"]
_GROUPS: dict[By, str] = {
    "model": "provider || '/' || model",
    "provider": "provider",
    "day": "strftime('%Y-%m-%d', at, 'unixepoch')",
}


async def usage(database: Database, since: float, by: By) -> Json:
    """Calls, failures, tokens, cost and response times since a moment, grouped."""
    group = _GROUPS[by]
    rows = await database.search(
        f"SELECT {group} AS name, at, ms, code, input, output, reasoning, cache_read, cache_write, cost "  # noqa: S608
        "FROM ledger WHERE at >= ? ORDER BY name",
        since,
    )
    groups: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return {
        "by": by,
        "groups": [{by: name, **_summed(held)} for name, held in groups.items()],
        "total": _summed(rows),
    }


def _summed(rows: list[sqlite3.Row]) -> Json:
    failed = Counter(row["code"] for row in rows if row["code"])
    times = sorted(row["ms"] for row in rows if not row["code"])
    costs = [row["cost"] for row in rows if row["cost"] is not None]
    unpriced = sum(1 for row in rows if row["cost"] is None and not row["code"])
    return {
        "calls": len(rows),
        "errors": dict(failed),
        "error_rate": round(failed.total() / len(rows), 4) if rows else 0.0,
        "input_tokens": sum(row["input"] for row in rows),
        "output_tokens": sum(row["output"] for row in rows),
        "reasoning_tokens": sum(row["reasoning"] for row in rows),
        "cache_read_tokens": sum(row["cache_read"] for row in rows),
        "cache_write_tokens": sum(row["cache_write"] for row in rows),
        "cost_usd": round(sum(costs), 6),
        "calls_without_price": unpriced,
        "response_ms": {
            "p50": _quantile(times, 0.5),
            "p95": _quantile(times, 0.95),
            "max": times[-1] if times else None,
        },
        "peak_concurrency": _peak(rows),
    }


def _peak(rows: list[sqlite3.Row]) -> int:
    """The most calls that were under way at one moment."""
    steps = sorted([(row["at"] - row["ms"] / 1000, 1) for row in rows] + [(row["at"], -1) for row in rows])
    return max(itertools.accumulate(step for _, step in steps), default=0)


def _quantile(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else None


_SUMS = (
    ("counsel_calls_total", "Calls that were made.", "COUNT(*)"),
    ("counsel_input_tokens_total", "Tokens that were sent.", "SUM(input)"),
    ("counsel_output_tokens_total", "Tokens that came back.", "SUM(output)"),
    ("counsel_cost_usd_total", "Cost of the calls whose price is known.", "COALESCE(SUM(cost), 0)"),
)
_TIMES = "counsel_response_seconds"


async def prometheus(database: Database, running: Mapping[tuple[str, str], int]) -> str:
    """The text form that Prometheus reads. `running`: calls under way, by provider and model."""
    sums = ", ".join(expression for _, _, expression in _SUMS)
    rows = await database.search(
        f"SELECT provider, model, {sums}, SUM(ms) / 1000.0 AS seconds, COUNT(*) AS calls "  # noqa: S608
        "FROM ledger GROUP BY provider, model"
    )
    errors = await database.search(
        "SELECT provider, model, code, COUNT(*) FROM ledger WHERE code != '' GROUP BY provider, model, code"
    )
    lines: list[str] = []
    for index, (name, words, _) in enumerate(_SUMS):
        lines += _metric(name, words, "counter", ((_labels(row), row[index + 2]) for row in rows))
    lines += [f"# HELP {_TIMES} Time that calls took.", f"# TYPE {_TIMES} summary"]
    for row in rows:
        labels = _labels(row)
        lines += [f"{_TIMES}_sum{{{labels}}} {row['seconds']}", f"{_TIMES}_count{{{labels}}} {row['calls']}"]
    lines += _metric(
        "counsel_errors_total", "Calls that failed, by code.", "counter",
        ((_labels(row, code=row[2]), row[3]) for row in errors),
    )  # fmt: skip
    lines += _metric(
        "counsel_running_calls", "Calls under way.", "gauge",
        ((_labels(names), count) for names, count in running.items()),
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _metric(name: str, words: str, kind: str, samples: Iterable[tuple[str, float]]) -> list[str]:
    return [
        f"# HELP {name} {words}",
        f"# TYPE {name} {kind}",
        *(f"{name}{{{labels}}} {value}" for labels, value in samples),
    ]


def _labels(row: sqlite3.Row | tuple[str, str], **more: str) -> str:
    labels = {"provider": row[0], "model": row[1], **more}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
