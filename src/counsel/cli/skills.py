"""`counsel skills`: list, check and share the agents' skills."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from counsel.agents.definitions import WITH_SKILLS
from counsel.agents.skill_format import SCOPES, Skill
from counsel.cli import ListingGroup, completers, json_option, output
from counsel.cli import name_lists as names
from counsel.cli.confirm import confirm
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.skills.discover import Listing
    from counsel.skills.matrix import Row
    from counsel.skills.share import Sharing, Step
    from counsel.skills.show import SkillDetails

MARKS = {"own": "yes", "shared": "shared", "missing": "-"}


@click.group(cls=ListingGroup)
def skills() -> None:
    """List, check and share the skills of all agents. Without a verb: the list."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may hold bytes that are not UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")


_agents = click.option(
    "--agent",
    "agents",
    multiple=True,
    callback=names.known(WITH_SKILLS),
    shell_complete=names.completed(WITH_SKILLS),
    metavar="AGENT",
    help=f"Only these: {', '.join(WITH_SKILLS)}.",
)
_scopes = click.option(
    "--scope",
    "scopes",
    multiple=True,
    callback=names.known(SCOPES),
    shell_complete=names.completed(SCOPES),
    metavar="SCOPE",
    help=f"Only these: {', '.join(SCOPES)}.",
)
_project = click.option(
    "--project", type=click.Path(file_okay=False), help="The project's folder instead of the current one."
)
_dry = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")


@skills.command("list", short_help="List the skills that each agent would load here.")
@click.argument("text", nargs=-1)
@_agents
@_scopes
@_project
@json_option
def list_(
    *,
    text: tuple[str, ...],
    agents: tuple[str, ...],
    scopes: tuple[str, ...],
    project: str | None,
    as_json: bool,
) -> None:
    """List the skills that each agent would load here; with TEXT, only those that contain all its words."""
    from counsel.skills.discover import list_skills

    listing = list_skills(agents=agents, scopes=scopes, text=" ".join(text), project=project)
    if as_json:
        _document(listing)
        return
    if listing.skills:
        output.table(
            ("agent", "scope", "skill", "state", "description"), [_line(skill) for skill in listing.skills]
        )
    _remarks(listing)
    if not listing.skills:
        output.message("No skill matches." if text or agents or scopes else "No skill found here.")


def _document(listing: Listing) -> None:
    """One skill per line: indented JSON takes Python four times as long."""
    lines = ",\n".join("    " + json.dumps(skill.as_dict(), ensure_ascii=False) for skill in listing.skills)
    problems = json.dumps(list(listing.problems), ensure_ascii=False)
    sys.stdout.write(output.escaped(f'{{\n  "skills": [\n{lines}\n  ],\n  "problems": {problems}\n}}\n'))


def _line(skill: Skill) -> tuple[str, ...]:
    return (
        skill.agent,
        skill.scope,
        _short(skill.command or skill.name),
        _state(skill),
        _short(skill.description),
    )


def _state(skill: Skill) -> str:
    if skill.state != "loaded":
        return skill.state
    codes = [note.code for note in skill.notes]
    return ", ".join(("ok", *codes)) if codes else "ok"


def _short(text: str, most: int = 72) -> str:
    line = output.sanitized(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def _remarks(listing: Listing) -> None:
    """Why some are not loaded, one line each."""
    for skill in listing.skills:
        for note in skill.notes:
            output.message(output.sanitized(f"{skill.agent} {skill.path}: {note.message}"))
    for problem in listing.problems:
        output.message(output.sanitized(problem))


@skills.command(short_help="Skills by agent: which have it, which lack it, which copies differ.")
@_agents
@_project
@json_option
def matrix(*, agents: tuple[str, ...], project: str | None, as_json: bool) -> None:
    """Show skills by agent: which have it, which read it from a shared folder, which lack it, which copies differ."""
    from counsel.skills.discover import list_skills
    from counsel.skills.matrix import skill_matrix

    listing = list_skills(project=project)
    names = list(agents or WITH_SKILLS)
    rows = skill_matrix(listing.skills, names)
    if as_json:
        output.document({"rows": [row.as_dict() for row in rows], "problems": list(listing.problems)})
    elif rows:
        output.table(("skill", *names, "content"), [_matrix_line(row, names) for row in rows])
    else:
        output.message("No skill found here.")


def _matrix_line(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    content = (
        "" if row.copies < 2 else f"{row.copies} copies, {'identical' if row.identical else 'different'}"
    )
    return (_short(row.name), *(MARKS.get(row.cells[name], row.cells[name]) for name in names), content)


@skills.command(short_help="Show one skill and its problems.")
@click.argument("name", shell_complete=completers.skills)
@_agents
@_scopes
@_project
@json_option
def show(
    *, name: str, agents: tuple[str, ...], scopes: tuple[str, ...], project: str | None, as_json: bool
) -> None:
    """Show one skill: its text, files, allowed tools, and a check against the agentskills.io rules.

    NAME is a skill's name, command, folder or path.
    """
    from counsel.skills.show import show_skill

    shown = show_skill(name, agents=agents, scopes=scopes, project=project)
    if as_json:
        output.document(shown.as_dict())
    elif sys.stdout.isatty():
        _render(shown)
    else:
        output.answer(_page(shown) + "\n" + shown.header.body.strip("\n") + "\n")


def _render(shown: SkillDetails) -> None:
    from rich.markdown import Markdown
    from rich.rule import Rule
    from rich.text import Text

    console = output.console()
    console.print(Text(_page(shown)))
    console.print(Rule(style="dim"))
    console.print(Markdown(output.sanitized(shown.header.body)))


def _page(shown: SkillDetails) -> str:
    skill = shown.skill
    facts = {
        "skill": skill.name,
        "agent": f"{skill.agent} ({skill.scope}), {skill.state}",
        "command": skill.command,
        "path": str(skill.path),
        "links to": str(skill.real) if skill.real != skill.path else None,
        "plugin": f"{skill.plugin} {skill.version or ''}".strip() if skill.plugin else None,
        "describes": shown.header.text("description") or None,
        "tools": ", ".join(shown.tools) or None,
        "license": shown.header.text("license") or None,
    }
    lines = [f"{key + ':':<11}{' '.join(value.split())}" for key, value in facts.items() if value]
    lines += [f"problem:   {note.message}" for note in skill.notes]
    lines += [
        f"also:      {other.agent} ({other.scope}) {other.path}, {other.state}" for other in shown.others
    ]
    lines += [f"file:      {path} ({counted(size, 'byte')})" for path, size in shown.files]
    wrong = [finding for finding in shown.findings if not finding.ok]
    lines += [f"fix:       {finding.message}. {finding.fix}" for finding in wrong]
    if not wrong:
        lines.append("check:     follows the agentskills.io rules")
    return output.sanitized("\n".join(lines))


@skills.command(short_help="Share a skill with other agents, or undo that.")
@click.argument("name", shell_complete=completers.skills)
@click.option(
    "--to",
    multiple=True,
    callback=names.known(WITH_SKILLS),
    shell_complete=names.completed(WITH_SKILLS),
    metavar="AGENT",
    help="The agents to share with, separated by commas.",
)
@click.option("--everywhere", is_flag=True, help="Share with every agent.")
@click.option(
    "--scope",
    type=click.Choice(("user", "project")),
    help="Skills folder to use: yours or the project's.  [default: user]",
)
@click.option("--copy", is_flag=True, help="Copy instead of linking.")
@click.option("--remove", is_flag=True, help="Remove what was shared, and nothing else.")
@click.option(
    "--yes", is_flag=True, help="Replace what is in the way without asking; it is moved to the backups."
)
@_dry
@_project
@json_option
def share(
    name: str,
    to: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    copy: bool,
    remove: bool,
    yes: bool,
    dry_run: bool,
    project: str | None,
    as_json: bool,
) -> None:
    """Share a skill with other agents: put a link (or copy) where each of them looks."""
    from counsel.skills.share import share_skill
    from counsel.skills.unshare import unshare_skill

    if remove:
        done = unshare_skill(name, to=() if everywhere else to, scope=scope, dry_run=dry_run, project=project)
        _report(done, dry_run=dry_run, as_json=as_json)
        return
    if bool(to) == everywhere:
        raise click.UsageError(f"Name the agents: --to AGENT ({', '.join(WITH_SKILLS)}) or --everywhere.")
    options: dict[str, Any] = {"to": to, "scope": scope or "user", "copy": copy, "project": project}
    plan = share_skill(name, **options, dry_run=True)
    if not dry_run:
        replace_existing = yes or _confirmed(plan.steps, ask=not as_json)
        plan = share_skill(name, **options, replace_existing=replace_existing)
    _report(plan, dry_run=dry_run, as_json=as_json)


def _confirmed(steps: Sequence[Step], *, ask: bool) -> bool:
    """Ask about what is in the way; without a terminal, `share_skill` refuses."""
    blocked = [step for step in steps if step.blocked]
    if not blocked or not (ask and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for step in blocked:
        output.message(step.message)
    note = " What is replaced is moved to the backups." if any(s.fate == "replace" for s in blocked) else ""
    confirm(f"Continue?{note}")
    return True


@skills.command()
@click.argument("identity", required=False, metavar="[ID]")
@_dry
@json_option
def undo(*, identity: str | None, dry_run: bool, as_json: bool) -> None:
    """Undo the last `share`, or the one with this ID."""
    from counsel.skills.unshare import undo_sharing

    _report(undo_sharing(identity, dry_run=dry_run), dry_run=dry_run, as_json=as_json)


FATES = {
    "share": "would {kind}",
    "beside": "would {kind}",
    "replace": "would replace",
    "already": "already",
    "shared": "{kind} made",
    "replaced": "replaced",
    "removed": "removed",
    "kept": "left alone",
}


def _report(done: Sharing, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.document({**done.as_dict(), "dry_run": dry_run})
        return
    rows = [
        (", ".join(step.agents), _fate(step, dry_run=dry_run), str(step.path), step.message)
        for step in done.steps
    ]
    output.table(("for", "what", "where", "remark"), rows)
    for step in done.steps:
        if step.backup:
            output.message(f"{step.path}: the previous content is in {step.backup}")
    for warning in done.warnings:
        output.message(warning)
    if done.id and any(step.fate in {"shared", "replaced"} for step in done.steps):
        output.message(f"Undo with: counsel skills undo {done.id}")


def _fate(step: Step, *, dry_run: bool) -> str:
    text = FATES[step.fate].format(kind=step.kind)
    return f"would be {text}" if dry_run and step.fate == "removed" else text
