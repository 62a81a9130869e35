"""The prompts that counsel itself writes for models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from counsel import strict_json
from counsel.text import counted

CONSULTED = (
    "You are being consulted by a developer or by another AI agent who needs an expert opinion. "
    "Answer the question that was asked, directly and precisely. Say what you are unsure of. "
    "Attached files are included in the message with line numbers; refer to them by path and line. "
    "Do not invent code, interfaces or facts that you were not shown and do not know."
)


def structured(schema: dict[str, object]) -> str:
    """The request for JSON, for vendors without structured output and those that refuse the schema."""
    return (
        "Answer with exactly one JSON document that is valid against this JSON Schema, and with nothing else: no prose, "
        f"no code fence.\n{strict_json.dumps(schema)}"
    )


_STANCES = {
    "for": "Argue for the proposal: make the strongest honest case for it.",
    "against": "Argue against the proposal: make the strongest honest case against it.",
    "neutral": "Weigh both sides of the proposal before you come to a conclusion.",
}


def part(role: str, stance: str) -> str:
    """The role and stance of a consensus member. The other members never read it."""
    lines = [f"Answer in this role: {role}"] if role else []
    if stance:
        lines.append(_STANCES[stance])
    if stance in {"for", "against"}:
        lines.append("If that case cannot be made honestly, say so.")
    return "\n".join(lines)


_REFINE = """You and {count} other{s} were asked the same question. These are all answers, in random order and without names:

{answers}

Look at them critically: adopt what is better than your own, correct what is wrong (in yours too), and keep what you still
believe is right. How many say the same proves nothing: change your position only for a reason that convinces you. Then
give your refined answer to the original question. It must be complete in itself.{extra}"""

_AFTER_OTHERS = """{question}

---

{count} other{s} answered this question before you. Here is what they said, in random order and without names:

{answers}

Look at {them} critically. Then answer the question yourself. Your answer must be complete in itself."""


def refine(answers: Sequence[str], extra: str | None, last: str = "") -> str:
    """The prompt of the next round. `answers`: all of the last round; `last`: what to ask for at the end."""
    count = len(answers) - 1
    more = "".join(f"\n\n{text.strip()}" for text in (extra, last) if text and text.strip())
    return _REFINE.format(count=count, s="s" if count > 1 else "", answers="\n\n".join(answers), extra=more)


def after_others(question: str, answers: Sequence[str]) -> str:
    """The prompt of a round table's model that answers after others."""
    many = len(answers) > 1
    return _AFTER_OTHERS.format(
        question=question,
        count=len(answers),
        s="s" if many else "",
        them="them" if many else "it",
        answers="\n\n".join(answers),
    )


def choose(choices: Iterable[str]) -> str:
    rows = "\n".join(f"- {choice}" for choice in choices)
    return (
        "Choose exactly one of these, in these very words. Give your reason first, in a few sentences; then the choice.\n"
        f"{rows}"
    )


CHOOSE_AGAIN = "Give your reason and your choice as the JSON document that you were asked for."

_JUDGE = """{question}

---

The question above was put to {count} experts. Their answers follow, in random order and without names.

{answers}

Compare them. Judge what they say, not their length, style or order, and not how many say it. Speak of them as "Answer A",
"Answer B" and so on. Report
- consensus: what all answers agree on;
- contradictions: where answers exclude each other: the topic, and each position with the answers that hold it;
- partial_coverage: what matters and only some answers cover;
- unique_insights: what matters and only one answer has;
- blind_spots: what matters and no answer covers;
- recommendation: what you recommend to the person who asked, decided and complete in itself, with your reasons{choice}.
An empty list is a good answer where there is nothing to report."""


def judge(question: str, answers: Sequence[str], *, chooses: bool = False) -> str:
    return _JUDGE.format(
        question=question,
        count=len(answers),
        answers="\n\n".join(answers),
        choice=";\n- choice: the one of the choices that you recommend" if chooses else "",
    )


ASSIGNED = {
    "for": " (its author was asked to argue for the proposal)",
    "against": " (its author was asked to argue against the proposal)",
}


def missed_turns(turns: Iterable[tuple[str, str]]) -> str:
    """The turns that an agent's own session lacks because other models were asked in between."""
    transcript = "\n\n".join(f"<{role}>\n{text}\n</{role}>" for role, text in turns)
    return f"Since your last answer, this conversation continued without you:\n\n{transcript}\n\nNow:\n\n"


def earlier(turns: Iterable[tuple[str, str]]) -> str:
    """The turns before a question, for agents and models that take a single text."""
    transcript = "\n\n".join(f"<{role}>\n{text}\n</{role}>" for role, text in turns)
    return f"The conversation so far:\n\n{transcript}\n\nNow:\n\n"


TITLE = (
    "Give a title of at most 60 characters for this request. Answer with the title alone, without quotes.\n\n"
)
SUMMARY = "Summarise this answer in one or two sentences. Answer with the summary alone.\n\n"
RUNNING = "This answer is still being written. Summarise in one or two sentences what it says so far.\n\n"


def unseen(count: int) -> str:
    """The text in place of earlier images for a model without vision, so that it can follow the conversation."""
    return f"\n\n[{counted(count, 'image')} here, which you cannot see]"


NO_ANSWER = "[no answer was given]"  # in place of an empty answer, which no vendor accepts as a turn
