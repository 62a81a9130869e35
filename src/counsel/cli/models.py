"""`counsel models`: the models that can be asked, and what the others need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from counsel import settings
from counsel.cli import json_option, output
from counsel.errors import CounselError, InvalidArgument
from counsel.models import listing, prices
from counsel.models.catalog import Catalog, ModelRow
from counsel.types import Model

_ABILITIES = ("vision", "web_search", "tools", "verbosity")
_COLUMNS = ("model", "provider", "available", "context", "output", "$ in / out", "abilities", "aliases")
_WIDE = 110  # columns that a terminal needs for all of them


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include models that are not available.")
@click.option("--provider", metavar="P", help="Show only the models of this provider.")
@click.option("--discover", "ask_servers", is_flag=True, help="Ask providers for their lists of models.")
@json_option
def models(*, everything: bool, provider: str | None, ask_servers: bool, as_json: bool) -> None:
    """List models: availability, context window, price, aliases.

    Prices are in dollars per million tokens, input / output. --json lists all models, available or not.
    """
    catalog = Catalog.load(settings.load())
    provider = provider.strip().lower() if provider else None
    rows = _rows(catalog, provider)
    problems = list(catalog.problems)
    if ask_servers:
        rows += _discovered(catalog, provider, problems)
    if as_json:
        output.document({"models": [listing.as_json(row) for row in rows], "problems": problems})
        return
    if rows:
        _show(rows, everything=everything or provider is not None)
    else:
        output.message(
            f"No models are listed. `--discover` asks {provider} for its models; any id works as {provider}/ID."
        )
    for problem in problems:
        output.message(f"problem: {problem}")


def _rows(catalog: Catalog, provider: str | None) -> list[ModelRow]:
    if provider and not catalog.has_provider(provider):
        known = ", ".join(row.provider.name for row in catalog.providers())
        raise InvalidArgument(f"There is no provider {provider!r}.", hint=f"There are {known}.")
    return catalog.models(provider)


def _discovered(catalog: Catalog, provider: str | None, problems: list[str]) -> list[ModelRow]:
    """Models that the servers list and the catalog does not; a server that does not answer is added to `problems`."""
    providers = [
        row.provider.name
        for row in catalog.providers()
        if row.available and (row.provider.discover if provider is None else row.provider.name == provider)
    ]
    models, failed = asyncio.run(_ask(catalog, providers))
    problems += failed
    return [ModelRow(model, available=True, reason="") for model in models if not model.listed]


async def _ask(catalog: Catalog, providers: Sequence[str]) -> tuple[list[Model], list[str]]:
    from counsel.models.transport import Transport  # aiohttp is only needed here

    transport = Transport()
    try:
        answers = await asyncio.gather(
            *(listing.discover(transport, catalog, provider) for provider in providers),
            return_exceptions=True,
        )
    finally:
        await transport.close()
    models: list[Model] = []
    failed: list[str] = []
    for provider, answer in zip(providers, answers, strict=True):
        if isinstance(answer, CounselError):
            failed.append(f"{provider} did not list its models: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            models += answer
    return models, failed


def _show(rows: Sequence[ModelRow], *, everything: bool) -> None:
    available = [row for row in rows if row.available]
    shown = rows if everything or not available else available
    narrow = (output.width() or _WIDE) < _WIDE
    dropped = {"abilities"} if narrow else set()
    columns = [number for number, column in enumerate(_COLUMNS) if column not in dropped]
    cells = [_cells(row) for row in shown]
    output.table(
        [_COLUMNS[number] for number in columns], [[row[number] for number in columns] for row in cells]
    )
    if narrow:
        output.message("A wider terminal, or --json, also shows each model's abilities.")
    if hidden := len(rows) - len(shown):
        output.message(f"{hidden} more are not available: `counsel models --all` shows what they need.")
    for need in dict.fromkeys(f"{row.model.provider}: {row.reason}" for row in shown if row.reason):
        output.message(need)


def _cells(row: ModelRow) -> tuple[str, ...]:
    model = row.model
    price = prices.per_million(model)
    return (
        model.id,
        model.provider,
        "yes" if row.available else "no",
        short(model.context),
        short(model.output),
        f"{price[0]:g} / {price[1]:g}" if price else "?",
        " ".join(ability.replace("_", "-") for ability in (*_ABILITIES, "effort") if _has(row, ability)),
        ", ".join(model.aliases),
    )


def _has(row: ModelRow, ability: str) -> bool:
    return bool(row.model.efforts if ability == "effort" else getattr(row.model, ability))


def short(tokens: int) -> str:
    """1_048_576 → 1M, 200_000 → 200K: as the vendors write windows."""
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens // 1000}K" if tokens >= 1000 else str(tokens)
