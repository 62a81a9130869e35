"""Hides the authors of answers: "Answer A", "Answer B", in a different order for each reader.

The order is derived from the job's id, so a job that continues after a crash sends the same order.
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
_MENTION = re.compile(r"\b[Aa]nswers? ([A-T](?:(?:, | and | or |, and |, or | & |/)(?:[Aa]nswer )?[A-T])*)\b")
# A consensus's text, as verdict_text.py writes it.
_JUDGE_LINE = re.compile(r"^\*Judge: .*\*$\n?", re.MULTILINE)
_WITHOUT_VOTE = re.compile(r"^Without a vote: (.+)\.$", re.MULTILINE)
_CONSENSUS_START = re.compile(r"## |⚠ |Only one model answered").match
# A review's text, as review_text.py writes it.
_REVIEW_START = re.compile(r"(?:No findings|\d+ findings?)(?: \(\d+ disputed\))? in \d+ files?: ").match
_REVIEWERS = re.compile(r"\s+Reviewed\s+by\s[^\n]*(?:\n[^\n]+)*\Z")
_FOUND_BY = re.compile(r"^  Found by\b(?:[^\n]|\n(?!\n))*?\.$\n?", re.MULTILINE)
_CLOSING_TAG = re.compile(r"</\s*(answer\d*)", re.IGNORECASE)
_LETTER = re.compile(r"\b[A-T]\b")


def shuffled(job: str, reader: str, names: Iterable[str]) -> list[str]:
    """The names in an order that depends only on the job and the reader."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{job}\0{reader}\0{name}".encode()).digest())


def letters(job: str, reader: str, slots: Iterable[str]) -> dict[str, str]:
    """A letter (`A`, `B` …) for each slot, in the order in which this reader sees the answers."""
    return dict(zip(shuffled(job, reader, slots), ascii_uppercase, strict=False))


def with_names(text: str, names: Mapping[str, str]) -> str:
    """What a reader wrote, with authors' names in place of "Answer A"; `names` are by letter."""

    def replace_letters(match: re.Match[str]) -> str:
        if not all(letter in names for letter in _LETTER.findall(match[1])):
            return match[0]
        return _LETTER.sub(lambda letter: names[letter[0]], re.sub(r"[Aa]nswer ", "", match[1]))

    return _MENTION.sub(replace_letters, text)


def history(original: History) -> History:
    """The history without the models' names that counsel itself wrote into earlier turns."""
    messages: list[Message] = []
    for message in original.messages:
        question = messages[-1].details if messages else None
        models = question.settings.get("models") if isinstance(question, QuestionDetails) else None
        names = labels(tuple(map(str, models))) if isinstance(models, list | tuple) else []
        messages.append(_message(message, names))
    return replace(original, messages=tuple(messages))


def without_authors(text: str, models: Container[str]) -> str:
    """A consensus's answer that a client sends back, without the models' names; any other text as it is."""
    if not _CONSENSUS_START(text):
        return text
    headings = dict.fromkeys(_HEADING.findall(text))
    authors = [heading for heading in headings if heading.partition("#")[0] in models]
    names = [*authors, *_models_without_vote(text)]
    return _without_names(text, authors, names) if authors else text


def _models_without_vote(text: str) -> list[str]:
    """The models that `verdict_text.py` lists as having cast no vote."""
    line = _WITHOUT_VOTE.search(text)
    return re.split(r", | and ", line[1]) if line else []


def _message(message: Message, models: list[str]) -> Message:
    details = message.details
    if not isinstance(details, AnswerDetails) or not (details.members or details.incomplete):
        return message
    if _REVIEW_START(message.text):
        return replace(message, text=_review_without_names(message.text, models))
    headings = set(_HEADING.findall(message.text))
    authors = [model for model in models if model in headings]
    return replace(message, text=_without_names(message.text, authors, models)) if authors else message


def _without_names(text: str, authors: list[str], models: list[str]) -> str:
    """The text without failures, with names replaced in the headings and before the first answer.

    Only the headings of the answers are changed, as counsel wrote them; the answers themselves stay as they are.
    """
    labels_by_author = {
        author: f"Answer {letter}" for author, letter in zip(authors, ascii_uppercase, strict=False)
    }
    first = _first_answer(text, labels_by_author)
    head = "\n".join(line for line in text[:first].splitlines() if not line.startswith("⚠ "))
    for model in sorted(models, key=len, reverse=True):
        name = labels_by_author.get(model, "another")
        head = re.sub(rf"(?<![\w.#-]){re.escape(model)}(?![\w#-])", name, head)
    answers = _HEADING.sub(lambda match: f"## {labels_by_author.get(match[1], match[1])}", text[first:])
    return f"{_JUDGE_LINE.sub('', head).strip()}\n\n{answers}".strip()


def _first_answer(text: str, authors: Container[str]) -> int:
    """Where the answers begin. A verdict before them may contain the same headings inside code."""
    offset, code_offsets = 0, list[int]()
    for line, is_code in fences.lines(text):
        if (heading := _HEADING.match(line)) and heading[1] in authors:
            if not is_code:
                return offset
            code_offsets.append(offset)
        offset += len(line) + 1
    return code_offsets[0]  # an older release did not close blocks of code


def _review_without_names(text: str, models: list[str]) -> str:
    """The text without failures and without who found what. A model that checked a finding, or was not sent everything,
    becomes "a reviewer"."""
    summary, *rest = text.split("\n\n")
    pattern = "|".join(map(re.escape, sorted(models, key=len, reverse=True))) or r"\b\B"
    body = "\n\n".join(block for block in rest if not block.startswith("⚠ "))
    body = re.sub(
        rf"^( *)(?:{pattern})(?=\s(?:checked it:|was (?:not )?sent))",
        r"\1A reviewer",
        body,
        flags=re.MULTILINE,
    )
    return f"{_REVIEWERS.sub('', summary)}\n\n{_FOUND_BY.sub('', body)}".strip()


def blocks(
    texts: Mapping[str, str], order: Mapping[str, str], own: str = "", notes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Each answer as the reader sees it. `order`: letters by slot; `own`: the slot of the reader's own answer, which is
    not repeated."""
    tag = _tag([texts[slot] for slot in order if slot != own])
    for slot, letter in order.items():
        if slot == own:
            yield f"Answer {letter} is your own, above."
        else:
            note = (notes or {}).get(slot, "")
            yield f"Answer {letter}{note}:\n<{tag}>\n{texts[slot]}\n</{tag}>"


def _tag(texts: Sequence[str]) -> str:
    """A tag that no answer closes: otherwise an answer could end its own block and forge another."""
    used_tags = {match.lower() for text in texts for match in _CLOSING_TAG.findall(text)}
    names = chain(["answer"], (f"answer{number}" for number in count(2)))
    return next(name for name in names if name not in used_tags)
