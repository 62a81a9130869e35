"""Which reservations fit into their limits. All stores use this: they read the states and store what is granted."""

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
    """Each limit of the requests once, in order."""
    return list(dict.fromkeys(limit for request in requests for limit in request.limits))


def rates_of(requests: Sequence[ReservationRequest]) -> list[RateLimit]:
    """Each rate limit of the requests once, in order."""
    return list(dict.fromkeys(rate for request in requests for rate in request.rates))


def decide(
    requests: Sequence[ReservationRequest],
    states: Mapping[BudgetLimit, BudgetState],
    rates: Mapping[RateLimit, RateState] | None = None,
) -> list[ReservationOutcome]:
    """One outcome for each request, in order."""
    remaining = {limit: state.left(limit) for limit, state in states.items()}
    counts = {rate: state.count for rate, state in (rates or {}).items()}
    refusals: dict[str, NotGranted | TooMany] = {}
    granted: list[ReservationRequest] = []
    for request in requests:
        full = next((n for n, rate in enumerate(request.rates) if counts[rate] >= rate.max_calls), None)
        if full is not None:
            rate = request.rates[full]
            frees = (rates or {})[rate].frees
            refusals[request.id] = TooMany(full, RateState(counts[rate], frees))
            continue
        least_cost = request.cost(request.min_output)
        short = next(
            (n for n, limit in enumerate(request.limits) if remaining[limit] + _TINY < least_cost), None
        )
        if short is not None:
            limit = request.limits[short]
            change = remaining[limit] - states[limit].left(limit)  # reserved by the requests before this one
            state = BudgetState(states[limit].spent, states[limit].reserved - change)
            refusals[request.id] = NotGranted(short, state, least_cost)
            continue
        granted.append(request)
        for rate in request.rates:
            counts[rate] += 1
        for limit in request.limits:
            remaining[limit] -= least_cost
    outcomes = {request.id: _divide(request, remaining, granted) for request in granted}
    return [refusals.get(request.id) or outcomes[request.id] for request in requests]


def _divide(
    request: ReservationRequest, remaining: Mapping[BudgetLimit, float], granted: Sequence[ReservationRequest]
) -> Granted:
    """The least output, and a part of what remains when each granted request has its least."""
    tokens, lowered_by = request.max_output, None
    for number, limit in enumerate(request.limits):
        peer_count = sum(limit in peer.limits for peer in granted)
        equal_part = remaining[limit] / peer_count
        share = max(
            equal_part * limit.share,
            min(equal_part, (request.fair_output - request.min_output) * request.usd_per_token),
        )
        affordable = tokens
        if request.usd_per_token > 0:
            extra = (max(0.0, share) + _TINY) / request.usd_per_token  # infinite for the largest limits
            affordable = request.min_output + int(min(extra, request.max_output))
        if affordable < tokens:
            tokens, lowered_by = affordable, number
    return Granted(tokens, request.cost(tokens), lowered_by)
