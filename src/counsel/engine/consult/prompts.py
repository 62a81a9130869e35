"""The prompts that counsel itself writes for models."""

from __future__ import annotations

from collections.abc import Iterable

from counsel import strict_json
from counsel.text import counted
from counsel.types import Json

CONSULTED = (
    "You are being consulted by a developer or by another AI agent who needs an expert opinion. "
    "Answer the question that was asked, directly and precisely. Say what you are unsure of. "
    "Attached files are included in the message with line numbers; refer to them by path and line. "
    "Do not invent code, interfaces or facts that you were not shown and do not know."
)


def structured(schema: Json) -> str:
    """For vendors without structured output, and those that refuse the schema."""
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
    """What a member of a consensus is asked to be. The others never read it."""
    lines = [f"Answer in this role: {role}"] if role else []
    if stance:
        lines.append(_STANCES[stance])
    if stance in {"for", "against"}:
        lines.append("If that case cannot be made honestly, say so.")
    return "\n".join(lines)


_REFINE = """You and {count} other model{s} were asked the same question. Here {are} the other answer{s}:

{answers}

Look at them critically: adopt what is better than your own, correct what is wrong (in yours too), and keep what you still
believe is right. Then give your refined answer to the original question. It must be complete in itself.{extra}"""


def refine(others: Iterable[tuple[str, str]], extra: str | None) -> str:
    """What a model reads before its second answer. `others`: name and text of each."""
    answers = list(others)
    plural = len(answers) > 1
    return _REFINE.format(
        count=len(answers),
        s="s" if plural else "",
        are="are" if plural else "is",
        answers="\n\n".join(f'<answer from="{name}">\n{text}\n</answer>' for name, text in answers),
        extra=f"\n\n{extra.strip()}" if extra and extra.strip() else "",
    )


def missed(turns: Iterable[tuple[str, str]]) -> str:
    """The turns that an agent's own session lacks, because other models were asked in between."""
    transcript = "\n\n".join(f"<{role}>\n{text}\n</{role}>" for role, text in turns)
    return f"Since your last answer, this conversation continued without you:\n\n{transcript}\n\nNow:\n\n"


TITLE = (
    "Give a title of at most 60 characters for this request. Answer with the title alone, without quotes.\n\n"
)
SUMMARY = "Summarise this answer in one or two sentences. Answer with the summary alone.\n\n"
RUNNING = "This answer is still being written. Summarise in one or two sentences what it says so far.\n\n"


def unseen(count: int) -> str:
    """Replaces earlier images for a model without vision, which otherwise could not follow the conversation."""
    return f"\n\n[{counted(count, 'image')} here, which you cannot see]"


NO_ANSWER = "[no answer was given]"  # replaces an empty answer, which no vendor accepts as a turn
