"""Made-up calls of nine weeks: weekdays and nights, several models, projects and callers, a few failures, the same
every time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from counsel.engine.store.records import UsageRecord

# provider, model, how often, dollars per million tokens in and out, milliseconds of a usual answer
MODELS = (
    ("anthropic", "claude-opus-5-5", 6, 5.0, 25.0, 14_000),
    ("openai", "gpt-5", 5, 1.25, 10.0, 11_000),
    ("google", "gemini-4-argon", 4, 2.0, 12.0, 9_000),
    ("openai", "gpt-5-nano", 3, 0.05, 0.4, 2_200),
    ("mistral", "mistral-large", 1, 2.0, 6.0, 6_000),
)
PROJECTS = ((6, "shop"), (3, "warehouse"), (1, "notes"))
CLIENTS = ((5, "claude"), (3, "codex"), (2, "cli"), (1, "console"))
FAILURES = ("RATE_LIMIT_EXCEEDED", "TIMEOUT", "UPSTREAM_ERROR")
DAYS = 62


def calls(work: str, now: datetime | None = None) -> list[UsageRecord]:
    """Until an hour ago; `work` is the folder of the projects."""
    now = now or datetime.now(UTC)
    chance = random.Random(14)
    records: list[UsageRecord] = []
    for age in range(DAYS, -1, -1):
        day = (now - timedelta(days=age)).replace(hour=0, minute=0, second=0, microsecond=0)
        busy = (4 if day.weekday() >= 5 else 26) * (1.3 - age / 110)
        for _ in range(round(chance.gauss(busy, busy / 5))):
            at = day + timedelta(hours=min(23.5, max(0.5, chance.gauss(14, 3))))
            if at < now - timedelta(hours=1):
                records.append(_call(chance, at, work, len(records)))
    return records


def _call(chance: random.Random, at: datetime, work: str, number: int) -> UsageRecord:
    provider, model, _, price_in, price_out, usual = chance.choices(MODELS, [row[2] for row in MODELS])[0]
    input_tokens, output_tokens = (
        round(chance.lognormvariate(8.6, 0.9)),
        round(chance.lognormvariate(6.4, 0.6)),
    )
    code = chance.choice(FAILURES) if chance.random() < 0.02 else ""
    return UsageRecord(
        at=at.timestamp(),
        job=f"job_{number:08x}-0000-4000-8000-000000000000",
        tool=chance.choices(("chat", "consensus"), (3, 2))[0],
        provider=provider,
        model=model,
        client=_weighted(chance, CLIENTS),
        ms=round(usual * chance.lognormvariate(0, 0.45)),
        code=code,
        input=input_tokens,
        output=0 if code else output_tokens,
        reasoning=0,
        cache_read=0,
        cache_write=0,
        cost=0.0 if code else (input_tokens * price_in + output_tokens * price_out) / 1_000_000,
        project=f"{work}/{_weighted(chance, PROJECTS)}",
    )


def _weighted(chance: random.Random, rows: tuple[tuple[int, str], ...]) -> str:
    return chance.choices([name for _, name in rows], [weight for weight, _ in rows])[0]
