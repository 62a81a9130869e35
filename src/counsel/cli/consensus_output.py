"""The result of a consensus for people: verdict and answers, then what each model said first and what it changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from counsel.cli import output
from counsel.results import ConsensusResult, RefinedAnswer

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4_000  # of both texts: a comparison of more takes seconds
_SIMILAR = 0.5  # of the words are the same: else the first answer is easier to read than the differences


def first_answers(result: ConsensusResult) -> str:
    """What models said before they refined it, as Markdown: the differences, or the whole where little is left of it."""
    refined = [answer for answer in result.refined if answer.text is not None]
    same = [answer for answer in refined if answer.first.text.strip() == (answer.text or "").strip()]
    parts = [
        f"### {answer.model} ({position(answer)})\n\n{_before(answer)}"
        for answer in refined
        if answer not in same
    ]
    if same:
        names = ", ".join(f"{answer.model} ({position(answer)})" for answer in same)
        parts.append(f"Word for word as above: {names}.")
    return "\n\n".join(["## First answers", *parts]) if parts else ""


def position(answer: RefinedAnswer) -> str:
    if answer.changed is None:
        return "did not say whether it changed its position"
    return "changed its position" if answer.changed else "kept its position"


def _before(answer: RefinedAnswer) -> str:
    first, last = answer.first.text, answer.text or ""
    return word_diff(first, last) or first


def word_diff(before: str, after: str) -> str:
    """`[-removed-]` and `{+added+}`, as git writes them; empty if the texts have little in common."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MOST_WORDS:
        return ""
    from difflib import SequenceMatcher  # few results are compared

    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return ""
    return "".join(_marked(matcher.get_opcodes(), old, new))


def _marked(codes: Iterable[tuple[str, int, int, int, int]], old: list[str], new: list[str]) -> Iterator[str]:
    for kind, start, end, first, last in codes:
        removed, added = "".join(old[start:end]), "".join(new[first:last])
        if kind == "equal":
            yield removed
            continue
        if removed.strip():
            yield f"[-{removed}-]"
        if added.strip():
            yield f"{{+{added}+}}"
        elif not removed.strip():
            yield added


def show(result: ConsensusResult, *, plain: bool) -> None:
    """On a terminal with the first answers; elsewhere the text of the result alone."""
    output.whole_answer(result.content, plain=plain)
    if output.can_render() and not output.is_quiet() and (first := first_answers(result)):
        output.answer("\n")
        output.whole_answer(first, plain=plain)
