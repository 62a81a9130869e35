"""A rough estimate of an evaluation's cost, shown before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence

from counsel.engine.consult.consensus.judge import AUTO, DEFAULT
from counsel.evaluation.questions import Question
from counsel.evaluation.run import Panel
from counsel.lazy_dataclass import dataclass
from counsel.models import prices
from counsel.models.catalog import Catalog, agent_named

_ANSWER = 600  # tokens of an answer, with a little reasoning
_FRAME = 300  # tokens of our own prompts


@dataclass(frozen=True, slots=True)
class Estimate:
    calls: int  # at most, without repeated calls
    cost_usd: float
    unpriced: tuple[str, ...]  # models whose price is unknown: agents, other servers


def estimate(
    questions: Sequence[Question], panel: Panel, models: Sequence[str], catalog: Catalog
) -> Estimate:
    """Estimate the cost. `models`: the members' own names, with `auto` and panels expanded.

    Raises `ModelNotFound` or `ProviderUnavailable` for a model that the engine would refuse.
    """
    members = len(models)
    question_tokens = sum(len(question.text) + sum(map(len, question.choices)) for question in questions) / 4
    prompt_tokens = question_tokens + _FRAME * len(questions)
    answer_tokens = _ANSWER * members * len(questions)  # read by each member that refines, and by the judge
    input_tokens = dict.fromkeys(models, 2 * prompt_tokens + answer_tokens if panel.refine else prompt_tokens)
    output_tokens = _ANSWER * len(questions) * (2 if panel.refine else 1)
    cost, unpriced = 0.0, []
    for name in models:
        price = _price(name, catalog)
        if price is None:
            unpriced.append(name)
            continue
        cost += (input_tokens[name] * price[0] + output_tokens * price[1]) / 1e6
    calls = members * len(questions) * (2 if panel.refine else 1)
    if panel.judge:
        calls += len(questions)
        price = _price(panel.judge, catalog)
        if price is None:
            unpriced.append(panel.judge)
        else:
            cost += ((prompt_tokens + answer_tokens) * price[0] + _ANSWER * len(questions) * price[1]) / 1e6
    return Estimate(calls, cost, tuple(dict.fromkeys(unpriced)))


def _price(name: str, catalog: Catalog) -> tuple[float, float] | None:
    if name in {AUTO, DEFAULT} or agent_named(name):
        return None
    return prices.per_million(catalog.resolve(name).model)
