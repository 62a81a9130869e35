"""`counsel setup`: counsel's own entry in every installed agent."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from counsel.agents.definitions import WITH_SETUP
from counsel.cli import json_option, user
from counsel.cli.terminal import name_lists, output
from counsel.cli.terminal.confirm import confirm

if TYPE_CHECKING:
    from counsel.cli.setup.plan import Step

_OUTCOMES = {
    "added": "registered in {}",
    "updated": "updated in {}",
    "unchanged": "already registered in {}",
    "removed": "removed from {}",
    "absent": "no counsel entry in {}",
}


@click.command()
@name_lists.agents(WITH_SETUP)
@click.option("--remove", is_flag=True, help="Remove what setup wrote, and nothing else.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the exact changes; write nothing.")
@click.option("--no-check", is_flag=True, help="Do not start the agents to check that they connect.")
@json_option
@click.pass_context
def setup(
    ctx: click.Context,
    *,
    agents: tuple[str, ...],
    remove: bool,
    yes: bool,
    dry_run: bool,
    no_check: bool,
    as_json: bool,
) -> None:
    """Register counsel with the coding agents on this machine, and check that each of them connects.

    Each agent's user configuration gets one entry, `counsel`. You can run it again at any time: it updates an
    outdated entry and leaves a current one alone.
    """
    from counsel.cli.setup.plan import Setup

    planner = Setup(user.caller().settings)
    steps = planner.plan(agents, remove=remove)
    pending = [step for step in steps if step.changes]
    if not as_json:
        _show(steps)
        if not remove:
            _warn_about_cache(steps)
    if pending and not dry_run:
        if not yes:
            _ask(len(pending), as_json=as_json)
        for step in pending:
            planner.apply(step, remove=remove)
    if not (remove or dry_run or no_check):
        _check(steps, as_json=as_json)
    if as_json:
        output.document({"dry_run": dry_run, "agents": [step.as_dict(diff=dry_run) for step in steps]})
    else:
        _print_outcomes(steps, dry_run=dry_run)
        if not agents and all(step.action == "not installed" for step in steps):
            output.message("No agent is installed. Any other MCP client can start `counsel stdio`.")
    none_installed = not remove and all(step.action == "not installed" for step in steps)
    ctx.exit(1 if none_installed or any(step.failed for step in steps) else 0)


def _show(steps: list[Step]) -> None:
    for step in steps:
        if step.changes:
            output.diff(step.diff + "\n")


def _warn_about_cache(steps: list[Step]) -> None:
    from counsel.cli.setup.plan import in_cache

    if in_cache(sys.executable) and any(step.changes for step in steps):
        output.message(
            f"warning: {sys.executable} is in a cache: once it is cleared, the agents cannot start counsel."
        )
        output.message(
            "  Install counsel first (uv tool install, pipx install), then run its `counsel setup`."
        )


def _ask(count: int, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise click.UsageError(
            "Nothing was written: there is no terminal to confirm on. Use --yes, or --dry-run to see the changes."
        )
    confirm(f"Write {'this change' if count == 1 else f'these {count} changes'}?")


def _check(steps: list[Step], *, as_json: bool) -> None:
    import asyncio

    from counsel.cli.setup import verify as setup_verify

    if not as_json and any(setup_verify.has_entry(step) for step in steps):
        output.message("Checking that the agents connect …")
    asyncio.run(setup_verify.check(steps, os.environ))


def _print_outcomes(steps: list[Step], *, dry_run: bool) -> None:
    for step in steps:
        output.message(f"{step.agent.label}: {_outcome(step, dry_run=dry_run)}")


def _outcome(step: Step, *, dry_run: bool) -> str:
    if step.error:
        return f"not changed. {step.error}"
    if step.action == "not installed":
        return f"not installed. {step.message}"
    outcome = _OUTCOMES[step.action].format(step.path)
    if dry_run and step.changes:
        return f"would be {outcome}"
    return f"{outcome}. {step.message}" if step.message else outcome
