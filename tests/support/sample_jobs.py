"""Made-up conversations, a consensus and jobs, asked of the fake vendors through the API."""

from __future__ import annotations

from support.browser import Console

STABLE = """\
Yes. `sorted()` is **stable**: items that compare equal keep their order.

```python
pairs = [("b", 1), ("a", 2), ("b", 0)]
sorted(pairs, key=lambda pair: pair[0])
# [('a', 2), ('b', 1), ('b', 0)]
```

| sort | stable | since |
|---|---|---|
| `sorted` | yes | Python 2.3 |
| `list.sort` | yes | Python 2.3 |

So you can sort by the minor key first, then by the major one.
"""
OPINIONS = {
    "gpt": """\
**Start with a modular monolith.**

Five people share one on-call rota, one pipeline and one database. Each service that you add needs its own deployment, dashboards, alerts and a versioned interface, and none of that ships a feature.

1. Keep orders, catalog and payments in separate packages.
2. Let them talk through small interfaces, never through each other's tables.
3. Split a package off when *two* teams wait for each other's releases.

The main risk is erosion: without a check, boundaries that exist only in a diagram are gone within a year.
""",
    "claude": """\
**A monolith, with boundaries that the build enforces.**

What services would buy you is independent deployment. With five people nobody waits for another team's release, so you would pay for something that you cannot use.

- One repository, one database, one schema per module
- An import check in CI: `catalog` must not import `orders`
- Background work in a queue from the first day, since that is the first part you will want to scale on its own

Payments are the exception to think about: a separate service keeps the audited code small.
""",
    "gemini": """\
**Services, but only two.**

Put payments behind their own API now, because the audit covers everything that shares a process with card data. Leave the rest in one application.

| part | where | why |
|---|---|---|
| payments | service | smaller audit |
| catalog, orders | application | they change together |

Moving payments out later means moving live card data, which is the migration that you do not want.
""",
}
REFINED = {
    "gpt": """\
**Start with a modular monolith, and decide about payments first.**

Five people share one on-call rota, one pipeline and one database. Each service that you add needs its own deployment, dashboards, alerts and a versioned interface, and none of that ships a feature.

1. Keep orders, catalog and payments in separate packages.
2. Let them talk through small interfaces, and let CI refuse an import that crosses them.
3. Split a package off when *two* teams wait for each other's releases.

One answer names a reason that I had missed: if you store card data, the audit covers the whole process, and payments should be a service from the start. If a provider hosts the card form, it should not.
""",
    "claude": """\
**A monolith, with boundaries that the build enforces.**

What services would buy you is independent deployment. With five people nobody waits for another team's release, so you would pay for something that you cannot use.

- One repository, one database, one schema per module
- An import check in CI: `catalog` must not import `orders`
- Background work in a queue from the first day, since that is the first part you will want to scale on its own

Payments become a service only if card data passes through your own machines; with a hosted form they stay a module.
""",
    "gemini": """\
**A monolith with strict modules; payments outside only if you touch card data.**

My first answer assumed that you process cards yourselves. Most shops of this size use a provider's hosted form, and then the audit is a questionnaire: the case for a second service is gone.

What remains is the shared point of all three answers: modules with interfaces, one schema each, and a check in CI that keeps them apart.
""",
}
QUESTIONS = (
    (
        "gpt-5-nano",
        "Write a regular expression for a semantic version.",
        "`^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$`, without pre-release tags.",
        0.8,
    ),
    (
        "opus-latest",
        "Why does the nightly import run twice on Sundays?",
        "The weekly schedule on line 14 also matches Sunday night: both entries start the same job.",
        3.1,
    ),
    (
        "gemini-latest",
        "Is this migration safe on a table with 40 million rows?",
        "Not as written: the new column with a default rewrites the table. Add it without, then backfill in batches.",
        2.2,
    ),
    (
        "gpt-5",
        "Summarise the changes of the last release for customers.",
        "Faster search, saved carts, and invoices as PDF. Nothing that you use today has moved.",
        1.6,
    ),
)
MEMBERS = ("gpt-5", "opus-latest", "gemini-latest")
SECONDS = {"gpt": 1.9, "claude": 2.6, "gemini": 1.4}


def ask(console: Console, pace: float = 0.0) -> dict[str, str]:
    """Ask and wait. Return the ids of the conversation with code, of the consensus and of a failed job.

    With a pace of 1 the answers take seconds, like those of the vendors.
    """
    vendors = console.vendors
    vendors.script(
        text=STABLE, contains="sorted", times=None, latency=1.2 * pace, usage={"input": 412, "output": 186}
    )
    vendors.script(status=400, message="The prompt is not allowed.", contains="refused", times=None)
    for answers, phrase, input_tokens in (
        (REFINED, "asked the same question", 1480),
        (OPINIONS, "Monolith", 520),
    ):
        for model, text in answers.items():
            vendors.script(
                text=text,
                model=model,
                contains=phrase,
                times=None,
                latency=SECONDS[model] * pace,
                usage={"input": input_tokens, "output": len(text) // 4},
            )
    stable = console.ask("Is Python's sorted() stable?")
    jobs = [stable]
    for model, question, answer, seconds in QUESTIONS:
        usage = {"input": 40 * len(question), "output": 3 * len(answer)}
        vendors.script(text=answer, contains=question, times=None, latency=seconds * pace, usage=usage)
        jobs.append(console.ask(question, model=model))
    consensus = console.ask("Monolith or services, for a team of five?", models=list(MEMBERS))
    failed_job = console.ask("This one is refused.")
    for job in (*jobs, consensus, failed_job):
        console.api("GET", f"/api/jobs/{job}/events", parse=False)  # ends with the job
    conversation = console.api("GET", f"/api/jobs/{stable}")["result"]["continuation"]["id"]
    return {"conversation": conversation, "job": stable, "consensus": consensus, "failed": failed_job}
