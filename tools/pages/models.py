"""The generated parts of docs/use/models.md and docs/use/providers.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from counsel.cli.models_output import short
from counsel.models import catalog_rows
from counsel.models.catalog import Catalog, ModelRow
from counsel.settings import Settings
from counsel.types import EFFORTS, Model, Provider
from tools.generate import within


def models() -> str:
    catalog = Catalog(catalog_rows.shipped(), Settings())
    columns = ("model", "aliases", "context", "output", "images", "web search", "effort", "auto")
    parts = [
        f"### {provider.label}\n\n{_table(columns, map(_model, reversed(catalog.models(name))))}"
        for name, provider in catalog_rows.shipped().providers.items()
    ]
    return within("docs/use/models.md", table="\n\n".join(parts))


def _model(row: ModelRow) -> Sequence[str]:
    model = row.model
    return (
        f"`{model.id}`" + (f" → `{row.superseded_by}`" if row.superseded_by else ""),
        ", ".join(f"`{alias}`" for alias in row.names),
        _context(model),
        short(model.output),
        "yes" if model.vision else "",
        "yes" if model.web_search else "",
        " / ".join(str(model.efforts[level]) for level in EFFORTS) if model.efforts else "",
        str(model.auto_rank or ""),
    )


def _context(model: Model) -> str:
    context, specification = short(model.context), model.options.get("specified_context")
    return f"{context} (specified: {short(specification)})" if specification else context


def providers() -> str:
    columns = ("provider", "name", "key", "address", "set by", "format")
    return within(
        "docs/use/providers.md",
        table=_table(columns, map(_provider, catalog_rows.shipped().providers.values())),
    )


def _provider(provider: Provider) -> Sequence[str]:
    keys = " or ".join(f"`{name}`" for name in provider.key_envs)
    return (
        provider.label,
        f"`{provider.name}`",
        keys if provider.key_required else f"none ({keys})",
        provider.base_url or "none until it runs",
        f"`{provider.base_url_env}`",
        f"`{provider.wire}`",
    )


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)])
