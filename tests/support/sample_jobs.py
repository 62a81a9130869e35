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
    "gpt": "**A modular monolith.** Five people cannot run twelve services. Split when a team owns a part.",
    "claude": "**A monolith with enforced boundaries.** Services buy independent deploys, which you do not need yet.",
}
REFINED = {
    "gpt": "**A modular monolith with enforced boundaries.** Five people cannot run twelve services; checks in CI keep the parts apart.",
    "claude": "**A monolith with enforced boundaries.** Services buy independent deploys, which five people do not need yet.",
}
QUESTIONS = (
    "Why does the nightly import run twice on Sundays?",
    "Write a regular expression for a semantic version.",
    "Is this migration safe on a table with 40 million rows?",
    "Summarise the changes of the last release for customers.",
)


def ask(console: Console) -> dict[str, str]:
    """Asks and waits; the ids of the conversation with code, of the consensus and of a job that failed."""
    vendors = console.vendors
    vendors.script(text=STABLE, contains="sorted", times=None)
    vendors.script(status=400, message="The prompt is not allowed.", contains="refused", times=None)
    for model, text in OPINIONS.items():
        vendors.script(text=text, model=model, contains="Monolith", times=None)
    for model, text in REFINED.items():
        vendors.script(text=text, model=model, contains="asked the same question", times=None)
    stable = console.ask("Is Python's sorted() stable?")
    jobs = [stable, *(console.ask(question) for question in QUESTIONS)]
    consensus = console.ask("Monolith or services, for a team of five?", models=["gpt-5", "opus-latest"])
    failed = console.ask("This one is refused.")
    for job in (*jobs, consensus, failed):
        console.api("GET", f"/api/jobs/{job}/events", parse=False)  # ends with the job
    conversation = console.api("GET", f"/api/jobs/{stable}")["result"]["continuation"]["id"]
    return {"conversation": conversation, "job": stable, "consensus": consensus, "failed": failed}
