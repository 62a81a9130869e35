"""What an evaluation will cost, roughly: a person reads it before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence

from counsel.errors import CounselError
from counsel.evaluation.questions import Question
from counsel.evaluation.run import Panel
from counsel.lazy_dataclass import dataclass
from counsel.models import prices
from counsel.models.catalog import Catalog

_ANSWER = 600  # tokens of an answer, with a little reasoning
_FRAME = 300  # tokens of our own prompts


@dataclass(frozen=True, slots=True)
class Estimate:
    calls: int  # at most, if nobody has to be asked twice
    cost_usd: float
    unpriced: tuple[str, ...]  # models whose price is not known: agents, other servers


def estimate(
    questions: Sequence[Question], panel: Panel, models: Sequence[str], catalog: Catalog
) -> Estimate:
    """`models`: the members by their own names, behind `auto` and panels."""
    members = len(models)
    asked = sum(len(question.text) + sum(map(len, question.choices)) for question in questions) / 4
    first = asked + _FRAME * len(questions)
    others = _ANSWER * members * len(questions)  # what a reader of all answers reads
    read = dict.fromkeys(models, 2 * first + others if panel.refine else first)
    written = _ANSWER * len(questions) * (2 if panel.refine else 1)
    cost, unpriced = 0.0, []
    for name in models:
        price = _price(name, catalog)
        if price is None:
            unpriced.append(name)
            continue
        cost += (read[name] * price[0] + written * price[1]) / 1e6
    calls = members * len(questions) * (2 if panel.refine else 1)
    if panel.judge:
        calls += len(questions)
        price = _price(panel.judge, catalog)
        if price is None:
            unpriced.append(panel.judge)
        else:
            cost += ((first + others) * price[0] + _ANSWER * len(questions) * price[1]) / 1e6
    return Estimate(calls, cost, tuple(dict.fromkeys(unpriced)))


def _price(name: str, catalog: Catalog) -> tuple[float, float] | None:
    try:
        return prices.per_million(catalog.resolve(name).model)
    except CounselError:  # an agent, `auto`, or a model that will be refused
        return None
