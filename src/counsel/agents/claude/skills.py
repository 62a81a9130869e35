"""The skills that Claude Code loads, measured with 2.1.325 (docs/use/skills.md).

Its own `init` message lists them: `slash_commands` are those that a user can call, `skills` those of them whose
description says when to use them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from counsel import paths
from counsel.agents.claude.folders import settings_files
from counsel.agents.claude.plugins import plugin_roots
from counsel.agents.definitions import Workspace
from counsel.agents.skill_format import Root, Skill
from counsel.agents.skill_scanner import SKILL_FILE, SearchRules, SkillFile, SkillPath, SkillScanner
from counsel.configfiles.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError, node_text
from counsel.configfiles.yaml.read import parse

AGENT = "claude"
LARGEST = 1_000_000  # bytes; a larger SKILL.md is not loaded
MANAGED = Path("/etc/claude-code/.claude/skills")
ONE_LEVEL = SearchRules(depth=1, hidden=True, stop_at_loops=False)
DIALECT = Dialect(tabs=True, controls=True, comma_starts=True, empty_keys=True)

# The header ends at the first `---` after it begins, wherever in a line that is.
_HEADER = re.compile(r"---\s*\n([\s\S]*?)---")
_PAIR = re.compile(r"([a-zA-Z_-]+):\s+(.+)")
_SPECIAL = re.compile(r"[{}\[\]*&#!|>%@`]|: ")
_TRUE = {"true", "1", "yes", "on"}


def user_folder(workspace: Workspace) -> Path:
    return workspace.claude_dir() / "skills"


def project_folder(workspace: Workspace) -> Path:
    return workspace.project / ".claude" / "skills"


def skills(workspace: Workspace, scanner: SkillScanner) -> list[Skill]:
    settings = _settings(workspace, scanner)
    candidates = [
        _skill(root, path, scanner, direct=_is_own_skill(root, path))
        for root in _roots(workspace, scanner, settings)
        for path in _search(root, scanner)
    ]
    return _resolve_duplicates(candidates, _switched_off(settings))


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────


def _roots(workspace: Workspace, scanner: SkillScanner, settings: list[dict[str, object]]) -> Iterator[Root]:
    """The folders in order of precedence: of two skills with one name, the earlier is used."""
    yield Root(MANAGED, "admin")
    yield Root(user_folder(workspace), "user")
    for folder in _upwards(workspace):
        yield Root(folder / ".claude" / "skills", "project")
    yield from plugin_roots(workspace, scanner, settings)


def _upwards(workspace: Workspace) -> Iterator[Path]:
    """The folders from the project's up to the git root; outside a repository, up to the home folder or the top."""
    home = Path(os.path.realpath(workspace.home))
    for folder in (workspace.project, *workspace.project.parents):
        if Path(os.path.realpath(folder)) == home:
            return
        yield folder
        if paths.exists(folder / ".git"):
            return


def _settings(workspace: Workspace, scanner: SkillScanner) -> list[dict[str, object]]:
    return [scanner.json(path) for path in settings_files(workspace)]


def _search(root: Root, scanner: SkillScanner) -> Iterator[SkillPath]:
    """A plugin folder with its own SKILL.md is one skill; any other folder has one per subfolder."""
    own = root.path / SKILL_FILE
    if root.plugin and own.is_file():
        yield SkillPath(str(own), os.path.realpath(own))
    else:
        yield from scanner.search(root.path, ONE_LEVEL)


def _is_own_skill(root: Root, path: SkillPath) -> bool:
    return bool(root.plugin) and Path(path.path).parent == root.path


# ── one skill ────────────────────────────────────────────────────────────────────────────────────────


def _skill(root: Root, path: SkillPath, scanner: SkillScanner, *, direct: bool) -> Skill:
    file = scanner.file(path.real)
    fields = header(file.text)
    folder = os.path.basename(os.path.dirname(path.path))
    name = (_text(fields.get("name")) or folder) if direct else folder
    if root.plugin:
        name = f"{root.prefix}:{plain_name(name)}"
    description = _text(fields.get("description")) or node_text(fields.get("when_to_use"))
    skill = Skill(
        AGENT,
        root.scope,
        name,
        description,
        scanner.path(path.path),
        scanner.path(path.real),
        f"/{name}" if _is_invocable(fields.get("user-invocable")) else None,
        model=bool(description) and not _is_true(fields.get("disable-model-invocation")),
        plugin=root.plugin,
        version=root.version,
    )
    return _with_problems(skill, file)


def _with_problems(skill: Skill, file: SkillFile) -> Skill:
    if file.failure:
        return skill.with_note(
            "unreadable", f"Claude cannot read it: {file.failure}.", "refused", command=None
        )
    if file.size > LARGEST:
        message = f"SKILL.md has {file.size:,} bytes, too large: Claude loads at most {LARGEST:,}."
        return skill.with_note("too-large", message, "refused", command=None)
    if not skill.description:
        message = "no description: Claude offers it only as a slash command and never chooses it on its own."
        skill = skill.with_note("no-description", message)
    if skill.command is None:
        skill = skill.with_note("not-invocable", "user-invocable is off: only the model can use it.")
    return skill


def header(text: str) -> dict[str, Node]:
    """The fields as Claude reads them: as YAML, or as YAML with ambiguous values quoted, or none."""
    block = _HEADER.match(text.removeprefix("\ufeff"))
    if not block:
        return {}
    for attempt in (block[1], _quoted(block[1])):
        try:
            node = parse(attempt, DIALECT)
        except YamlError:
            continue
        return node.items if isinstance(node, Mapping) else {}
    return {}


def _quoted(text: str) -> str:
    return "\n".join(_quoted_line(line) for line in text.split("\n"))


def _quoted_line(line: str) -> str:
    pair = _PAIR.fullmatch(line)
    if not pair or not _SPECIAL.search(pair[2]):
        return line
    value = pair[2]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return line
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{pair[1]}: "{escaped}"'


def plain_name(name: str) -> str:
    """The name of a plugin's skill: all but letters, digits, `_` and `-` become `-`, per UTF-16 unit."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: "-" * (len(match[0].encode("utf-16-le")) // 2), name)


def _text(node: Node | None) -> str:
    return node.text.strip() if isinstance(node, Scalar) and not node.null else ""


def _is_invocable(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and node.text.strip().lower() in _TRUE)


def _is_true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.text.strip().lower() in _TRUE


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────────


def _switched_off(settings: list[dict[str, object]]) -> set[str]:
    values: dict[str, object] = {}
    for layer in settings:
        if isinstance(overrides := layer.get("skillOverrides"), dict):
            values |= overrides
    return {name for name, value in values.items() if value == "off"}


def _resolve_duplicates(skills: list[Skill], off: set[str]) -> list[Skill]:
    """Each file counts once, however often it is linked; of several skills with one name, the first is used."""
    files: dict[Path, Skill] = {}
    names: dict[str, Skill] = {}
    results: list[Skill] = []
    for skill in skills:
        if skill.state != "loaded":
            results.append(skill)
        elif (first := files.setdefault(skill.real, skill)) is not skill:
            message = f"duplicate: the same file is already loaded as {first.name!r} from {first.folder}."
            results.append(skill.with_note("same-file", message, "shadowed", shadowed_by=first.path))
        elif (first := names.setdefault(skill.name, skill)) is not skill:
            message = f"duplicate name: {first.path} is used instead."
            results.append(skill.with_note("duplicate", message, "shadowed", shadowed_by=first.path))
        elif skill.name in off:
            message = "disabled by skillOverrides in Claude's settings."
            results.append(skill.with_note("disabled", message, "disabled"))
        else:
            results.append(skill)
    return results
