"""Findings of several members: read from answers, located in the change, merged, and assigned to a member to check.

Two findings count as the same if they are in the same file, at most `NEAR` lines apart, and similar: their titles share
at least `TITLES` of their words, or titles and reasons together at least `TEXTS` (Dice's coefficient over word stems of
five letters, without common words). Findings of one member are never merged with each other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from counsel.engine.consult.review.diff import NEAR_CHANGE, FileDiff
from counsel.engine.context.files import attribute
from counsel.lazy_dataclass import dataclass
from counsel.results.review import SEVERITIES, Location, Severity, Verdict

NEAR = 5  # lines between two findings about the same thing
TITLES = 0.5
TEXTS = 0.4
MOST = 100  # findings of one member
_TITLE, _TEXT = 300, 4_000  # characters
_STEM = 5
_FIRST_WITHOUT_BLANKS = "\u3040"
_LINE = re.compile(r"\s*(?:L|line )?([0-9]{1,9})(?![0-9])", re.IGNORECASE).match
_WORD = re.compile(r"[^\W\d_]{3,}|\d+")
_COMMON = frozenset(
    {
        "the", "and", "for", "are", "this", "that", "with", "not", "but", "from", "can", "could", "will",
        "would", "should", "when", "where", "which", "while", "has", "have", "had", "was", "were", "been",
        "being", "its", "into", "than", "then", "there", "here", "use", "used", "using", "may", "might", "must",
        "does", "did", "also", "such", "only", "code", "line", "lines", "file", "function", "method", "value",
        "values", "because",
    }
)  # fmt: skip
_SEVERITIES: dict[str, Severity] = {
    **{severity: severity for severity in SEVERITIES},
    "blocker": "critical",
    "severe": "high",
    "major": "high",
    "error": "high",
    "warning": "medium",
    "moderate": "medium",
    "minor": "low",
    "note": "info",
    "nit": "info",
    "informational": "info",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFinding:
    """A finding as one member made it."""

    slot: str
    file: str
    line: int | None
    end_line: int | None
    severity: Severity
    title: str
    reason: str
    suggestion: str

    @property
    def id(self) -> str:
        """Derived from the content: the same in every attempt, and it does not reveal the author to a checking
        member."""
        content = json.dumps([self.slot, self.file, self.line, self.title, self.reason])
        return f"F{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

    @property
    def last(self) -> int | None:
        return self.line if self.end_line is None else self.end_line


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def document(text: str) -> dict[str, object] | None:
    """The JSON object in an answer: alone, in a fence, or surrounded by text."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read(text: str, slot: str, files: Sequence[FileDiff]) -> list[RawFinding] | None:
    """The findings in an answer; None if it does not have the requested form. Drops entries without a claim."""
    answer = document(text)
    entries = answer.get("findings") if answer else None
    if not isinstance(entries, list):
        return None
    paths = _names(files)
    candidates = (_finding(entry, slot, paths) for entry in entries[:MOST] if isinstance(entry, dict))
    return list({finding.id: finding for finding in candidates if finding}.values())


def _names(files: Sequence[FileDiff]) -> dict[str, str]:
    """The changed files by every name that a member may use: the current, the old and the escaped one in the prompt."""
    before = {file.old_path: file.path for file in files if file.old_path}
    now = {file.path: file.path for file in files}
    escaped_names = {attribute(name).strip(): path for name, path in (before | now).items()}
    return before | escaped_names | now


def _finding(entry: dict[str, object], slot: str, paths: Mapping[str, str]) -> RawFinding | None:
    title = _text(entry, "title", _TITLE) or _text(entry, "claim", _TITLE)
    reason = _text(entry, "reason", _TEXT)
    file = _path(_text(entry, "file", _TEXT), paths)
    if not (title or reason) or not file:
        return None
    line, end = _number(entry.get("line")), _number(entry.get("end_line"))
    if line is not None and end is not None and end < line:
        line, end = end, line
    return RawFinding(
        slot=slot,
        file=file,
        line=line,
        end_line=end if line is not None and end != line else None,
        severity=_SEVERITIES.get(_text(entry, "severity", 40).lower(), "medium"),
        title=title or reason.split("\n")[0][:_TITLE],
        reason=reason,
        suggestion=_text(entry, "suggestion", _TEXT),
    )


def _text(entry: dict[str, object], name: str, max_length: int) -> str:
    value = entry.get(name)
    return value.strip()[:max_length] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """A line number; `3.0`, `"3"`, `"L3"` and `"3-5"` are accepted, too."""
    if isinstance(value, str) and (match := _LINE(value)):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def _path(name: str, paths: Mapping[str, str]) -> str:
    """The changed file with this name, which may have a diff's prefix, be an absolute path, or only the end of one."""
    plain = name.replace("\\", "/").removeprefix("./")
    if match := paths.get(name) or paths.get(_without_prefix(name)) or paths.get(plain):
        return match
    bare = _without_prefix(plain).lstrip("/")
    ends = {
        path
        for alias, path in paths.items()
        if bare == alias or bare.endswith(f"/{alias}") or alias.endswith(f"/{bare}")
    }
    return ends.pop() if len(ends) == 1 else bare


def _without_prefix(name: str) -> str:
    return name.removeprefix("a/").removeprefix("b/")


_VERDICTS: dict[str, Verdict] = {"confirmed": "confirmed", "disputed": "disputed", "unsure": "unsure"}


def verdicts(text: str) -> dict[str, tuple[Verdict, str]] | None:
    """The verdict and its reason, by the finding's id; None if the answer does not have the requested form."""
    answer = document(text)
    entries = answer.get("verdicts") if answer else None
    if not isinstance(entries, list):
        return None
    by_finding: dict[str, tuple[Verdict, str]] = {}
    for entry in entries:
        if isinstance(entry, dict) and (verdict := _VERDICTS.get(_text(entry, "verdict", 40).lower())):
            by_finding[_text(entry, "id", 40)] = verdict, _text(entry, "reason", _TEXT)
    return by_finding


def readable(text: str) -> str:
    """An answer's findings as a list for people; an answer in another form as it is."""
    findings = read(text, "", ())
    if findings is None:
        return text
    lines = [
        f"- {finding.severity} {finding.file}:{finding.line or ''} {finding.title}" for finding in findings
    ]
    return "\n".join(lines) or "No findings."


# ── locations ────────────────────────────────────────────────────────────────────────────────────────


def location(
    finding: RawFinding, files: Mapping[str, FileDiff], line_count: Callable[[str], int | None]
) -> Location:
    """Where a finding is, relative to the diff. `line_count` of a repository's file is -1 if there is no such file, and
    None if it is unknown."""
    file = files.get(finding.file)
    lines = (file.last_line if file else None) or line_count(finding.file)
    if (file is None and lines == -1) or (lines and lines > 0 and (finding.line or 0) > lines):
        return "missing"
    if file is None:
        return "outside"
    if finding.line is None or file.status == "deleted":
        return "diff"
    first, last = finding.line - NEAR_CHANGE, (finding.last or finding.line) + NEAR_CHANGE
    return "diff" if any(first <= number <= last for number in file.changed) else "outside"


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────


def merge(members: Iterable[Sequence[RawFinding]]) -> list[list[RawFinding]]:
    """Groups of equal findings, in the order of the members. A finding joins the most similar group."""
    groups: list[list[RawFinding]] = []
    for findings in members:
        earlier = list(groups)  # findings of other members
        matched: set[int] = set()
        for finding in findings:
            scores = [
                (max(similarity(finding, candidate) for candidate in group), -index)
                for index, group in enumerate(earlier)
                if index not in matched
            ]
            best, index = max(scores, default=(0.0, 0))
            if best > 0:
                earlier[-index].append(finding)
                matched.add(-index)
            else:
                groups.append([finding])
    return groups


def similarity(finding: RawFinding, other: RawFinding) -> float:
    """How similar two findings are; 0 if they are not the same."""
    if finding.file != other.file or not _near(finding, other):
        return 0.0
    if _plain(finding.title) == _plain(other.title):  # titles without words count, too: `i < n` → `i <= n`
        return 1.0
    titles = _dice(_words(finding.title), _words(other.title))
    texts = _dice(_words(f"{finding.title} {finding.reason}"), _words(f"{other.title} {other.reason}"))
    return max(titles, texts) if titles >= TITLES or texts >= TEXTS else 0.0


def _near(finding: RawFinding, other: RawFinding) -> bool:
    if finding.line is None or other.line is None:
        return finding.line is other.line
    return finding.line - NEAR <= (other.last or 0) and other.line - NEAR <= (finding.last or 0)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text.lower()) if word not in _COMMON)
    return frozenset(part for word in words for part in _parts(word))


def _parts(word: str) -> Iterator[str]:
    """The word's stem; in Chinese and Japanese, which have no blanks between words, each pair of characters."""
    if word[0] < _FIRST_WITHOUT_BLANKS:
        yield word[:_STEM]
    else:
        yield from map("".join, pairwise(word))


def _dice(words: frozenset[str], other_words: frozenset[str]) -> float:
    return 2 * len(words & other_words) / (len(words) + len(other_words)) if words or other_words else 0.0


# ── assignment ───────────────────────────────────────────────────────────────────────────────────────


def assign(groups: Sequence[Sequence[RawFinding]], slots: Sequence[str]) -> dict[str, list[int]]:
    """The groups that each member checks: only groups that it did not make, distributed as evenly as possible."""
    assignments: dict[str, list[int]] = {slot: [] for slot in slots}
    load: Counter[str] = Counter()
    for index, group in enumerate(groups):
        authors = {finding.slot for finding in group}
        candidates = [slot for slot in slots if slot not in authors]
        if candidates:
            checker = min(candidates, key=lambda slot: (load[slot], slots.index(slot)))
            assignments[checker].append(index)
            load[checker] += 1
    return {slot: indices for slot, indices in assignments.items() if indices}
