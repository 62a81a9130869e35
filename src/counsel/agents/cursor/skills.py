"""The skills that Cursor loads: its documented folders, and the rules of its own SDK (PyPI `cursor-sdk` 1.1.0).

Cursor's command line is not on the package registries, so this is checked against the documentation only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from counsel.agents.definitions import Workspace
from counsel.agents.skill_format import Root, Scope, Skill
from counsel.agents.skill_scanner import SearchRules, SkillPath, SkillScanner
from counsel.configfiles.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError
from counsel.configfiles.yaml.read import parse

AGENT = "cursor"
FOLDERS = (".cursor", ".claude", ".codex", ".agents")  # if several have the same skill, the first is used
DEEP = SearchRules(depth=10, at_root=True, skip=frozenset({"node_modules", "__pycache__", "dist", "build"}))
# Codex installs these itself; Cursor ignores them.
OF_CODEX = {"imagegen", "openai-docs", "opneai-docs", "plugin-creator", "skill-creator", "skill-installer"}
DIALECT = Dialect(duplicate_keys=False, unknown_tags=False, loose_quotes=True, tight_comments=True)


def user_folder(workspace: Workspace) -> Path:
    return workspace.home / ".agents" / "skills"


def project_folder(workspace: Workspace) -> Path:
    return workspace.project / ".agents" / "skills"


def skills(workspace: Workspace, scanner: SkillScanner) -> list[Skill]:
    winners: dict[tuple[Path, str], Path] = {}
    candidates: list[Skill] = []
    for root in _roots(workspace):
        base, top = root.path.parents[1], len(str(root.path))
        for path in _search(root, scanner):
            skill = _skill(root, path, scanner)
            # the same path in two of the folders is one skill
            winner = winners.setdefault((base, path.path[top:]), skill.path)
            candidates.append(skill if winner is skill.path else _shadowed(skill, winner))
    return candidates


def _roots(workspace: Workspace) -> Iterator[Root]:
    bases: list[tuple[Path, Scope]] = [(workspace.project, "project"), (workspace.home, "user")]
    if os.path.realpath(workspace.project) == os.path.realpath(workspace.home):
        bases = bases[1:]
    for base, scope in bases:
        for folder in FOLDERS:
            yield Root(base / folder / "skills", scope, shared=folder != ".cursor")


def _search(root: Root, scanner: SkillScanner) -> Iterator[SkillPath]:
    of_codex = root.path.parent.name == ".codex"
    for path in scanner.search(root.path, DEEP):
        if not of_codex or Path(path.path).parent.name not in OF_CODEX:
            yield path


def _skill(root: Root, path: SkillPath, scanner: SkillScanner) -> Skill:
    file = scanner.file(path.real)
    name = os.path.basename(os.path.dirname(path.path))
    fields, problem = header(file.text)
    description = fields.get("description")
    text = description.text if isinstance(description, Scalar) and not description.null else ""
    by_model = not _is_true(fields.get("disable-model-invocation"))
    skill = Skill(
        AGENT,
        root.scope,
        name,
        text.strip(),
        scanner.path(path.path),
        scanner.path(path.real),
        f"/{name}",
        model=by_model,
        shared=root.shared,
    )
    if file.failure:
        problem = f"it cannot be read: {file.failure}"
    elif not problem and not text and by_model and not _is_true(fields.get("alwaysApply")):
        problem = "no description (it is required unless disable-model-invocation is true)"
    return (
        skill.with_note("refused", f"Cursor rejects it: {problem}.", "refused", command=None)
        if problem
        else skill
    )


def header(text: str) -> tuple[dict[str, Node], str]:
    """The fields, and the reason if they cannot be read. An unclosed header extends to the end of the file."""
    text = text.removeprefix("\ufeff")
    if not text.startswith("---") or text.startswith("----"):
        return {}, ""
    block = re.sub(r"\A[^\n]*", "", text[3:], count=1).partition("\n---")[0]
    if not re.sub(r"(?m)^\s*#[^\n]+", "", block).strip():
        return {}, ""
    try:
        node = parse(block, DIALECT)
    except YamlError as error:
        return {}, f"invalid frontmatter ({error})"
    return (node.items, "") if isinstance(node, Mapping) else ({}, "")


def _is_true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text in {"true", "True", "TRUE"}


def _shadowed(skill: Skill, winner: Path) -> Skill:
    return skill.with_note(
        "duplicate", f"duplicate: {winner} is used instead.", "shadowed", shadowed_by=winner
    )
