"""Answers without their authors' names: "Answer A", "Answer B", in an order of its own for each reader.

The order is derived from the job's id, so that a job that continues after a crash sends the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from string import ascii_uppercase

from counsel.engine.context.conversation import History
from counsel.engine.store.records import Message
from counsel.results import AnswerDetails, QuestionDetails, fences
from counsel.results.parts import labels

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_SPOKEN = re.compile(r"\b[Aa]nswers? ([A-T](?:(?:, | and | or |, and |, or | & |/)(?:[Aa]nswer )?[A-T])*)\b")
_JUDGED = re.compile(r"^\*Judge: .*\*$\n?", re.MULTILINE)  # as verdict_text.py writes it
_WITHOUT_VOTE = re.compile(r"^Without a vote: (.+)\.$", re.MULTILINE)  # also there
_OURS = re.compile(r"## |⚠ |Only one model answered").match  # how the text of a consensus begins
# a review's text, as review_text.py writes it
_REVIEW = re.compile(r"(?:No findings|\d+ findings?)(?: \(\d+ disputed\))? in \d+ files?: ").match
_REVIEWED = re.compile(r"\s+Reviewed\s+by\s[^\n]*(?:\n[^\n]+)*\Z")
_FOUND = re.compile(r"^  Found by\b(?:[^\n]|\n(?!\n))*?\.$\n?", re.MULTILINE)
_CLOSING = re.compile(r"</\s*(answer\d*)", re.IGNORECASE)
_LETTER = re.compile(r"\b[A-T]\b")


def shuffled(job: str, reader: str, names: Iterable[str]) -> list[str]:
    """In an order that depends on the job and the reader alone."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{job}\0{reader}\0{name}".encode()).digest())


def letters(job: str, reader: str, slots: Iterable[str]) -> dict[str, str]:
    """By slot, in the order in which this reader sees the answers: `A`, `B` …"""
    return dict(zip(shuffled(job, reader, slots), ascii_uppercase, strict=False))


def named(text: str, names: Mapping[str, str]) -> str:
    """What a reader wrote about "Answer A", with the author's name; `names` by letter."""

    def put(match: re.Match[str]) -> str:
        if not all(letter in names for letter in _LETTER.findall(match[1])):
            return match[0]
        return _LETTER.sub(lambda letter: names[letter[0]], re.sub(r"[Aa]nswer ", "", match[1]))

    return _SPOKEN.sub(put, text)


def history(before: History) -> History:
    """Earlier turns of several models, without the names that counsel itself wrote into them."""
    messages: list[Message] = []
    for message in before.messages:
        asked = messages[-1].details if messages else None
        models = asked.settings.get("models") if isinstance(asked, QuestionDetails) else None
        named = labels(tuple(map(str, models))) if isinstance(models, list | tuple) else []
        messages.append(_message(message, named))
    return replace(before, messages=tuple(messages))


def returned(text: str, models: Container[str]) -> str:
    """An answer of a consensus that a client sends back, without names; any other text as it is."""
    if not _OURS(text):
        return text
    headings = dict.fromkeys(_HEADING.findall(text))
    authors = [heading for heading in headings if heading.partition("#")[0] in models]
    named = [*authors, *_named_without_vote(text)]
    return _without_names(text, authors, named) if authors else text


def _named_without_vote(text: str) -> list[str]:
    """As `verdict_text.py` lists those who failed."""
    line = _WITHOUT_VOTE.search(text)
    return re.split(r", | and ", line[1]) if line else []


def _message(message: Message, models: list[str]) -> Message:
    details = message.details
    if not isinstance(details, AnswerDetails) or not (details.members or details.incomplete):
        return message
    if _REVIEW(message.text):
        return replace(message, text=_review_without_names(message.text, models))
    headings = set(_HEADING.findall(message.text))
    authors = [model for model in models if model in headings]
    return replace(message, text=_without_names(message.text, authors, models)) if authors else message


def _without_names(text: str, authors: list[str], models: list[str]) -> str:
    """Failures are left out; before the first answer names are replaced; of the answers only the headings are ours."""
    known = {author: f"Answer {letter}" for author, letter in zip(authors, ascii_uppercase, strict=False)}
    first = _first_answer(text, known)
    head = "\n".join(line for line in text[:first].splitlines() if not line.startswith("⚠ "))
    for model in sorted(models, key=len, reverse=True):
        name = known.get(model, "another")
        head = re.sub(rf"(?<![\w.#-]){re.escape(model)}(?![\w#-])", name, head)
    answers = _HEADING.sub(lambda match: f"## {known.get(match[1], match[1])}", text[first:])
    return f"{_JUDGED.sub('', head).strip()}\n\n{answers}".strip()


def _first_answer(text: str, known: Container[str]) -> int:
    """Where the answers begin. A verdict before them may have the same headings inside of its code."""
    at, inside = 0, list[int]()
    for line, is_code in fences.lines(text):
        if (heading := _HEADING.match(line)) and heading[1] in known:
            if not is_code:
                return at
            inside.append(at)
        at += len(line) + 1
    return inside[0]  # an older release left blocks of code open


def _review_without_names(text: str, models: list[str]) -> str:
    """Failures and who found what are left out; who checked a finding, and was sent less, is "a reviewer"."""
    summary, *rest = text.split("\n\n")
    known = "|".join(map(re.escape, sorted(models, key=len, reverse=True))) or r"\b\B"
    others = "\n\n".join(block for block in rest if not block.startswith("⚠ "))
    others = re.sub(
        rf"^( *)(?:{known})(?=\s(?:checked it:|was (?:not )?sent))",
        r"\1A reviewer",
        others,
        flags=re.MULTILINE,
    )
    return f"{_REVIEWED.sub('', summary)}\n\n{_FOUND.sub('', others)}".strip()


def blocks(
    texts: Mapping[str, str], order: Mapping[str, str], own: str = "", notes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Each answer as its readers see it. `order`: letters by slot; `own`: the reader's slot, whose text it has."""
    tag = _tag([texts[slot] for slot in order if slot != own])
    for slot, letter in order.items():
        if slot == own:
            yield f"Answer {letter} is your own, above."
        else:
            note = (notes or {}).get(slot, "")
            yield f"Answer {letter}{note}:\n<{tag}>\n{texts[slot]}\n</{tag}>"


def _tag(texts: Sequence[str]) -> str:
    """One that no answer closes: an answer could write another one behind its own end."""
    closed = {match.lower() for text in texts for match in _CLOSING.findall(text)}
    names = chain(["answer"], (f"answer{number}" for number in count(2)))
    return next(name for name in names if name not in closed)
