"""Models as listings show them, and as providers' servers list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.models import discovery, listing, prices
from counsel.models.catalog import Catalog
from counsel.types import Endpoint, Limits, Model, Usage

OPENAI = {"OPENAI_API_KEY": "sk-test-0123456789abcdef"}


def catalog(home: Path, text: str = "", **env: str) -> Catalog:
    (home / "config.toml").write_text(text)
    return Catalog.load(settings.load({"COUNSEL_HOME": str(home), **env}))


# ── listings ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_as_json(tmp_path: Path) -> None:
    full_catalog = catalog(tmp_path, '[aliases]\nfast = "gpt-5"\n', **OPENAI)
    model = full_catalog.lookup("gpt-5")
    document = listing.as_json(full_catalog.row(model))
    assert (document["id"], document["provider"], document["wire_id"], document["label"]) == (
        "gpt-5", "openai", "gpt-5", model.label
    )  # fmt: skip
    assert document["aliases"][0] == "fast", "the user's own models come first"
    assert (document["available"], document["reason"], document["listed"]) == (True, "", True)
    assert (document["context"], document["output"]) == (model.context, model.output)
    assert document["price_per_million"] == dict(
        zip(("input", "output"), prices.per_million(model) or (), strict=True)
    )
    assert document["efforts"] == dict(model.efforts)
    assert document["temperature"] == (list(model.temperature) if model.temperature else None)
    assert {
        name: document[name] for name in ("vision", "web_search", "tools", "verbosity", "media_resolution")
    } == {
        name: getattr(model, name)
        for name in ("vision", "web_search", "tools", "verbosity", "media_resolution")
    }


def test_a_row_of_a_model_that_cannot_be_asked(tmp_path: Path) -> None:
    full_catalog = catalog(tmp_path)
    document = listing.as_json(full_catalog.row(full_catalog.lookup("openai/brand-new")))
    assert not document["available"]
    assert "OPENAI_API_KEY" in document["reason"]
    assert document["price_per_million"] is None
    assert document["superseded_by"] is None
    assert document["listed"] is False


def test_temperatures_and_successors_of_all_models(tmp_path: Path) -> None:
    rows = catalog(tmp_path).models()
    document = {row.model.id: listing.as_json(row) for row in rows}
    for row in rows:
        temperature = list(row.model.temperature) if row.model.temperature else None
        assert document[row.model.id]["temperature"] == temperature
        assert document[row.model.id]["superseded_by"] == (row.superseded_by or None)
    assert {type(row["temperature"]) for row in document.values()} == {list, type(None)}
    assert any(row["superseded_by"] for row in document.values())


def test_the_newest_models_of_each_provider_come_first(tmp_path: Path) -> None:
    full_catalog = catalog(tmp_path)
    rows = full_catalog.models()
    rows_by_age = listing.newest_first(full_catalog, rows)
    providers = list(dict.fromkeys(row.model.provider for row in rows_by_age))
    provider_names = [row.provider.name for row in full_catalog.providers() if row.provider.name in providers]
    assert providers == provider_names
    for provider in providers:
        ids = [row.model.id for row in rows_by_age if row.model.provider == provider]
        assert ids == [row.model.id for row in reversed(rows) if row.model.provider == provider]


def test_aliases_with_the_model_that_each_means(tmp_path: Path) -> None:
    full_catalog = catalog(tmp_path, '[aliases]\nfast = "gpt-5"\nbad = "gtp-5"\n')
    document = listing.document(full_catalog, full_catalog.models("openai"), ["p"])
    assert {row["provider"] for row in document["models"]} == {"openai"}
    assert document["problems"] == ["p"]
    good, bad = document["aliases"]
    assert good == {"name": "fast", "target": "gpt-5", "model": "gpt-5"}
    assert (bad["name"], bad["target"], bad["model"]) == ("bad", "gtp-5", None)
    assert "not a model" in bad["problem"]


def test_models_that_only_aliases_name(tmp_path: Path) -> None:
    text = '[aliases]\nnew = "openai/brand-new"\nsame = "openai/brand-new"\nold = "gpt-5"\nbad = "gtp-5"\n'
    (row,) = catalog(tmp_path, text).unlisted_by_alias()
    assert row.model.id == "openai/brand-new"
    assert row.names == ("new", "same")


def test_how_many_models_can_be_asked(tmp_path: Path) -> None:
    full_catalog = catalog(tmp_path, **OPENAI)
    rows = full_catalog.models()
    assert full_catalog.counts() == (len(rows), sum(row.available for row in rows))
    assert 0 < full_catalog.counts()[1] < full_catalog.counts()[0]


def test_models_that_cost_nothing(tmp_path: Path) -> None:
    text = """
        [models.half]
        provider = "openai"
        input_price = 0
        output_price = 1
        [models.free]
        provider = "openai"
        input_price = 0
        output_price = 0
        [models.unreachable]
        provider = "anthropic"
        input_price = 0
        output_price = 0
    """
    assert [model.id for model in catalog(tmp_path, text, **OPENAI).free_models()] == ["free"]


@pytest.mark.parametrize(
    ("name", "base_url", "key", "is_free"),
    [
        ("ollama", "http://127.0.0.1:9999/v1", "", True),
        ("mine", "http://localhost:11434/v1", "", True),
        ("mine", "http://[::1]:1234/v1", "", True),
        ("mine", "http://127.0.0.1:9999/v1", "", False),
        ("ollama", "https://ollama.example/v1", "", False),
        ("ollama", "http://127.0.0.1:11434/v1", "sk-1", False),
    ],
)
def test_a_server_on_this_machine_costs_nothing(
    tmp_path: Path, name: str, base_url: str, key: str, *, is_free: bool
) -> None:
    key_line = f'api_key = "{key}"\n' if key else ""
    text = f'[providers.{name}]\nbase_url = "{base_url}"\n{key_line}'
    model = catalog(tmp_path, text).lookup(f"{name}/llama")
    assert (prices.per_million(model) == (0.0, 0.0)) is is_free


# ── prices ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_most_that_a_call_can_cost() -> None:
    model = Model("m", "mine", "m", input_price=2.0, output_price=10.0)
    bound = prices.bound(model, 500_000)
    assert bound is not None
    assert bound.input == pytest.approx(1.0)
    assert bound.per_output_token == pytest.approx(10.0 / 1_000_000)
    assert prices.bound(Model("m", "mine", "m"), 500_000) is None


def test_writing_to_anthropics_cache_is_the_most_expensive_input(tmp_path: Path) -> None:
    model = catalog(tmp_path).lookup("opus")
    bound = prices.bound(model, 100_000)
    rates = prices.per_million(model)
    assert bound is not None
    assert rates is not None
    assert bound.input == pytest.approx(2 * rates[0] / 10)


def test_which_prices_need_no_library(tmp_path: Path) -> None:
    assert prices.is_listed(catalog(tmp_path).lookup("gpt-5"))
    assert prices.is_listed(Model("m", "mine", "m", input_price=2.0, output_price=10.0))
    assert not prices.is_listed(Model("m", "mine", "m"))
    assert not prices.is_listed(Model("m", "mine", "m", input_price=2.0))


def test_a_model_without_a_row_has_the_librarys_price() -> None:
    old = Model("openai/gpt-4", "openai", "gpt-4", listed=False)
    rates = prices.per_million(old)
    assert rates is not None
    assert 0 < rates[0] < rates[1]
    assert prices.cost(old, Usage(input=1_000_000)) == pytest.approx(rates[0])
    assert prices.per_million(Model("openai/none-such", "openai", "none-such", listed=False)) is None


# ── discovery ────────────────────────────────────────────────────────────────────────────────────────


class ListingTransport:
    """A transport whose server lists these models."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.path = ""

    async def get_json(self, endpoint: Endpoint, path: str, limits: Limits = Limits()) -> object:  # noqa: B008 - frozen
        assert endpoint.key
        assert limits.total < Limits().total, "a listing is not worth a long wait"
        self.path = path
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        {"data": [{"id": "gpt-5"}, {"id": "brand-new"}]},
        {"models": [{"name": "models/gpt-5"}, {"name": "models/brand-new"}]},
        [{"id": "gpt-5"}, {"id": "brand-new"}],
        {"data": [{"id": "gpt-5"}, "text", {"id": ""}, {}, {"id": "brand-new"}]},
    ],
)
async def test_each_form_of_a_listing(tmp_path: Path, answer: object) -> None:
    server = ListingTransport(answer)
    models = await discovery.discover(server, catalog(tmp_path, **OPENAI), "openai")
    assert server.path == "/models"
    assert [model.id for model in models] == ["gpt-5", "openai/brand-new"]
    assert [model.listed for model in models] == [True, False]


@pytest.mark.parametrize("answer", ["text", {"data": "text"}, {}, None])
async def test_an_answer_that_lists_nothing(tmp_path: Path, answer: object) -> None:
    assert await discovery.discover(ListingTransport(answer), catalog(tmp_path, **OPENAI), "openai") == []


@pytest.mark.parametrize(
    ("entry", "context"),
    [
        ({"context_length": 1234}, 1234),
        ({"max_model_len": 1234}, 1234),
        ({"max_context_length": 1234}, 1234),
        ({"max_input_tokens": 1234}, 1234),
        ({"inputTokenLimit": 1234}, 1234),
        ({"context_length": 0, "max_model_len": 1}, 1),
        ({"context_length": "1234"}, None),
        ({"context_length": -1}, None),
    ],
)
async def test_the_window_that_a_server_reports(tmp_path: Path, entry: Any, context: int | None) -> None:
    full_catalog = catalog(tmp_path, **OPENAI)
    (model,) = await discovery.discover(
        ListingTransport([{"id": "brand-new", **entry}]), full_catalog, "openai"
    )
    assert model.context == (context or full_catalog.lookup("openai/brand-new").context)


async def test_an_endless_listing_is_cut(tmp_path: Path) -> None:
    answer = [{"id": f"m{number}" + "x" * 300} for number in range(5_001)]
    models = await discovery.discover(ListingTransport(answer), catalog(tmp_path, **OPENAI), "openai")
    assert len(models) == 5_000
    assert len(models[0].wire_id) == 200
