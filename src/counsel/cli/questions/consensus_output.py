"""The result of a consensus for people: verdict and answers, then each model's first answer and what it changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from counsel.cli.terminal import live_region, output
from counsel.cli.terminal.live_region import EMPTY, Row
from counsel.cli.terminal.wording import with_failures_in_cli_words
from counsel.results import ConsensusResult, RefinedAnswer

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4_000  # of both texts together: comparing more takes seconds
_SIMILAR = 0.5  # share of equal words; below it the first answer is easier to read than the differences
_HEADING = "## First answers"


class Change(NamedTuple):
    """Words that were removed (red), added (green) or kept (no colour)."""

    text: str
    colour: str = ""


class Part(NamedTuple):
    """A model's first answer: its differences from the last one, or the whole text if they have little in common."""

    title: str
    changes: list[Change]
    whole: str

    @property
    def text(self) -> str:
        return "".join(change.text for change in self.changes) or self.whole


def first_answers(result: ConsensusResult) -> str:
    """The models' answers before they refined them, as text."""
    parts = [f"{part.title}\n\n{part.text}" for part in _parts(result)]
    return "\n\n".join([_HEADING, *parts, *_unchanged(result)]) if result.refined_count else ""


def first_rows(result: ConsensusResult, columns: int) -> list[Row]:
    """The same for a terminal. Differences are not rendered: half a code block or table is not valid Markdown."""
    from counsel.cli.terminal import markdown

    rows = markdown.rows(_HEADING, columns)
    for part in _parts(result):
        rows += [EMPTY, *markdown.rows(part.title, columns), EMPTY]
        rows += _changed_rows(part.changes, columns) if part.changes else markdown.rows(part.whole, columns)
    for line in _unchanged(result):
        rows += [EMPTY, *markdown.rows(line, columns)]
    return rows


def _changed_rows(changes: Iterable[Change], columns: int) -> list[Row]:
    from rich.text import Text

    from counsel.cli.terminal import rich_rows
    from counsel.cli.terminal.markdown import WIDEST

    console = output.console()
    text = Text.assemble(*((output.printable(change.text), change.colour) for change in changes))
    return rich_rows.rows(console, text.wrap(console, min(columns, WIDEST), overflow="fold"))


def _parts(result: ConsensusResult) -> list[Part]:
    return [
        Part(
            f"### {answer.model} ({position(answer)})",
            _changes(answer.first.text.strip(), answer.text.strip()),
            answer.first.text,
        )
        for answer in result.refined
        if answer.text is not None and not _is_same(answer)
    ]


def _unchanged(result: ConsensusResult) -> list[str]:
    names = [f"{answer.model} ({position(answer)})" for answer in result.refined if _is_same(answer)]
    return [f"Word for word as above: {', '.join(names)}."] if names else []


def _is_same(answer: RefinedAnswer) -> bool:
    return answer.text is not None and answer.first.text.strip() == answer.text.strip()


def position(answer: RefinedAnswer) -> str:
    if answer.changed is None:
        return "did not say whether it changed its position"
    return "changed its position" if answer.changed else "kept its position"


def word_diff(before: str, after: str) -> str:
    """`[-removed-]` and `{+added+}`, as git writes them; empty if the texts have little in common."""
    return "".join(change.text for change in _changes(before, after))


def _changes(before: str, after: str) -> list[Change]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MOST_WORDS:
        return []
    from difflib import SequenceMatcher  # few results are compared

    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return []
    return list(_mark_changes(matcher.get_opcodes(), old, new))


def _mark_changes(
    codes: Iterable[tuple[str, int, int, int, int]], old: list[str], new: list[str]
) -> Iterator[Change]:
    for kind, start, end, first, last in codes:
        old_text, new_text = "".join(old[start:end]), "".join(new[first:last])
        if kind == "equal":
            yield Change(old_text)
            continue
        if old_text.strip():
            yield Change(_by_line(old_text, "[-", "-]"), "red")
        if new_text.strip():
            yield Change(_by_line(new_text, "{+", "+}"), "green")
        elif not old_text.strip():
            yield Change(new_text)


def _by_line(text: str, begin: str, end: str) -> str:
    return "\n".join(f"{begin}{line}{end}" if line.strip() else line for line in text.split("\n"))


def show(result: ConsensusResult, *, plain: bool) -> None:
    """Print the result; on a terminal also the first answers."""
    output.whole_answer(with_failures_in_cli_words(result).content, plain=plain)
    if output.can_render() and not output.is_quiet() and result.refined_count:
        output.answer("\n")
        if plain:
            output.whole_answer(first_answers(result), plain=True)
        else:
            output.rows(first_rows(result, live_region.window()[0]))
