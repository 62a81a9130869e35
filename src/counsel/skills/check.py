"""Check a skill against the rules of agentskills.io, with fixes. No agent enforces all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from counsel.configfiles.yaml.nodes import Mapping, Scalar, node_text
from counsel.lazy_dataclass import dataclass
from counsel.skills.frontmatter import Frontmatter
from counsel.text import counted

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500

REMARKS = {
    "bom": (
        "the file starts with a byte-order mark",
        "Save it as UTF-8 without one: Codex and Gemini reject it.",
    ),
    "none": ("the frontmatter is missing", "Start the file with `---`, `name:`, `description:` and `---`."),
    "unclosed": ("the frontmatter is not closed", "Add a line `---` after its last field."),
    "broken": ("the frontmatter is not valid YAML", "Put values with `: ` or brackets in quotes."),
}


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    ok: bool
    message: str
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "ok": self.ok, "words": self.message, "mend": self.fix}


def check_skill(header: Frontmatter, folder: Path) -> tuple[Finding, ...]:
    return (
        _frontmatter(header),
        _name(header.text("name")),
        _folder(header.text("name"), folder.name),
        _description(header.text("description")),
        *_optional(header),
    )


def _frontmatter(header: Frontmatter) -> Finding:
    for code, (problem, fix) in REMARKS.items():
        if code in header.remarks:
            return Finding("frontmatter", ok=False, message=problem, fix=fix)
    return Finding("frontmatter", ok=True, message="YAML between two lines `---`")


def _name(name: str) -> Finding:
    if not name:
        return Finding("name", ok=False, message="no name", fix="Add `name:` with the folder's name.")
    if len(name) > LONGEST_NAME:
        problem = f"the name has {len(name)} characters, too long"
        return Finding("name", ok=False, message=problem, fix=f"Use at most {LONGEST_NAME}.")
    if not NAME.fullmatch(name):
        problem = f"the name {name!r} has characters other than lowercase letters, digits and single hyphens"
        return Finding("name", ok=False, message=problem, fix=_suggestion(name))
    return Finding("name", ok=True, message=name)


def _suggestion(name: str) -> str:
    better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME]
    return f"Rename it, for example to `{better}`." if better else "Rename it."


def _folder(name: str, folder: str) -> Finding:
    if name and name != folder:
        problem = f"the folder is named {folder!r}, the skill {name!r}"
        fix = "Use one name for both: Claude and Cursor use the folder's, Codex and Gemini the skill's."
        return Finding("folder", ok=False, message=problem, fix=fix)
    return Finding("folder", ok=True, message=folder)


def _description(description: str) -> Finding:
    if not description:
        fix = "Add `description:` with what the skill does and when to use it: agents choose skills by it."
        return Finding("description", ok=False, message="no description", fix=fix)
    if len(description) > LONGEST_DESCRIPTION:
        problem = f"the description has {len(description):,} characters, too long"
        return Finding("description", ok=False, message=problem, fix=f"Use at most {LONGEST_DESCRIPTION:,}.")
    return Finding("description", ok=True, message=counted(len(description), "character"))


def _optional(header: Frontmatter) -> list[Finding]:
    findings: list[Finding] = []
    compatibility = header.text("compatibility")
    if len(compatibility) > LONGEST_COMPATIBILITY:
        problem = f"compatibility has {len(compatibility):,} characters, too long"
        findings.append(
            Finding("compatibility", ok=False, message=problem, fix=f"Use at most {LONGEST_COMPATIBILITY}.")
        )
    metadata = header.fields.get("metadata", Mapping())
    if not isinstance(metadata, Mapping) and not (isinstance(metadata, Scalar) and metadata.null):
        fix = "Make it a mapping of keys and values: Codex rejects anything else."
        findings.append(
            Finding("metadata", ok=False, message=f"metadata is {node_text(metadata)[:40]!r}", fix=fix)
        )
    return findings
