"""`counsel models`: the models that can be asked, and what the others need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from counsel import settings
from counsel.cli import json_option, models_output
from counsel.cli.terminal import output
from counsel.cli.terminal.numbers import Number
from counsel.errors import CounselError, InvalidArgument
from counsel.models import listing, prices
from counsel.models.catalog import Catalog, ModelRow
from counsel.models.catalog_rows import fold
from counsel.text import did_you_mean
from counsel.types import Model

if TYPE_CHECKING:
    from counsel.team_login import TeamLogin


@click.command()
@click.argument("text", nargs=-1)
@click.option("--available", is_flag=True, help="Show only models that can be asked now.")
@click.option("--all", "everything", is_flag=True, help="Include models that are not available.")
@click.option("--vision", is_flag=True, help="Show only models that accept images.")
@click.option(
    "--under",
    type=Number(min=0),
    metavar="DOLLARS",
    help="Show only models whose input costs less than this per million tokens.",
)
@click.option("--provider", metavar="P", help="Show only the models of this provider.")
@click.option("--discover", "ask_servers", is_flag=True, help="Ask providers for their lists of models.")
@json_option
def models(
    *,
    text: tuple[str, ...],
    available: bool,
    everything: bool,
    vision: bool,
    under: float | None,
    provider: str | None,
    ask_servers: bool,
    as_json: bool,
) -> None:
    """List models by provider, newest first: context window, price, what they can do, aliases.

    TEXT is part of a model's name, alias or provider, such as `gpt` or `opus`. Prices are in dollars per million
    tokens, input and output. Without a filter, unavailable models are left out if any are available; --json lists all.
    """
    if available and everything:
        raise InvalidArgument("--available and --all cannot be combined.", hint="Use one of them.")
    catalog = _current_catalog() if ask_servers else Catalog.load(settings.load())
    provider = provider.strip().lower() if provider else None
    rows = _rows(catalog, provider)
    problems = list(catalog.problems)
    if ask_servers:
        rows += _discover(catalog, provider, problems)
    filters = list(_filters(catalog, text, vision=vision, under=under, available=available))
    matches = [row for row in listing.newest_first(catalog, rows) if all(test(row) for test in filters)]
    if as_json:
        output.document(listing.document(catalog, matches, problems))
        return
    selection = matches if everything or provider or text else _available_if_any(matches)
    if selection:
        labels = {row.provider.name: row.provider.label for row in catalog.providers()}
        models_output.show(
            selection, labels, aliases=_aliases(catalog, text), hidden_count=len(matches) - len(selection)
        )
    elif rows:
        output.message(_no_match(catalog, text, available=available))
    else:
        output.message(
            f"No models are listed. `--discover` asks {provider} for its models; any id works as {provider}/ID."
        )
    for problem in problems:
        output.message(f"problem: {problem}")
    if login := settings.load().team:
        output.message(f"Models of providers with a key are asked through the team server {login.host}.")


def _rows(catalog: Catalog, provider: str | None) -> list[ModelRow]:
    """The catalog's models, and unlisted ones that the user's aliases refer to."""
    if provider and not catalog.has_provider(provider):
        names = ", ".join(row.provider.name for row in catalog.providers())
        raise InvalidArgument(f"There is no provider {provider!r}.", hint=f"The providers are {names}.")
    return catalog.models(provider) + [
        row for row in catalog.unlisted_by_alias() if provider in {None, row.model.provider}
    ]


def _filters(
    catalog: Catalog, text: Sequence[str], *, vision: bool, under: float | None, available: bool
) -> Iterable[Callable[[ModelRow], bool]]:
    labels = {row.provider.name: row.provider.label for row in catalog.providers()}
    for part in map(fold, text):
        yield lambda row, part=part: any(part in name for name in _search_terms(row, labels))  # type: ignore[misc]
    if vision:
        yield lambda row: row.model.vision
    if available:
        yield lambda row: row.available
    if under is not None:
        yield lambda row: (price := prices.per_million(row.model)) is not None and price[0] < under


def _search_terms(row: ModelRow, labels: dict[str, str]) -> list[str]:
    provider = row.model.provider
    return [fold(name) for name in (row.model.id, *row.names, provider, labels.get(provider, ""))]


def _available_if_any(rows: list[ModelRow]) -> list[ModelRow]:
    return [row for row in rows if row.available] or rows


def _aliases(catalog: Catalog, text: Sequence[str]) -> dict[str, str]:
    """The ids behind the user's aliases; with a filter, also behind names without a version such as `opus-latest`."""
    names = {alias.name for alias in catalog.aliases}
    if text:
        names |= {name for name in catalog.names() if not any(map(str.isdigit, name)) or name in text}
    matches = [name for name in sorted(names) if all(fold(part) in fold(name) for part in text)]
    return {name: model.id for name in matches if (model := _model_of(catalog, name)) and model.id != name}


def _model_of(catalog: Catalog, name: str) -> Model | None:
    try:
        return catalog.lookup(name)
    except CounselError:  # a bad alias: one of the catalog's problems
        return None


def _no_match(catalog: Catalog, text: Sequence[str], *, available: bool) -> str:
    query = " ".join(text)
    nearest = catalog.nearest(query) if query else []
    suggestion = f" {did_you_mean(nearest)}" if nearest else ""
    if available:
        suggestion += " Without --available, the list shows what each model needs."
    return f"No {'available ' * available}model matches{f' {query!r}' if query else ''}.{suggestion}"


def _current_catalog() -> Catalog:
    """The catalog with the team server's current list of models."""
    import asyncio

    from counsel.models import team
    from counsel.models.transport import Transport

    async def ask(login: TeamLogin) -> None:
        transport = Transport()
        try:
            team.remember(user_settings, login, await team.ask(transport, login, user_settings.env))
        finally:
            await transport.close()

    user_settings = settings.load()
    if user_settings.team and not user_settings.team.problem:
        asyncio.run(ask(user_settings.team))
    return Catalog.load(settings.load())


def _discover(catalog: Catalog, provider: str | None, problems: list[str]) -> list[ModelRow]:
    """Models that the servers list and the catalog does not; a server that does not answer is added to `problems`."""
    import asyncio  # 30 ms that only --discover needs

    providers = [
        row.provider.name
        for row in catalog.providers()
        if row.available
        and not row.team
        and (row.provider.discover if provider is None else row.provider.name == provider)
    ]
    models, failures = asyncio.run(_ask(catalog, providers))
    problems += failures
    return [catalog.row(model) for model in models if not model.listed]


async def _ask(catalog: Catalog, providers: Sequence[str]) -> tuple[list[Model], list[str]]:
    import asyncio

    from counsel.models.discovery import discover
    from counsel.models.transport import Transport  # aiohttp is only needed here

    transport = Transport()
    try:
        answers = await asyncio.gather(
            *(discover(transport, catalog, provider) for provider in providers),
            return_exceptions=True,
        )
    finally:
        await transport.close()
    models: list[Model] = []
    failures: list[str] = []
    for provider, answer in zip(providers, answers, strict=True):
        if isinstance(answer, CounselError):
            failures.append(f"{provider} did not list its models: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            models += answer
    return models, failures
