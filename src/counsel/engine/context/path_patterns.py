"""Path patterns, matched part by part: `*`, `?`, `[a-z]` inside one part, `**` for any number of folders."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from counsel.lazy_dataclass import dataclass

MAGIC = re.compile(r"[*?\[]").search
_MOST_PARTS = 64  # of one pattern; more is an attempt to waste time
_LONGEST = 1_000  # characters of one pattern


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern. `hidden`: `*` also matches names that begin with a dot, as in .gitignore but not a shell."""

    parts: tuple[re.Pattern[str] | None, ...]  # None: `**`
    hidden: bool = True
    dotted: tuple[bool, ...] = ()  # for each part: whether it begins with a dot itself

    @classmethod
    def of(cls, text: str, *, hidden: bool = True) -> PathPattern | None:
        """The compiled pattern; None if it is too long to match any path."""
        parts = text.split("/")
        if len(parts) > _MOST_PARTS or len(text) > _LONGEST:
            return None
        expressions = tuple(None if part == "**" else _compiled(part) for part in parts)
        return cls(expressions, hidden, tuple(part.startswith((".", "[.", "\\.")) for part in parts))

    def matches(self, names: Sequence[str]) -> bool:
        """Whether the whole path matches."""
        return len(self.parts) in self._reachable(names)

    def leads_below(self, names: Sequence[str]) -> bool:
        """Whether something below the folder with this path could match."""
        return any(at < len(self.parts) for at in self._reachable(names))

    def _reachable(self, names: Sequence[str]) -> set[int]:
        """Positions in the pattern after these names. Takes time proportional to parts times names at most."""
        reachable = {0}
        for name in names:
            reachable = {after for at in self._closure(reachable) for after in self._after(at, name)}
        return self._closure(reachable)

    def _closure(self, positions: set[int]) -> set[int]:
        """These positions, and those reached because `**` also matches no folder at all."""
        closure = set(positions)
        for at in sorted(positions):
            while at < len(self.parts) and self.parts[at] is None:
                at += 1  # noqa: PLW2901 - `**` may follow `**`
                closure.add(at)
        return closure

    def _after(self, at: int, name: str) -> tuple[int, ...]:
        if at == len(self.parts):
            return ()
        part = self.parts[at]
        if not self.hidden and name.startswith(".") and not self.dotted[at]:
            return ()
        if part is None:
            return (at,)
        return (at + 1,) if part.match(name) else ()


def _compiled(part: str) -> re.Pattern[str]:
    """The expression for one part. `fnmatch` compiles `*` to atomic groups, so no name makes it backtrack for long."""
    text = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], part)
    try:
        return re.compile(fnmatch.translate(text.replace("[^", "[!")))
    except re.error:
        return re.compile(re.escape(part) + r"\Z")
