"""Prices: they need no network, and a missing one is no error."""

import subprocess
import sys

import pytest

from counsel.models import catalog_rows, prices
from counsel.types import Model, Usage

SHIPPED = catalog_rows.shipped().models


def test_a_call_costs_what_its_tokens_cost() -> None:
    model = SHIPPED["gpt-5"]
    rates = prices.per_million(model)
    assert rates is not None
    per_input, per_output = rates
    usage = Usage(input=1_000_000, output=500_000)
    assert prices.cost(model, usage) == pytest.approx(per_input + per_output / 2)


def test_cached_input_is_cheaper_and_an_hours_cache_more_expensive() -> None:
    model = SHIPPED["claude-opus-5-5"]
    input_cost = prices.cost(model, Usage(input=1_000_000))
    cached_cost = prices.cost(model, Usage(input=1_000_000, cache_read=1_000_000))
    assert input_cost is not None
    assert cached_cost is not None
    assert cached_cost < input_cost
    assert prices.cost(model, Usage(input=1_000_000, cache_write=1_000_000)) == pytest.approx(2 * input_cost)


@pytest.mark.parametrize(
    "model", [model for model in SHIPPED.values() if model.provider != "local"], ids=lambda m: m.id
)
def test_every_shipped_model_has_a_price(model: Model) -> None:
    assert prices.per_million(model) is not None


def test_a_missing_price_is_none_and_not_an_error() -> None:
    assert prices.cost(Model("x", "nobody", "x"), Usage(1, 1)) is None
    assert prices.cost(Model("x", "openai", "no-such-model"), Usage(1, 1)) is None
    assert prices.cost(SHIPPED["gpt-5"], Usage(input=10, cache_read=20)) is None  # impossible counts
    assert prices.cost(SHIPPED["smollm2"], Usage(1, 1)) == 0.0


def test_warming_imports_in_another_thread() -> None:
    script = (
        "import sys, threading; from counsel.models import catalog_rows, prices; models = catalog_rows.shipped().models;"
        "prices.warm(models['gpt-5']); assert 'genai_prices' not in sys.modules;"
        "assert not [thread for thread in threading.enumerate() if thread.name == 'prices'];"
        "prices.warm(models['deepseek-chat']); prices.warm(models['deepseek-chat']);"
        "[thread.join() for thread in threading.enumerate() if thread.name == 'prices'];"
        "assert 'genai_prices' in sys.modules"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_nothing_heavy_is_imported_before_a_price_is_asked_for() -> None:
    script = (
        "import sys; from counsel import settings; from counsel.models import auto, prices;"
        "from counsel.models.catalog import Catalog; Catalog.load(settings.load({})).models();"
        "heavy = {'genai_prices', 'aiohttp', 'click', 'rich', 'pydantic'} & set(sys.modules); assert not heavy, heavy"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "usage",
    [Usage(1200, 340), Usage(5000, 10, cache_read=4000), Usage(9000, 1, cache_write=3000), Usage(500_000, 9)],
)
def test_the_table_says_what_the_library_says(usage: Usage) -> None:
    for model in catalog_rows.with_user_tables({}).models.values():
        if model.provider != "local":
            assert prices.cost(model, usage) == pytest.approx(prices.by_library(model, usage)), model.id
