"""`auto`: which models are tried, in which order, and why others are not."""

from pathlib import Path

import pytest

from counsel import settings
from counsel.errors import ContextLengthExceeded, ProviderUnavailable
from counsel.models.auto import Needs, candidates, explain, no_candidates
from counsel.models.catalog import Catalog

GOOGLE = {"GOOGLE_API_KEY": "k"}
MISTRAL = {"MISTRAL_API_KEY": "k"}
DEEPSEEK = {"DEEPSEEK_API_KEY": "k"}


def catalog(tmp_path: Path, env: dict[str, str] | None = None, config: str = "") -> Catalog:
    (tmp_path / "config.toml").write_text(config)
    return Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path), **(env or {})}))


def ids(catalog: Catalog, needs: Needs | None = None, order: tuple[str, ...] = ()) -> list[str]:
    return [target.model.id for target in candidates(catalog, needs or Needs(), order)]


def test_the_best_available_comes_first_and_other_providers_follow(tmp_path: Path) -> None:
    result = ids(catalog(tmp_path, {"OPENAI_API_KEY": "k", **GOOGLE}))
    assert result[:2] == ["gpt-6.1-sol", "gemini-4-argon"]
    assert ids(catalog(tmp_path, GOOGLE))[0] == "gemini-4-argon"


def test_needs_pass_models_over(tmp_path: Path) -> None:
    result = catalog(tmp_path, {**DEEPSEEK, **MISTRAL})
    assert ids(result) == ["deepseek-v4-pro", "mistral-large-4"]
    assert ids(result, Needs(vision=True)) == ["mistral-large-4"]
    assert ids(result, Needs(web_search=True)) == []
    assert ids(result, Needs(tokens=1_040_000)) == ["mistral-large-4"]


def test_the_users_order_wins(tmp_path: Path) -> None:
    result = catalog(tmp_path, {"OPENAI_API_KEY": "k", **GOOGLE, **MISTRAL})
    assert ids(result, order=("flash", "gpt-5")) == ["gemini-2.5-flash", "gpt-5"]
    assert (
        ids(result, order=("mistral", "google"))[0] == "mistral-large-4"
    )  # a provider's name: its ranked models
    assert ids(result, order=("google", "flash")) == ["gemini-4-argon", "gemini-2.5-pro", "gemini-2.5-flash"]
    assert ids(result, order=("openai/gpt-4o",)) == ["openai/gpt-4o"]


def test_a_provider_without_ranks_offers_its_listed_models(tmp_path: Path) -> None:
    config = '[providers.ollama]\nbase_url = "http://127.0.0.1:1/v1"\nmodels = ["a", "b"]\n'
    assert ids(catalog(tmp_path, config=config), order=("ollama",)) == ["a", "b"]
    assert ids(catalog(tmp_path, config=config)) == []


def test_entries_that_are_not_models_are_explained_and_not_fatal(tmp_path: Path) -> None:
    entries = explain(catalog(tmp_path, GOOGLE), Needs(), ("codex", "nonsense", "grok", "flash"))
    assert [entry.target is not None for entry in entries] == [False, False, False, True]
    assert ("agents" in entries[0].reason, entries[0].agent) == (True, "codex")
    assert "nonsense" in entries[1].reason
    assert "XAI_API_KEY" in entries[2].reason


def test_with_no_key_the_error_says_what_to_set_and_names_the_demo(tmp_path: Path) -> None:
    error = no_candidates(catalog(tmp_path), Needs())
    assert isinstance(error, ProviderUnavailable)
    for word in ("counsel keys set openai", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "counsel demo"):
        assert word in str(error)


def test_the_error_says_what_was_missing(tmp_path: Path) -> None:
    result = catalog(tmp_path, DEEPSEEK)
    assert "does not accept images" in str(no_candidates(result, Needs(vision=True)))
    too_long = no_candidates(result, Needs(tokens=2_000_000))
    assert isinstance(too_long, ContextLengthExceeded)
    assert (too_long.max_tokens, too_long.provided_tokens) == (1_000_000, 2_000_000)
    assert "COUNSEL_AUTO_ORDER" in str(no_candidates(result, Needs(), ("grok",)))


@pytest.mark.parametrize(
    ("env", "expected"), [({}, []), ({"COUNSEL_LOCAL_BASE_URL": "http://127.0.0.1:1/v1"}, ["smollm2"])]
)
def test_the_demo_model_is_picked_only_when_it_runs(
    tmp_path: Path, env: dict[str, str], expected: list[str]
) -> None:
    assert ids(catalog(tmp_path, env)) == expected


def test_a_running_demo_model_comes_last(tmp_path: Path) -> None:
    env = {"COUNSEL_LOCAL_BASE_URL": "http://127.0.0.1:1/v1", **MISTRAL}
    assert ids(catalog(tmp_path, env)) == ["mistral-large-4", "smollm2"]
