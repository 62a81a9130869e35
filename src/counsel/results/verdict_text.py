"""The verdict and the vote as Markdown: recommendation, agreement and dissent. The answers follow this text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from counsel.results import fences
from counsel.results.verdict import Contradiction, JudgeVerdict, Minority, Vote
from counsel.text import counted

_HEADING = re.compile(r"^#{1,2}(?=\s)")


def sections(verdict: JudgeVerdict | None, vote: Vote | None) -> list[str]:
    """The sections that have something to say."""
    parts = [*_recommendation(verdict, vote), *_agreement(verdict, vote), *_dissent(verdict, vote)]
    if verdict and verdict.error:
        message = " ".join(str(verdict.error).split())
        parts.insert(0, f"⚠ No verdict: the judge {verdict.judge} failed: [{verdict.error.code}] {message}")
    return parts


def _recommendation(verdict: JudgeVerdict | None, vote: Vote | None) -> Iterator[str]:
    texts = []
    if vote:
        texts.append(_outcome(vote))
    if verdict and verdict.recommendation:
        answers = "first" if verdict.based_on == "initial" else "refined"
        texts.append(fences.closed(_with_lower_headings(verdict.recommendation)))
        if verdict.choice:
            texts.append(f"The judge chooses **{verdict.choice}**.")
        texts.append(f"*Judge: {verdict.judge}, who read the {answers} answers without names.*")
    if texts:
        yield _section("Recommendation", texts)


def _with_lower_headings(text: str) -> str:
    """The judge's text with its headings one level below counsel's, by which `anonymous.py` finds the answers."""
    lines = fences.lines(text)
    return "\n".join(line if is_code else _HEADING.sub("###", line) for line, is_code in lines)


def _outcome(vote: Vote) -> str:
    valid = len(vote.votes)
    if not valid:
        return "No valid vote."
    if vote.tied:
        return f"A tie: {_enumeration(f'**{choice}**' for choice in vote.tied)}, {_votes(vote, vote.tied[0])} each."
    return f"**{vote.majority}**: {vote.counts[vote.majority or '']} of {counted(valid, 'vote')}."


def _votes(vote: Vote, choice: str) -> str:
    return counted(vote.counts.get(choice, 0), "vote")


def _agreement(verdict: JudgeVerdict | None, vote: Vote | None) -> Iterator[str]:
    texts = []
    if vote and vote.votes:
        counts = ", ".join(f"{choice} {count}" for choice, count in vote.counts.items())
        texts.append(f"{round(100 * vote.agreement)}% of the valid votes ({counts}).")
    if vote and vote.votes and vote.failed:
        texts.append(f"Without a vote: {_enumeration(failure.model for failure in vote.failed)}.")
    if verdict and not verdict.error:
        texts.append(_list(verdict.consensus) or "The judge found no point on which all answers agree.")
    if texts:
        yield _section("Agreement", texts)


def _dissent(verdict: JudgeVerdict | None, vote: Vote | None) -> Iterator[str]:
    lines = []
    if vote:
        lines += [f"**{choice}**: {_enumeration(_voters(vote, choice))}." for choice in vote.tied]
        lines += map(_case, vote.minority)
    if verdict:
        lines += map(_contradiction, verdict.contradictions)
        lines += [f"Only {_enumeration(item.models)}: {item.point}" for item in verdict.partial_coverage]
        lines += [f"Only {item.model}: {item.insight}" for item in verdict.unique_insights]
        lines += [f"Blind spot: {item}" for item in verdict.blind_spots]
    if lines:
        yield _section("Dissent", [_list(lines)])
    elif verdict and not verdict.error:
        yield _section("Dissent", ["The judge found no contradictions."])


def _voters(vote: Vote, choice: str) -> Iterator[str]:
    return (ballot.model for ballot in vote.votes if ballot.choice == choice)


def _case(minority: Minority) -> str:
    if len(minority.models) == 1:
        return f"**{minority.choice}** ({minority.models[0]}): {''.join(minority.reasons)}"
    reasons = zip(minority.models, minority.reasons, strict=False)
    return f"**{minority.choice}**\n{_list(f'{model}: {reason}' for model, reason in reasons)}"


def _contradiction(contradiction: Contradiction) -> str:
    positions = _list(f"{_enumeration(row.models)}: {row.position}" for row in contradiction.positions)
    return f"**{contradiction.topic}**\n{positions}"


def _list(lines: Iterable[str]) -> str:
    """A Markdown list; an item of several lines stays one item."""
    return "\n".join("- " + "\n  ".join(line.splitlines()) for line in lines)


def _enumeration(names: Iterable[str]) -> str:
    *names_before, last = [*names] or ["nobody"]
    return f"{', '.join(names_before)} and {last}" if names_before else last


def _section(title: str, texts: Iterable[str]) -> str:
    return "\n\n".join([f"## {title}", *texts])
