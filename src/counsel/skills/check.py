"""A skill against the rules of agentskills.io, with what to mend. No agent enforces all of them."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from counsel.configfiles.yaml.nodes import Mapping, Scalar, node_text
from counsel.lazy_dataclass import dataclass
from counsel.skills.frontmatter import Frontmatter

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500

REMARKS = {
    "bom": (
        "the file begins with a byte-order mark",
        "Save it as UTF-8 without one: Codex and Gemini refuse it.",
    ),
    "none": ("there is no frontmatter", "Begin the file with `---`, `name:`, `description:` and `---`."),
    "unclosed": ("the frontmatter is not closed", "Put a line `---` after its last field."),
    "broken": ("the frontmatter is not valid YAML", "Put values with `: ` or brackets in quotes."),
}


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    ok: bool
    words: str
    mend: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_skill(read: Frontmatter, folder: Path) -> tuple[Finding, ...]:
    return (
        _frontmatter(read),
        _name(read.text("name")),
        _folder(read.text("name"), folder.name),
        _description(read.text("description")),
        *_optional(read),
    )


def _frontmatter(read: Frontmatter) -> Finding:
    for code, (what, mend) in REMARKS.items():
        if code in read.remarks:
            return Finding("frontmatter", ok=False, words=what, mend=mend)
    return Finding("frontmatter", ok=True, words="YAML between two lines `---`")


def _name(name: str) -> Finding:
    if not name:
        return Finding("name", ok=False, words="no name", mend="Add `name:`, equal to the folder's name.")
    if len(name) > LONGEST_NAME:
        what = f"the name has {len(name)} characters, too long"
        return Finding("name", ok=False, words=what, mend=f"Use at most {LONGEST_NAME}.")
    if not NAME.fullmatch(name):
        what = f"the name {name!r} is not made of lowercase letters, digits and single hyphens"
        return Finding("name", ok=False, words=what, mend=_suggestion(name))
    return Finding("name", ok=True, words=name)


def _suggestion(name: str) -> str:
    better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME]
    return f"Rename it, for instance to `{better}`." if better else "Rename it."


def _folder(name: str, folder: str) -> Finding:
    if name and name != folder:
        what = f"the folder is called {folder!r}, the skill {name!r}"
        mend = "Give both one name: Claude and Cursor use the folder's, Codex and Gemini the other."
        return Finding("folder", ok=False, words=what, mend=mend)
    return Finding("folder", ok=True, words=folder)


def _description(description: str) -> Finding:
    if not description:
        mend = "Add `description:` with what it does and when to use it: agents choose by it."
        return Finding("description", ok=False, words="no description", mend=mend)
    if len(description) > LONGEST_DESCRIPTION:
        what = f"the description has {len(description):,} characters, too long"
        return Finding("description", ok=False, words=what, mend=f"Use at most {LONGEST_DESCRIPTION:,}.")
    return Finding("description", ok=True, words=f"{len(description)} characters")


def _optional(read: Frontmatter) -> list[Finding]:
    findings: list[Finding] = []
    compatibility = read.text("compatibility")
    if len(compatibility) > LONGEST_COMPATIBILITY:
        what = f"compatibility has {len(compatibility):,} characters, too long"
        findings.append(
            Finding("compatibility", ok=False, words=what, mend=f"Use at most {LONGEST_COMPATIBILITY}.")
        )
    metadata = read.fields.get("metadata", Mapping())
    if not isinstance(metadata, Mapping) and not (isinstance(metadata, Scalar) and metadata.null):
        mend = "Make it keys and values: Codex refuses anything else."
        findings.append(
            Finding("metadata", ok=False, words=f"metadata is {node_text(metadata)[:40]!r}", mend=mend)
        )
    return findings
