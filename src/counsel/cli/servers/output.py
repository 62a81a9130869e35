"""What `counsel servers …` prints."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from counsel.agents.definitions import AGENTS
from counsel.cli.servers.options import EVERY_SCOPE
from counsel.cli.terminal import output
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer, Listing, problem_text
from counsel.servers.service import Applied, Servers

if TYPE_CHECKING:
    from counsel.servers.plan import Plan


def print_listing(listing: Listing, clients: Collection[str], *, reveal: bool) -> None:
    """Print a table with one column for each of these clients, and for each other client that has a server."""
    columns = [
        name for name in AGENTS if name in clients or any(row.agent == name for row in listing.servers)
    ]
    groups: dict[str, list[ListedServer]] = defaultdict(list)
    for row in listing.servers:
        groups[row.scope].append(row)
    if not listing.servers:
        output.message("No agent has an MCP server in this folder.")
    for scope in EVERY_SCOPE:
        if groups[scope]:
            output.line(f"{scope.capitalize()}")
            output.table(
                ["server", *columns, "target", "notes"], _matrix(groups[scope], columns, reveal=reveal)
            )
            for path in dict.fromkeys(str(row.table.target.path) for row in groups[scope]):
                output.line(f"  {path}")
            output.line()
    _print_waiting(listing)
    _print_problems(listing)


def _matrix(rows: list[ListedServer], columns: list[str], *, reveal: bool) -> list[list[str]]:
    by_name: dict[str, list[ListedServer]] = defaultdict(list)
    for row in rows:
        by_name[row.server.name].append(row)
    return [_row(name, namesakes, columns, reveal=reveal) for name, namesakes in by_name.items()]


def _row(name: str, rows: list[ListedServer], columns: list[str], *, reveal: bool) -> list[str]:
    active = min(rows, key=lambda row: (row.shadowed_by is not None, row.waits_for is not None))
    entry = active.as_dict(reveal=reveal)
    target = entry["url"] or " ".join([entry["command"] or "", *entry["args"]])
    cells = [" ".join(_cell(row) for row in rows if row.agent == agent) for agent in columns]
    notes = [f"differs: {', '.join(active.drift)}"] if active.drift else []
    notes += [f"{row.agent}: shadowed by {row.shadowed_by}" for row in rows if row.shadowed_by]
    return [name, *cells, f"{entry['transport']} {target}", "; ".join(notes)]


_WORDS = {"trust": "untrusted", "approval": "pending"}


def _cell(row: ListedServer) -> str:
    return _WORDS.get(row.state, row.state)


def _print_waiting(listing: Listing) -> None:
    """Explain `untrusted` and `pending`, if the table contains them."""
    waiting = {(row.agent, row.waits_for) for row in listing.servers if row.waits_for and row.enabled}
    for agent, waits_for in sorted(waiting):
        output.message(f"{_WORDS[waits_for]}: {FORMATS[agent].waiting[waits_for]}")


def _print_problems(listing: Listing) -> None:
    for problem in listing.problems:
        output.message(f"problem: {problem_text(problem)}")


def print_applied(applied: Applied, *, as_json: bool) -> None:
    if as_json:
        output.document(applied.as_dict())
        return
    print_diffs(applied.plan, dry_run=applied.dry_run)
    for result in applied.plan.results:
        outcome = f"would be {result.action}" if applied.dry_run else result.action
        output.line(f"{AGENTS[result.agent].label}: {result.name} {outcome} ({result.scope}, {result.path})")
        for warning in result.warnings:
            output.message(f"  note: {warning}")
    if applied.left_out:
        absent = ", ".join(AGENTS[name].label for name in applied.left_out)
        output.message(f"left out, not found here: {absent} (use --agent to add one anyway)")
    if applied.id:
        output.message(f"Undo with: counsel servers undo {applied.id}")


def print_diffs(plan: Plan, *, dry_run: bool) -> None:
    if dry_run:
        for write in plan.diffs():
            output.diff(write["diff"])


def print_history(service: Servers, *, as_json: bool) -> None:
    operations = service.history()
    if as_json:
        output.document({"operations": [operation.as_dict() for operation in operations]})
        return
    if not operations:
        output.message("No changes are recorded.")
    for operation in operations:
        output.line(
            f"{operation.id}  {operation.what}  {', '.join(str(entry.target.path) for entry in operation.entries)}"
        )


def print_places(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        output.line(f"{row['name']}: {AGENTS[row['agent']].label}, {row['scope']} ({row['path']})")
        for key, value in row.items():
            if key not in {"name", "agent", "scope", "path", "writable"} and value not in (None, [], {}):
                output.line(f"  {key}: {_plain(value)}")


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_word, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={_word(item)}" for key, item in value.items())
    return str(value)


def _word(value: object) -> str:
    """The value, in quotes if it would read as several words or as none."""
    if isinstance(value, str) and value and value.isprintable() and not any(map(value.__contains__, " \"',")):
        return value
    return json.dumps(value, ensure_ascii=False)
