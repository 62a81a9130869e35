"""The skills that Gemini CLI loads, as `gemini skills list --all` prints them (0.61.0; docs/use/skills.md)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from counsel.agents import trust
from counsel.agents.definitions import AGENTS, Workspace, locate
from counsel.agents.detect import inside, without_comments
from counsel.agents.skill_format import Root, Skill
from counsel.agents.skill_scanner import SearchRules, SkillFile, SkillPath, SkillScanner, settings_text
from counsel.configfiles.yaml.nodes import Dialect, Mapping, Scalar, YamlError
from counsel.configfiles.yaml.read import parse

AGENT = "gemini"
TWO_LEVELS = SearchRules(depth=1, at_root=True, skip=frozenset({"node_modules", ".git"}), stop_at_loops=False)
DIALECT = Dialect(duplicate_keys=False, unknown_tags=False, loose_quotes=True, tight_comments=True)

_HEADER = re.compile(r"---\r?\n([\s\S]*?)\r?\n---")
_SPACE = r"[\s\ufeff]"
_NAME = re.compile(rf"{_SPACE}*name:{_SPACE}*(.*)")
_DESCRIPTION = re.compile(rf"{_SPACE}*description:{_SPACE}*(.*)")
# Plain values that YAML does not read as strings: then Gemini reads the lines itself.
_NOT_TEXT = re.compile(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE"
    r"|[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*)"
    r"|[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9_]+)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?"
)


def user_folder(workspace: Workspace) -> Path:
    return _home(workspace) / ".agents" / "skills"


def project_folder(workspace: Workspace) -> Path:
    return workspace.project / ".agents" / "skills"


def skills(workspace: Workspace, scanner: SkillScanner) -> list[Skill]:
    settings = [
        _settings(folder / "settings.json", scanner)
        for folder in (workspace.gemini_dir(), workspace.project / ".gemini")
    ]
    trusted = _trusted(workspace, scanner)
    candidates = [
        _skill(root, path, scanner, trusted=trusted or root.scope != "project")
        for root in _roots(workspace, scanner)
        for path in _in_order(root, scanner)
    ]
    return _resolve_duplicates(candidates, settings)


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────


def _home(workspace: Workspace) -> Path:
    return workspace.gemini_dir().parent  # GEMINI_CLI_HOME moves `.agents`, too


def _roots(workspace: Workspace, scanner: SkillScanner) -> Iterator[Root]:
    """The folders of skills. Of two skills with one name, the later wins."""
    if program := locate(AGENTS[AGENT], workspace.env):
        yield Root(Path(os.path.realpath(program)).parent / "builtin", "system")
    extensions = workspace.gemini_dir() / "extensions"
    for entry in scanner.entries(str(extensions)):
        folder = extensions / entry.name
        manifest = _settings(folder / "gemini-extension.json", scanner) if entry.folder else {}
        if isinstance(name := manifest.get("name"), str):
            version = manifest.get("version")
            yield Root(
                folder / "skills",
                "plugin",
                plugin=name,
                version=version if isinstance(version, str) else None,
            )
    yield Root(workspace.gemini_dir() / "skills", "user")
    yield Root(user_folder(workspace), "user", shared=True)
    if Path(os.path.realpath(workspace.project)) != Path(os.path.realpath(_home(workspace))):
        yield Root(workspace.project / ".gemini" / "skills", "project")
        yield Root(project_folder(workspace), "project", shared=True)


def _in_order(root: Root, scanner: SkillScanner) -> Iterator[SkillPath]:
    """In Gemini's usual order: the folder's own SKILL.md first, then the subfolders from last to first.

    Its search runs in parallel, so which of two equal names in one folder wins can differ between starts.
    """
    paths = list(scanner.search(root.path, TWO_LEVELS))
    own = [path for path in paths if os.path.dirname(path.path) == str(root.path)]
    yield from own
    yield from reversed([path for path in paths if path not in own])


def _settings(path: Path, scanner: SkillScanner) -> dict[str, object]:
    """A settings file of Gemini's, which may have comments."""
    try:
        text = settings_text(path)
        if "//" not in text and "/*" not in text:
            return scanner.json(path)
        value = json.loads(without_comments(text))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        scanner.problems.append(f"{path}: cannot be read ({error}); ignored.")
        return {}
    return value if isinstance(value, dict) else {}


def _trusted(workspace: Workspace, scanner: SkillScanner) -> bool:
    """Whether Gemini reads the project's skills at all. Reports a list of trusted folders that cannot be read."""
    _settings(trust.gemini_rules_file(workspace), scanner)
    return trust.by_agent(AGENT, workspace) is True


# ── one skill ────────────────────────────────────────────────────────────────────────────────────────


def _skill(root: Root, path: SkillPath, scanner: SkillScanner, *, trusted: bool) -> Skill:
    file = scanner.file(path.real)
    fields = header(file.text)
    name = re.sub(r'[:\\/<>*?"|]', "-", fields[0]) if fields else os.path.basename(os.path.dirname(path.path))
    skill = Skill(
        AGENT,
        root.scope,
        name,
        fields[1].strip() if fields else "",
        scanner.path(path.path),
        scanner.path(path.real),
        f"/{name}",
        shared=root.shared,
        plugin=root.plugin,
        version=root.version,
    )
    return _with_problems(skill, file, fields, trusted=trusted)


def _with_problems(skill: Skill, file: SkillFile, fields: tuple[str, str] | None, *, trusted: bool) -> Skill:
    if file.failure and not file.regular:
        message = f"{file.failure}: Gemini CLI waits for it and does not start."
        return skill.with_note("not-a-file", message, "refused", command=None)
    if file.failure:
        return skill.with_note(
            "unreadable", f"Gemini cannot read it: {file.failure}.", "refused", command=None
        )
    if fields is None:
        return skill.with_note(
            "refused", f"Gemini ignores it: {_why_dropped(file.text)}.", "refused", command=None
        )
    if not trusted:
        message = "the folder is not trusted: Gemini loads its skills once you tell `gemini` to trust it."
        return skill.with_note("untrusted", message, "untrusted", command=None)
    if not skill.name.strip():
        skill = skill.with_note("no-name", "the name is empty: it cannot be called.")
    if not skill.description:
        skill = skill.with_note("no-description", "no description: Gemini does not know when to use it.")
    return skill


def _why_dropped(text: str) -> str:
    if text.startswith("\ufeff"):
        return "it starts with a byte-order mark"
    if not re.match(r"---\r?\n", text):
        return "no frontmatter (the first line must be exactly `---`)"
    if not _HEADER.match(text):
        return "the frontmatter is not closed by a line `---`"
    return "the frontmatter has no name or no description"


def header(text: str) -> tuple[str, str] | None:
    """The name and description: from YAML if both are strings in it, else from the lines that start with these keys."""
    block = _HEADER.match(text)
    if not block:
        return None
    try:
        node = parse(block[1], DIALECT)
    except YamlError:
        return by_lines(block[1])
    name, description = (_string(node, key) for key in ("name", "description"))
    return by_lines(block[1]) if name is None or description is None else (name, description)


def _string(node: object, key: str) -> str | None:
    value = node.items.get(key) if isinstance(node, Mapping) else None
    if not isinstance(value, Scalar) or (value.plain and _NOT_TEXT.fullmatch(value.text)):
        return None
    return value.text


def by_lines(block: str) -> tuple[str, str] | None:
    name: str | None = None
    description: str | None = None
    lines = re.split(r"\r?\n", block)
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if match := _NAME.fullmatch(line):
            name = match[1].strip()
        elif match := _DESCRIPTION.fullmatch(line):
            parts = [match[1].strip()]
            while number < len(lines) and re.match(r"[ \t]+\S", lines[number]):
                parts.append(lines[number].strip())
                number += 1
            description = " ".join(filter(None, parts))
    return None if name is None or description is None else (name, description)


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────────


def _resolve_duplicates(skills: list[Skill], settings: list[dict[str, object]]) -> list[Skill]:
    last = {skill.name: skill for skill in skills if skill.state == "loaded"}
    lists = [inside(layer, "skills", "disabled") for layer in settings]
    disabled_names = {str(name).lower() for names in lists if isinstance(names, list) for name in names}
    all_disabled = any(inside(layer, "skills", "enabled") is False for layer in settings)
    results: list[Skill] = []
    for skill in skills:
        if skill.state != "loaded":
            results.append(skill)
        elif last[skill.name] is not skill:
            winner = last[skill.name]
            message = f"duplicate name: {winner.path} is used instead."
            results.append(skill.with_note("duplicate", message, "shadowed", shadowed_by=winner.path))
        elif all_disabled or skill.name.lower() in disabled_names:
            results.append(skill.with_note("disabled", "disabled in Gemini's settings.json.", "disabled"))
        else:
            results.append(skill)
    return results
