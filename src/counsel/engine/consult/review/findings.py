"""Findings of several members: read from their answers, located in the change, merged, and given to a member to check.

Two findings are taken for the same one if they are in the same file, at most `NEAR` lines apart, and similar: of the words
of their titles at least `TITLES` are shared, or of the words of titles and reasons together at least `TEXTS` (Dice's
coefficient over word stems of five letters, without common words). Findings of one member are never merged with each other.
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
    """As one member made it."""

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
        """From its content: the same in every attempt, and it tells a checking member nothing about who made it."""
        content = json.dumps([self.slot, self.file, self.line, self.title, self.reason])
        return f"F{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

    @property
    def last(self) -> int | None:
        return self.line if self.end_line is None else self.end_line


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def document(text: str) -> dict[str, object] | None:
    """The JSON object of an answer: alone, in a fence, or between words."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read(text: str, slot: str, files: Sequence[FileDiff]) -> list[RawFinding] | None:
    """The findings of an answer; None: it has none of the form that was asked for. An entry without a claim is dropped."""
    shown = document(text)
    entries = shown.get("findings") if shown else None
    if not isinstance(entries, list):
        return None
    paths = _names(files)
    made = (_finding(entry, slot, paths) for entry in entries[:MOST] if isinstance(entry, dict))
    return list({finding.id: finding for finding in made if finding}.values())


def _names(files: Sequence[FileDiff]) -> dict[str, str]:
    """The changed files by all names that a member may use: its own, as the member was shown it, the one before."""
    before = {file.old_path: file.path for file in files if file.old_path}
    now = {file.path: file.path for file in files}
    shown = {attribute(name).strip(): path for name, path in (before | now).items()}
    return before | shown | now


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


def _text(entry: dict[str, object], name: str, most: int) -> str:
    value = entry.get(name)
    return value.strip()[:most] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """Also from `3.0`, `"3"`, `"L3"` and `"3-5"`."""
    if isinstance(value, str) and (match := _LINE(value)):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def _path(name: str, paths: Mapping[str, str]) -> str:
    """The changed file that is meant: with a diff's prefix, an absolute path, or the end of one."""
    plain = name.replace("\\", "/").removeprefix("./")
    if known := paths.get(name) or paths.get(_bare(name)) or paths.get(plain):
        return known
    bare = _bare(plain).lstrip("/")
    ends = {
        path
        for shown, path in paths.items()
        if bare == shown or bare.endswith(f"/{shown}") or shown.endswith(f"/{bare}")
    }
    return ends.pop() if len(ends) == 1 else bare


def _bare(name: str) -> str:
    return name.removeprefix("a/").removeprefix("b/")


_VERDICTS: dict[str, Verdict] = {"confirmed": "confirmed", "disputed": "disputed", "unsure": "unsure"}


def verdicts(text: str) -> dict[str, tuple[Verdict, str]] | None:
    """By finding: the verdict, and its reason."""
    shown = document(text)
    entries = shown.get("verdicts") if shown else None
    if not isinstance(entries, list):
        return None
    by_finding: dict[str, tuple[Verdict, str]] = {}
    for entry in entries:
        if isinstance(entry, dict) and (verdict := _VERDICTS.get(_text(entry, "verdict", 40).lower())):
            by_finding[_text(entry, "id", 40)] = verdict, _text(entry, "reason", _TEXT)
    return by_finding


def readable(text: str) -> str:
    """An answer's findings as a list, for people; an answer of another form as it is."""
    made = read(text, "", ())
    if made is None:
        return text
    lines = [f"- {each.severity} {each.file}:{each.line or ''} {each.title}" for each in made]
    return "\n".join(lines) or "No findings."


# ── where they are ───────────────────────────────────────────────────────────────────────────────────


def location(
    finding: RawFinding, files: Mapping[str, FileDiff], line_count: Callable[[str], int | None]
) -> Location:
    """`line_count`: of a file of the repository; -1: there is none; None: not known."""
    file = files.get(finding.file)
    lines = (file.last_line if file else None) or line_count(finding.file)
    if (file is None and lines == -1) or (lines and lines > 0 and (finding.line or 0) > lines):
        return "missing"
    if file is None:
        return "outside"
    if finding.line is None or file.status == "deleted":
        return "diff"
    first, last = finding.line - NEAR_CHANGE, (finding.last or finding.line) + NEAR_CHANGE
    return "diff" if any(first <= changed <= last for changed in file.changed) else "outside"


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────


def merge(members: Iterable[Sequence[RawFinding]]) -> list[list[RawFinding]]:
    """Groups of equal findings, in the order of members; of several groups that match, the most similar."""
    groups: list[list[RawFinding]] = []
    for made in members:
        before = list(groups)  # those of other members
        taken: set[int] = set()
        for finding in made:
            scored = [
                (max(similarity(finding, other) for other in group), -at)
                for at, group in enumerate(before)
                if at not in taken
            ]
            best, at = max(scored, default=(0.0, 0))
            if best > 0:
                before[-at].append(finding)
                taken.add(-at)
            else:
                groups.append([finding])
    return groups


def similarity(finding: RawFinding, other: RawFinding) -> float:
    """0: they are not the same."""
    if finding.file != other.file or not _near(finding, other):
        return 0.0
    if _plain(finding.title) == _plain(other.title):  # also one of symbols alone: `i < n` should be `i <= n`
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
    """Its stem; of Chinese and Japanese, which have no blanks between words, each pair of characters."""
    if word[0] < _FIRST_WITHOUT_BLANKS:
        yield word[:_STEM]
    else:
        yield from map("".join, pairwise(word))


def _dice(words: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(words & other) / (len(words) + len(other)) if words or other else 0.0


# ── who checks what ──────────────────────────────────────────────────────────────────────────────────


def assign(groups: Sequence[Sequence[RawFinding]], slots: Sequence[str]) -> dict[str, list[int]]:
    """For each member, the groups that it checks: one that it did not make, as evenly as possible."""
    duties: dict[str, list[int]] = {slot: [] for slot in slots}
    load: Counter[str] = Counter()
    for at, group in enumerate(groups):
        makers = {finding.slot for finding in group}
        others = [slot for slot in slots if slot not in makers]
        if others:
            chosen = min(others, key=lambda slot: (load[slot], slots.index(slot)))
            duties[chosen].append(at)
            load[chosen] += 1
    return {slot: duty for slot, duty in duties.items() if duty}
