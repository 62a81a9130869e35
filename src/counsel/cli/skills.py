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
from counsel.cli import ListingGroup, completers, json_option
from counsel.cli.terminal import name_lists as names
from counsel.cli.terminal import output
from counsel.cli.terminal.confirm import confirm
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
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may contain bytes that are not UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")


_agents = click.option(
    "--agent",
    "agents",
    multiple=True,
    callback=names.parser(WITH_SKILLS),
    shell_complete=names.completer(WITH_SKILLS),
    metavar="AGENT",
    help=f"Use only these agents: {', '.join(WITH_SKILLS)}.",
)
_scopes = click.option(
    "--scope",
    "scopes",
    multiple=True,
    callback=names.parser(SCOPES),
    shell_complete=names.completer(SCOPES),
    metavar="SCOPE",
    help=f"Use only these scopes: {', '.join(SCOPES)}.",
)
_project = click.option(
    "--project", type=click.Path(file_okay=False), help="The project's folder instead of the current one."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")


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
    _print_notes(listing)
    if not listing.skills:
        output.message("No skill matches." if text or agents or scopes else "No skill found here.")


def _document(listing: Listing) -> None:
    """Print one skill per line: indented JSON takes Python four times as long."""
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


def _short(text: str, limit: int = 72) -> str:
    line = output.sanitized(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _print_notes(listing: Listing) -> None:
    """Print why skills are not loaded, one line each."""
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

    details = show_skill(name, agents=agents, scopes=scopes, project=project)
    if as_json:
        output.document(details.as_dict())
    elif sys.stdout.isatty():
        _render(details)
    else:
        output.answer(_page(details) + "\n" + details.header.body.strip("\n") + "\n")


def _render(details: SkillDetails) -> None:
    from rich.markdown import Markdown
    from rich.rule import Rule
    from rich.text import Text

    console = output.console()
    console.print(Text(_page(details)))
    console.print(Rule(style="dim"))
    console.print(Markdown(output.sanitized(details.header.body)))


def _page(details: SkillDetails) -> str:
    skill = details.skill
    facts = {
        "skill": skill.name,
        "agent": f"{skill.agent} ({skill.scope}), {skill.state}",
        "command": skill.command,
        "path": str(skill.path),
        "links to": str(skill.real) if skill.real != skill.path else None,
        "plugin": f"{skill.plugin} {skill.version or ''}".strip() if skill.plugin else None,
        "describes": details.header.text("description") or None,
        "tools": ", ".join(details.tools) or None,
        "license": details.header.text("license") or None,
    }
    lines = [f"{key + ':':<11}{' '.join(value.split())}" for key, value in facts.items() if value]
    lines += [f"problem:   {note.message}" for note in skill.notes]
    lines += [
        f"also:      {duplicate.agent} ({duplicate.scope}) {duplicate.path}, {duplicate.state}"
        for duplicate in details.others
    ]
    lines += [f"file:      {path} ({counted(size, 'byte')})" for path, size in details.files]
    violations = [finding for finding in details.findings if not finding.ok]
    lines += [f"fix:       {finding.message}. {finding.fix}" for finding in violations]
    if not violations:
        lines.append("check:     follows the agentskills.io rules")
    return output.sanitized("\n".join(lines))


@skills.command(short_help="Share a skill with other agents, or stop sharing it.")
@click.argument("name", shell_complete=completers.skills)
@click.option(
    "--to",
    multiple=True,
    callback=names.parser(WITH_SKILLS),
    shell_complete=names.completer(WITH_SKILLS),
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
    "--yes", is_flag=True, help="Replace conflicting files without asking; they are moved to the backups."
)
@_dry_run
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
        sharing = unshare_skill(
            name, to=() if everywhere else to, scope=scope, dry_run=dry_run, project=project
        )
        _report(sharing, dry_run=dry_run, as_json=as_json)
        return
    if bool(to) == everywhere:
        raise click.UsageError(f"Name the agents: --to AGENT ({', '.join(WITH_SKILLS)}) or --everywhere.")
    options: dict[str, Any] = {"to": to, "scope": scope or "user", "copy": copy, "project": project}
    plan = share_skill(name, **options, dry_run=True)
    if not dry_run:
        replace_existing = yes or _confirm_conflicts(plan.steps, ask=not as_json)
        plan = share_skill(name, **options, replace_existing=replace_existing)
    _report(plan, dry_run=dry_run, as_json=as_json)


def _confirm_conflicts(steps: Sequence[Step], *, ask: bool) -> bool:
    """Ask whether to replace what is in the way; without a terminal, `share_skill` refuses."""
    conflicts = [step for step in steps if step.blocked]
    if not conflicts or not (ask and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for step in conflicts:
        output.message(step.message)
    note = " Replaced files are moved to the backups." if any(s.fate == "replace" for s in conflicts) else ""
    confirm(f"Continue?{note}")
    return True


@skills.command()
@click.argument("identity", required=False, metavar="[ID]")
@_dry_run
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


def _report(sharing: Sharing, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.document({**sharing.as_dict(), "dry_run": dry_run})
        return
    rows = [
        (", ".join(step.agents), _fate(step, dry_run=dry_run), str(step.path), step.message)
        for step in sharing.steps
    ]
    output.table(("agents", "action", "path", "note"), rows)
    for step in sharing.steps:
        if step.backup:
            output.message(f"{step.path}: the previous content is in {step.backup}")
    for warning in sharing.warnings:
        output.message(warning)
    if sharing.id and any(step.fate in {"shared", "replaced"} for step in sharing.steps):
        output.message(f"Undo with: counsel skills undo {sharing.id}")


def _fate(step: Step, *, dry_run: bool) -> str:
    text = FATES[step.fate].format(kind=step.kind)
    return f"would be {text}" if dry_run and step.fate == "removed" else text
