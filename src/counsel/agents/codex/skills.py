"""The skills that Codex loads, as its app-server lists them (`skills/list`, 0.166.0; docs/use/skills.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from counsel.agents.codex.plugins import MANIFESTS, plugin_roots
from counsel.agents.definitions import Workspace
from counsel.agents.skill_format import Root, Skill
from counsel.agents.skill_scanner import (
    SearchRules,
    SkillFile,
    SkillPath,
    SkillScanner,
    real_path,
    settings_text,
)
from counsel.agents.trust import root_markers
from counsel.configfiles import document
from counsel.configfiles.yaml.nodes import Dialect, Mapping, Node, Scalar, YamlError
from counsel.configfiles.yaml.read import parse
from counsel.errors import ConfigInvalid
from counsel.paths import up_to_root

AGENT = "codex"
ADMIN = Path("/etc/codex/skills")
LONGEST_NAME = 64
DIALECT = Dialect(breaks="\x85\u2028\u2029", blank_tabs=False, loose_quotes=True, tight_comments=True)
DEEP = SearchRules(depth=6, at_root=True, linked_files=False, most_folders=2000)
_FENCE = re.compile(r"^[^\S\n]*---[^\S\n]*$", re.MULTILINE)


class Refused(ValueError):
    """Codex's own reason for rejecting a skill."""


def user_folder(workspace: Workspace) -> Path:
    return workspace.home / ".agents" / "skills"


def project_folder(workspace: Workspace) -> Path:
    return workspace.project / ".agents" / "skills"


def skills(workspace: Workspace, scanner: SkillScanner) -> list[Skill]:
    config = _config(workspace, scanner)
    namespaces: dict[str, str] = {}
    candidates = [
        _skill(root, path, scanner, namespaces)
        for root in _roots(workspace, scanner, config)
        for path in scanner.search(root.path, DEEP)
    ]
    return _resolve_duplicates(candidates, config)


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────


def _roots(workspace: Workspace, scanner: SkillScanner, config: dict[str, object]) -> Iterator[Root]:
    """The folders in Codex's order: of several paths to one file, it keeps the first."""
    upwards = _upwards(workspace.project, config)
    for folder in upwards:
        if folder / ".codex" != workspace.codex_dir():
            yield Root(folder / ".codex" / "skills", "project")
    yield Root(workspace.codex_dir() / "skills", "user")
    yield Root(user_folder(workspace), "user", shared=True)
    yield Root(workspace.codex_dir() / "skills" / ".system", "system")
    yield Root(ADMIN, "admin")
    yield from plugin_roots(workspace, scanner, config)
    for folder in reversed(upwards):
        yield Root(folder / ".agents" / "skills", "project", shared=True)


def _upwards(project: Path, config: dict[str, object]) -> list[Path]:
    """The folder and its parents up to the repository's root; the folder alone outside a repository."""
    return up_to_root(project, root_markers(config))


def _config(workspace: Workspace, scanner: SkillScanner) -> dict[str, object]:
    path = workspace.codex_dir() / "config.toml"
    try:
        value: dict[str, object] = document.parse(settings_text(path), "toml").value
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, ConfigInvalid) as error:
        scanner.problems.append(f"{path}: cannot be read ({error}): Codex does not start with this file.")
        return {}
    return value


# ── one skill ────────────────────────────────────────────────────────────────────────────────────────


def _skill(root: Root, path: SkillPath, scanner: SkillScanner, namespaces: dict[str, str]) -> Skill:
    file = scanner.file(path.real)
    folder = os.path.basename(os.path.dirname(path.real))
    name, description, refusal = _one_line(folder) or "skill", "", ""
    try:
        fields = header(file)
        name = _one_line(_optional(fields, "name")) or name
        description = _one_line(_optional(fields, "description"))
        _check(name, description)
    except Refused as error:
        refusal = str(error)
    if prefix := _namespace(os.path.dirname(path.real), scanner, namespaces):
        name = f"{prefix}:{name}"
    skill = Skill(
        AGENT,
        root.scope,
        name,
        description,
        scanner.path(path.path),
        scanner.path(path.real),
        f"${name}",
        shared=root.shared,
        plugin=root.plugin or prefix or None,
        version=root.version,
    )
    if not refusal:
        return skill
    return skill.with_note(
        "refused", f"Codex rejects it: {refusal}{_hint(refusal, file)}", "refused", command=None
    )


def _hint(refusal: str, file: SkillFile) -> str:
    """An addition to Codex's own message."""
    if file.data.startswith(b"\xef\xbb\xbf"):
        return " (the file starts with a byte-order mark: save it without one)"
    if refusal.startswith("missing YAML frontmatter"):
        return " (it must start with a line `---` and end with another)"
    return {
        "missing field `description`": " (no description: add `description: …` to the frontmatter)",
        "invalid name: exceeds maximum length of 64 characters": " (the name is too long)",
    }.get(refusal, "")


def header(file: SkillFile) -> dict[str, Node]:
    if file.failure:
        raise Refused(f"failed to read file: {file.failure}")
    try:
        text = file.data.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"failed to read file: invalid utf-8 sequence from index {error.start}") from None
    block = _block(text)
    try:
        return _typed(parse(block, DIALECT))
    except YamlError as error:
        repaired_block = repair(block)
        try:
            return _typed(parse(repaired_block, DIALECT)) if repaired_block else _raise(error)
        except YamlError:
            raise Refused(f"invalid YAML: {error}") from None


def _raise(error: Exception) -> dict[str, Node]:
    raise error


def _block(text: str) -> str:
    """The lines between two `---` lines; spaces around the dashes do not matter."""
    first, _, rest = text.partition("\n")
    closing = _FENCE.search(rest) if first.strip() == "---" else None
    if not closing or not closing.start():
        raise Refused("missing YAML frontmatter delimited by ---")
    return rest[: closing.start()].removesuffix("\n").replace("\r\n", "\n").removesuffix("\r")


def _typed(node: Node) -> dict[str, Node]:
    """Codex requires strings in `name` and `description` and a mapping in `metadata`, each at most once."""
    if isinstance(node, Scalar) and node.null:
        return {}
    if not isinstance(node, Mapping):
        raise YamlError("invalid type, expected struct SkillFrontmatter")
    if node.odd_keys:
        raise YamlError("invalid type, expected a string as key")
    _require_strings(node, ("name", "description"))
    metadata = node.items.get("metadata", Scalar(""))
    if "metadata" in node.duplicates:
        raise YamlError("duplicate field `metadata`")
    if isinstance(metadata, Mapping):
        _require_strings(metadata, ("short-description",))
    elif metadata != Scalar(""):  # `metadata: null` is refused, too
        raise YamlError("metadata: invalid type, expected struct SkillFrontmatterMetadata")
    return node.items


def _require_strings(node: Mapping, names: tuple[str, ...]) -> None:
    for name in names:
        if name in node.duplicates:
            raise YamlError(f"duplicate field `{name}`")
        if not isinstance(node.items.get(name, Scalar("")), Scalar):
            raise YamlError(f"{name}: invalid type, expected a string")


def _optional(fields: dict[str, Node], name: str) -> str:
    node = fields.get(name)
    return node.text if isinstance(node, Scalar) and not node.null else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _check(name: str, description: str) -> None:
    if len(name) > LONGEST_NAME:
        raise Refused(f"invalid name: exceeds maximum length of {LONGEST_NAME} characters")
    if not description:
        raise Refused("missing field `description`")


# ── Codex's repair of text that is not YAML ──────────────────────────────────────────────────────────

_PAIR = re.compile(r"([^:]*):(?=\s|$)([ \t]*)(.*)", re.DOTALL)
_COMMENT = re.compile(r"(?:(?<=\s)|^)#")


def repair(block: str) -> str | None:
    """The block with quotes around values that contain `: ` or an unfinished bracket; None if there are no such
    values."""
    lines = block.split("\n")
    block_indent: int | None = None  # the indent of a key with a block scalar
    changed = False
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        if block_indent is not None and (not line.strip() or indent > block_indent):
            continue
        block_indent = None
        pair = _PAIR.fullmatch(line)
        if not pair or not pair[1].strip():
            continue
        comment = _COMMENT.search(pair[3])
        end = len(pair[3][: comment.start()].rstrip()) if comment else len(pair[3])
        scalar = pair[3][:end].rstrip()
        if scalar[:1] in {"|", ">"}:
            block_indent = indent
        elif scalar and scalar[0] not in "\"'" and _is_ambiguous(scalar):
            value = scalar.replace("'", "''")
            lines[number] = f"{pair[1]}:{pair[2]}'{value}'{pair[3][end:]}"
            changed = True
    return "\n".join(lines) if changed else None


def _is_ambiguous(scalar: str) -> bool:
    if re.search(r":\s", scalar):
        return True
    if scalar[0] not in "[{@`":
        return False
    try:
        parse(scalar, DIALECT)
    except YamlError:
        return True
    return False


# ── a plugin's folder gives its skills a prefix ──────────────────────────────────────────────────────


def _namespace(folder: str, scanner: SkillScanner, namespaces: dict[str, str]) -> str:
    """The name in the nearest plugin manifest in a skill's folder or above it."""
    if folder not in namespaces:
        parent = os.path.dirname(folder)
        name = _manifest_name(folder, scanner)
        namespaces[folder] = name if name or parent == folder else _namespace(parent, scanner, namespaces)
    return namespaces[folder]


def _manifest_name(folder: str, scanner: SkillScanner) -> str:
    for manifest in MANIFESTS:
        path = f"{folder}/{manifest}"
        if scanner.may_hold(folder, manifest.partition("/")[0]) and os.path.isfile(path):
            name = scanner.json(Path(path)).get("name")
            return (name.strip() if isinstance(name, str) else "") or os.path.basename(folder)
    return ""


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────────


def _resolve_duplicates(skills: list[Skill], config: dict[str, object]) -> list[Skill]:
    """Keep all skills of one name, but each file once. Rejected system skills are left out."""
    files: dict[Path, Skill] = {}
    paths, names = _switched_off(config)
    results: list[Skill] = []
    for skill in skills:
        first = files.setdefault(skill.real, skill)
        if first is not skill:
            message = f"duplicate: the same file is already loaded from {first.folder}."
            results.append(skill.with_note("same-file", message, "shadowed", shadowed_by=first.path))
        elif skill.state == "loaded" and (
            skill.name in names or {str(skill.real), str(skill.real.parent)} & paths
        ):
            results.append(skill.with_note("disabled", "disabled in Codex's config.toml.", "disabled"))
        elif skill.state == "loaded" or skill.scope != "system":
            results.append(skill)
    return results


def _switched_off(config: dict[str, object]) -> tuple[set[str], set[str]]:
    section = config.get("skills")
    rows = section.get("config") if isinstance(section, dict) else None
    disabled_rows = (
        [row for row in rows if isinstance(row, dict) and row.get("enabled") is False]
        if isinstance(rows, list)
        else []
    )
    paths = {real_path(row["path"]) for row in disabled_rows if isinstance(row.get("path"), str)}
    return paths, {row["name"] for row in disabled_rows if isinstance(row.get("name"), str)}
