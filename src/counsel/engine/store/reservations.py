"""Which reservations fit into their limits: the same for every store, which reads the states and keeps what is granted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counsel.engine.store.records import (
    BudgetLimit,
    BudgetState,
    Granted,
    NotGranted,
    RateLimit,
    RateState,
    ReservationOutcome,
    ReservationRequest,
    TooMany,
)

_TINY = 1e-9  # dollars: sums of floats are not exact


def limits_of(requests: Sequence[ReservationRequest]) -> list[BudgetLimit]:
    """Each once, in order."""
    return list(dict.fromkeys(limit for request in requests for limit in request.limits))


def rates_of(requests: Sequence[ReservationRequest]) -> list[RateLimit]:
    """Each once, in order."""
    return list(dict.fromkeys(rate for request in requests for rate in request.rates))


def decide(
    requests: Sequence[ReservationRequest],
    states: Mapping[BudgetLimit, BudgetState],
    rates: Mapping[RateLimit, RateState] | None = None,
) -> list[ReservationOutcome]:
    """One outcome for each, in order."""
    left = {limit: state.left(limit) for limit, state in states.items()}
    counts = {rate: state.count for rate, state in (rates or {}).items()}
    refused: dict[str, NotGranted | TooMany] = {}
    granted: list[ReservationRequest] = []
    for request in requests:
        full = next((n for n, rate in enumerate(request.rates) if counts[rate] >= rate.most), None)
        if full is not None:
            rate = request.rates[full]
            frees = (rates or {})[rate].frees
            refused[request.id] = TooMany(full, RateState(counts[rate], frees))
            continue
        needed = request.cost(request.least)
        short = next((n for n, limit in enumerate(request.limits) if left[limit] + _TINY < needed), None)
        if short is not None:
            limit = request.limits[short]
            others = left[limit] - states[limit].left(limit)  # taken by those before it
            state = BudgetState(states[limit].spent, states[limit].reserved - others)
            refused[request.id] = NotGranted(short, state, needed)
            continue
        granted.append(request)
        for rate in request.rates:
            counts[rate] += 1
        for limit in request.limits:
            left[limit] -= needed
    outcomes = {request.id: _divide(request, left, granted) for request in granted}
    return [refused.get(request.id) or outcomes[request.id] for request in requests]


def _divide(
    request: ReservationRequest, left: Mapping[BudgetLimit, float], granted: Sequence[ReservationRequest]
) -> Granted:
    """The least output, and a part of what is left when everyone has that."""
    tokens, lowered_by = request.most, None
    for number, limit in enumerate(request.limits):
        sharing = sum(limit in other.limits for other in granted)
        most = left[limit] / sharing
        share = max(most * limit.share, min(most, (request.fair - request.least) * request.usd_per_token))
        allowed = tokens
        if request.usd_per_token > 0:
            more = (max(0.0, share) + _TINY) / request.usd_per_token  # infinite for the largest limits
            allowed = request.least + int(min(more, request.most))
        if allowed < tokens:
            tokens, lowered_by = allowed, number
    return Granted(tokens, request.cost(tokens), lowered_by)
