"""Names → models, for callers with different keys and tables."""

from pathlib import Path

import pytest
from genai_prices import data

from counsel import settings
from counsel.errors import AgentUnavailable, ModelNotFound, ProviderUnavailable
from counsel.models import catalog_rows
from counsel.models.auto import Needs, candidates
from counsel.models.catalog import Catalog, agent_named
from counsel.models.wires import WIRES
from counsel.types import EFFORTS

# Every name in converse's tables: name → id as the vendor spells it, context, output
SEED = {
    "gpt-5.1": ("gpt-5.1", 1_000_000, 128_000),
    "gpt-5": ("gpt-5", 1_000_000, 64_000),
    "gpt-5-mini": ("gpt-5-mini", 1_000_000, 64_000),
    "gpt-5-nano": ("gpt-5-nano", 1_000_000, 64_000),
    "gpt-5-pro": ("gpt-5-pro", 1_000_000, 128_000),
    "o3": ("o3", 200_000, 100_000),
    "o3-pro": ("o3-pro", 200_000, 100_000),
    "o4-mini": ("o4-mini", 200_000, 100_000),
    "gpt-4.1": ("gpt-4.1", 1_047_576, 32_768),
    "gemini-3-pro-preview": ("gemini-3-pro-preview", 1_048_576, 65_536),
    "pro": ("gemini-3-pro-preview", 1_048_576, 65_536),
    "gemini-2.5-pro": ("gemini-2.5-pro", 1_048_576, 65_536),
    "pro 2.5": ("gemini-2.5-pro", 1_048_576, 65_536),
    "gemini-2.5-flash": ("gemini-2.5-flash", 1_048_576, 65_536),
    "flash": ("gemini-2.5-flash", 1_048_576, 65_536),
    "grok-4-0709": ("grok-4-0709", 256_000, 256_000),
    "grok": ("grok-4-0709", 256_000, 256_000),
    "grok-4": ("grok-4-0709", 256_000, 256_000),
    "grok-code-fast-1": ("grok-code-fast-1", 256_000, 256_000),
    "grok-code-fast": ("grok-code-fast-1", 256_000, 256_000),
    "claude-opus-4-5-20250220": ("claude-opus-4-5-20251101", 200_000, 32_000),
    "opus-4.5": ("claude-opus-4-5-20251101", 200_000, 32_000),
    "opus": ("claude-opus-4-5-20251101", 200_000, 32_000),
    "claude-opus-4-1-20250805": ("claude-opus-4-1-20250805", 200_000, 32_000),
    "opus-4.1": ("claude-opus-4-1-20250805", 200_000, 32_000),
    "opus-4": ("claude-opus-4-1-20250805", 200_000, 32_000),
    "claude-sonnet-4-5-20250929": ("claude-sonnet-4-5-20250929", 200_000, 64_000),
    "sonnet-4.5": ("claude-sonnet-4-5-20250929", 200_000, 64_000),
    "sonnet": ("claude-sonnet-4-5-20250929", 200_000, 64_000),
    "claude-sonnet-4-20250514": ("claude-sonnet-4-20250514", 200_000, 64_000),
    "sonnet-4": ("claude-sonnet-4-20250514", 200_000, 64_000),
    "claude-haiku-4-5-20251001": ("claude-haiku-4-5-20251001", 200_000, 64_000),
    "haiku-4.5": ("claude-haiku-4-5-20251001", 200_000, 64_000),
    "haiku": ("claude-haiku-4-5-20251001", 200_000, 64_000),
    "deepseek-v3": ("deepseek-chat", 128_000, 64_000),
    "deepseek-chat": ("deepseek-chat", 128_000, 64_000),
    "deepseek": ("deepseek-chat", 128_000, 64_000),
    "deepseek-coder-v2.5": ("deepseek-coder-v2.5", 128_000, 16_000),
    "deepseek-coder": ("deepseek-coder-v2.5", 128_000, 16_000),
    "magistral-medium-2506": ("magistral-medium-2506", 40_000, 8_000),
    "magistral": ("magistral-medium-2506", 40_000, 8_000),
    "magistral-medium": ("magistral-medium-2506", 40_000, 8_000),
    "magistral-small-2506": ("magistral-small-2506", 40_000, 8_000),
    "magistral-small": ("magistral-small-2506", 40_000, 8_000),
    "mistral-medium-2505": ("mistral-medium-2505", 128_000, 32_000),
    "mistral-medium": ("mistral-medium-2505", 128_000, 32_000),
    "mistral": ("mistral-medium-2505", 128_000, 32_000),
    "kimi/k2": ("moonshotai/kimi-k2-0905", 256_000, 128_000),
    "k2": ("moonshotai/kimi-k2-0905", 256_000, 128_000),
    "kimi-k2": ("moonshotai/kimi-k2-0905", 256_000, 128_000),
    "qwen/qwen-2.5-coder-32b-instruct": ("qwen/qwen-2.5-coder-32b-instruct", 32_000, 32_000),
    "qwen-coder": ("qwen/qwen-2.5-coder-32b-instruct", 32_000, 32_000),
    "qwen/qwq-32b-preview": ("qwen/qwq-32b-preview", 32_000, 32_000),
    "qwen-thinking": ("qwen/qwq-32b-preview", 32_000, 32_000),
    "qwq": ("qwen/qwq-32b-preview", 32_000, 32_000),
}
KEYS = dict.fromkeys(
    (
        "OPENAI_API_KEY",
        "GOOGLE_API_KEY",
        "XAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "DEEPSEEK_API_KEY",
        "MISTRAL_API_KEY",
        "OPENROUTER_API_KEY",
    ),
    "a-key",
)


def catalog(tmp_path: Path, env: dict[str, str] | None = None, config: str = "") -> Catalog:
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "config.toml").write_text(config)
    return Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path), **(env or {})}))


@pytest.mark.parametrize("name", SEED)
def test_every_name_of_converse_resolves_as_documented(tmp_path: Path, name: str) -> None:
    model = catalog(tmp_path, KEYS).resolve(name).model
    context = model.options.get("specified_context", model.context)
    assert (model.id, context, model.output) == SEED[name]


def test_the_wires_that_a_row_may_name_are_those_that_exist() -> None:
    assert tuple(WIRES) == catalog_rows.WIRES


def test_the_shipped_rows_are_sound() -> None:
    shipped_rows = catalog_rows.shipped()
    assert not shipped_rows.problems
    for model in shipped_rows.models.values():
        assert set(model.efforts) in (set(), set(EFFORTS)), model.id
        assert bool(model.efforts) == (model.effort_style != "none"), model.id
        assert model.output <= model.context, model.id
        budgets = [level for level in model.efforts.values() if isinstance(level, int)]
        assert max(budgets, default=0) < model.output, model.id
        successor = model.options.get("successor")
        if successor and "/" not in successor:
            assert catalog_rows.fold(successor) in shipped_rows.names, model.id
    ranks = [model.auto_rank for model in shipped_rows.models.values() if model.auto_rank is not None]
    assert len(ranks) == len(set(ranks))


@pytest.mark.parametrize("name", ["FLASH", " flash ", "Gemini-2.5-Flash", "gemini 2.5 flash", "google/flash"])
def test_case_and_separators_do_not_matter(tmp_path: Path, name: str) -> None:
    assert catalog(tmp_path).lookup(name).id == "gemini-2.5-flash"


@pytest.mark.parametrize("name", ["openrouter/Some/Slug:free", "OpenRouter/Some/Slug:free"])
def test_an_unlisted_id_of_a_named_provider_works(tmp_path: Path, name: str) -> None:
    target = catalog(tmp_path, KEYS).resolve(name)
    assert target.model.wire_id == "Some/Slug:free"  # as it was typed: a server's ids may be case-sensitive
    assert target.model.id == "openrouter/Some/Slug:free"
    assert not target.model.listed
    assert target.model.effort_style == "none"
    assert target.endpoint.provider.name == "openrouter"


def test_a_listed_model_keeps_its_facts_when_it_is_named_with_its_provider(tmp_path: Path) -> None:
    result = catalog(tmp_path)
    assert result.lookup("openai/gpt-5.1") == result.lookup("gpt-5.1")
    assert result.lookup("anthropic/claude-opus-4-5-20251101").id == "claude-opus-4-5-20251101"
    assert not result.lookup("openai/flash").listed  # another provider's alias does not apply here


@pytest.mark.parametrize(
    ("name", "near"), [("sonet", "sonnet"), ("gpt-5.1o", "gpt-5.1"), ("gemini-flash", "gemini-3.8-flash")]
)
def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path, name: str, near: str) -> None:
    with pytest.raises(ModelNotFound) as failure:
        catalog(tmp_path, KEYS).resolve(name)
    assert near in failure.value.fields["nearest"]
    assert near in str(failure.value)


@pytest.mark.parametrize("name", ["", "zzzz", "auto", "openai/", "/gpt-5", "nobody/gpt-5", "local/llama3"])
def test_no_name_goes_to_a_vendor_by_guess(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound):
        catalog(tmp_path, KEYS).resolve(name)


def test_an_unknown_provider_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"Unknown provider 'ollama' .*openrouter.*config\.toml"):
        catalog(tmp_path, KEYS).resolve("ollama/llama3")


@pytest.mark.parametrize("name", ["gemini", "codex", "claude", "cursor", "Codex", "codex/gpt-5"])
def test_the_agents_are_not_models(tmp_path: Path, name: str) -> None:
    assert agent_named(name) == name.lower().split("/")[0]
    with pytest.raises(AgentUnavailable) as failure:
        catalog(tmp_path, KEYS).resolve(name)
    assert failure.value.agent == name.lower().split("/")[0]
    assert agent_named("gemini-2.5-pro") is None


def test_a_missing_key_names_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnavailable, match="GOOGLE_API_KEY or GEMINI_API_KEY") as failure:
        catalog(tmp_path).resolve("flash")
    assert failure.value.provider == "google"
    assert "`counsel keys set google`" in (failure.value.hint or "")


def test_keys_and_addresses_are_each_callers_own(tmp_path: Path) -> None:
    first = catalog(tmp_path, {"GEMINI_API_KEY": "key-1", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"})
    second = catalog(tmp_path, {"GOOGLE_API_KEY": "two", "GEMINI_API_KEY": "other"})
    assert (first.resolve("pro").endpoint.key, second.resolve("pro").endpoint.key) == ("key-1", "two")
    assert first.resolve("pro").endpoint.base_url == "http://127.0.0.1:9"
    assert "key-1" not in repr(first.resolve("pro"))
    assert "googleapis" in second.resolve("pro").endpoint.base_url


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:9/v1/"])
def test_an_address_without_a_path_gets_the_usual_one(tmp_path: Path, address: str) -> None:
    result = catalog(tmp_path, {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address})
    assert result.resolve("gpt-5").endpoint.base_url == "http://127.0.0.1:9/v1"


def test_a_bad_address_disables_its_provider_alone(tmp_path: Path) -> None:
    result = catalog(tmp_path, {**KEYS, "XAI_BASE_URL": "localhost:9"})
    assert any("XAI_BASE_URL" in problem for problem in result.problems)
    with pytest.raises(ProviderUnavailable, match="XAI_BASE_URL") as failure:
        result.resolve("grok")
    assert str(failure.value).count("is not available") == 1
    assert result.resolve("gpt-5")


def test_rows_say_what_is_available_and_why_not(tmp_path: Path) -> None:
    result = {row.model.id: row for row in catalog(tmp_path, {"XAI_API_KEY": "xai-1"}).models()}
    assert result["grok-4-0709"].available
    assert "OPENAI_API_KEY" in result["gpt-5"].reason
    assert "counsel demo" in result["smollm2"].reason


def test_providers_say_where_key_and_address_come_from_and_never_the_key(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("XAI_API_KEY=not-a-key-of-xai\n")
    result = {
        row.provider.name: row for row in catalog(tmp_path, {"OPENAI_BASE_URL": "http://h/v1"}).providers()
    }
    assert str(tmp_path / ".env") in result["xai"].key_source
    assert not result["xai"].key_well_formed
    assert result["openai"].base_url_source == "environment"
    assert not result["openai"].key_source
    assert "not-a-key-of-xai" not in repr(result)


def test_a_search_takes_the_wire_that_can(tmp_path: Path) -> None:
    target = catalog(tmp_path, KEYS).resolve("grok")
    assert target.endpoint.provider.wire == "openai_chat"
    assert target.searching().endpoint.provider.wire == "openai_responses"
    assert target.searching().model.effort_style == "reasoning"
    gpt = catalog(tmp_path, KEYS).resolve("gpt-5")
    assert gpt.searching() is gpt


def test_a_retired_model_has_a_successor(tmp_path: Path) -> None:
    result = catalog(tmp_path, KEYS)
    newer, same = result.successor(result.lookup("pro")), result.successor(result.lookup("qwq"))
    assert newer is not None
    assert same is not None
    assert (newer.model.id, same.model.wire_id) == ("gemini-3.1-pro-preview", "qwen/qwq-32b")
    assert result.successor(result.lookup("gpt-5")) is None


# ── the user's tables ────────────────────────────────────────────────────────────────────────────────

OLLAMA = """
[providers.ollama]
base_url = "http://127.0.0.1:11434/v1"
models = ["llama3.2", "qwen3:8b"]
context = 32768
vision = true
"""


def test_a_compatible_provider_is_a_table(tmp_path: Path) -> None:
    result = catalog(tmp_path, config=OLLAMA)
    assert not result.problems
    target = result.resolve("ollama/anything:1b")
    assert target.endpoint == result.resolve("llama3.2").endpoint
    assert (target.endpoint.base_url, target.endpoint.key) == ("http://127.0.0.1:11434/v1", None)
    assert (target.model.context, target.model.vision, target.model.listed) == (32768, True, False)
    assert result.resolve("qwen3:8b").model.listed


def test_a_gateway_has_its_key_and_headers(tmp_path: Path) -> None:
    config = """
[providers.work]
label = "the company's gateway"
base_url = "https://llm.example.com/v1"
api_key_env = "WORK_KEY"
headers = { "X-Team" = "secret-team" }
wire = "openai_responses"
discover = true
"""
    result = catalog(tmp_path, config=config)
    with pytest.raises(ProviderUnavailable, match="WORK_KEY"):
        result.resolve("work/gpt-5")
    endpoint = catalog(tmp_path, {"WORK_KEY": "k"}, config).resolve("work/gpt-5").endpoint
    assert (endpoint.key, endpoint.provider.wire, endpoint.provider.discover) == (
        "k",
        "openai_responses",
        True,
    )
    assert endpoint.provider.headers == {"X-Team": "secret-team"}
    assert "secret-team" not in repr(endpoint)


def test_a_table_moves_a_built_in_provider_and_the_environment_wins(tmp_path: Path) -> None:
    config = '[providers.openai]\nbase_url = "https://gw.example.com/openai"\napi_key = "written"\n'
    endpoint = catalog(tmp_path, config=config).resolve("gpt-5").endpoint
    assert (endpoint.base_url, endpoint.key) == ("https://gw.example.com/openai", "written")
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/x"}
    endpoint = catalog(tmp_path, env, config).resolve("gpt-5").endpoint
    assert (endpoint.base_url, endpoint.key) == ("http://127.0.0.1:1/x", "k")


def test_a_model_table_adds_overrides_and_takes_aliases(tmp_path: Path) -> None:
    config = """
[models.gpt-5]
context = 400_000
[models.claude-opus-5-5]
aliases = ["opus"]
[models."my model"]
provider = "openai"
wire_id = "ft:gpt-5:me"
efforts = "gpt-5"
"""
    result = catalog(tmp_path, KEYS, config)
    assert not result.problems
    assert (result.lookup("gpt-5").context, result.lookup("gpt-5").output) == (400_000, 64_000)
    assert result.lookup("opus").id == "claude-opus-5-5"
    assert "opus" not in result.lookup("opus-4.5").aliases
    assert result.lookup("My-Model").wire_id == "ft:gpt-5:me"
    assert result.lookup("my model").efforts["max"] == "high"
    assert catalog(tmp_path / "other", KEYS).lookup("opus").id == "claude-opus-4-5-20251101"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('[providers.x]\nlabel = "no address"', "base_url is missing"),
        ('[providers.x]\nbase_url = "ftp://h"', "base_url must be a URL"),
        ('[providers.x]\nbase_url = "http://h"\nwire = "smoke"', "wire must be one of openai_responses"),
        ('[providers.x]\nbase_url = "http://h"\nbase_ulr = "http://h"', "did you mean base_url"),
        ('[providers.x]\nbase_url = "http://h"\ncontext = "big"', "context must be a positive whole number"),
        ('[providers.x]\nbase_url = "http://h"\ncontext = 0', "context must be a positive whole number"),
        ('[providers.x]\nbase_url = "http://h"\ncontext = true', "context must be a positive whole number"),
        ('[providers.x]\nbase_url = "http://h"\nheaders = { A = "b\\nc" }', "line breaks"),
        ('[providers.codex]\nbase_url = "http://h"', "reserved"),
        ("[providers]\nx = 1", "must be a table"),
        ("[models.new]\ncontext = 5", "provider is missing"),
        ('[models.new]\nprovider = "nobody"', "unknown provider 'nobody'"),
        ('[models.gpt-5]\nefforts = "nonsense"', "unknown preset 'nonsense'"),
        ('[models.gpt-5]\naliases = ["gpt-4.1"]', "already means gpt-4.1"),
        ('[models.gpt-5]\naliases = ["codex"]', "reserved"),
        ("[models.gpt-5]\ntemperature = true", "temperature must be false or a range"),
    ],
)
def test_a_bad_table_is_named_and_the_rest_works(tmp_path: Path, config: str, words: str) -> None:
    result = catalog(tmp_path, KEYS, OLLAMA + config if "[providers]" not in config else config)
    assert [problem for problem in result.problems if words in problem and "config.toml" in problem], (
        result.problems
    )
    assert result.resolve("gpt-5").model.context == 400_000


def test_a_key_in_a_bad_table_is_not_shown(tmp_path: Path) -> None:
    result = catalog(tmp_path, config='[providers.x]\napi_key = "sk-secret"\nbase_url = 3')
    assert result.problems
    assert "sk-secret" not in " ".join(result.problems)


def test_a_broken_shipped_catalog_loses_its_bad_rows_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    providers = '[a]\nlabel = "A"\nwire = "openai_chat"\nbase_url = "http://a"\nkey_required = false\n[b]\nlabel = 3\n'
    models = """
[efforts.half]
style = "reasoning"
low = "low"
[[a]]
id = "good"
[[a]]
id = "bad"
context = "much"
[[a]]
id = "worse"
efforts = "half"
[[a]]
id = "good"
aliases = ["codex"]
[[b]]
id = "lost"
[[a]]
id = this is no TOML
[[a]]
id = "last"
"""
    broken = catalog_rows.read(providers, models)
    monkeypatch.setattr(catalog_rows, "shipped", lambda: broken)
    result = catalog(tmp_path)
    assert [row.model.id for row in result.models()] == ["good", "last"]
    for word in ("[b]", "[efforts.half]", "bad", "worse", "codex", "lost", "line"):
        assert any(word in problem for problem in result.problems), word
    assert result.resolve("good").endpoint.base_url == "http://a"


def test_every_thinking_budget_is_one_that_its_model_takes() -> None:
    budgets = [row for row in catalog_rows.shipped().models.values() if row.effort_style == "thinking_budget"]
    assert budgets
    for model in budgets:
        low, high = model.options["thinking_range"]
        assert all(int(budget) == 0 or low <= int(budget) <= high for budget in model.efforts.values()), (
            model.id
        )


# ── families ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "newest"),
    [
        ("opus-latest", "claude-opus-5-5"),
        ("Claude Opus Latest", "claude-opus-5-5"),
        ("sonnet-latest", "claude-sonnet-5-5"),
        ("haiku-latest", "claude-haiku-5-5"),
        ("gpt-latest", "gpt-6.1-sol"),
        ("gpt-mini-latest", "gpt-5.4-mini"),
        ("gemini-latest", "gemini-4-argon"),
        ("flash-latest", "gemini-3.8-flash"),
        ("flash-lite-latest", "gemini-3.5-flash-lite"),  # the alias `flash-lite` belongs to an older model
        ("pro-latest", "gemini-3.1-pro-preview"),
        ("grok-latest", "grok-4.7"),
        ("grok-code-latest", "grok-build-0.1"),  # by `successor`
        ("mistral-latest", "mistral-medium-3-5"),
        ("mistral-medium-latest", "mistral-medium-latest"),  # the vendor's own name
        ("magistral-latest", "magistral-medium-latest"),
        ("deepseek-latest", "deepseek-v4-pro"),
        ("deepseek-flash-latest", "deepseek-flash"),
        ("kimi-latest", "moonshotai/kimi-k3"),
    ],
)
def test_every_family_has_a_name_for_its_newest(tmp_path: Path, name: str, newest: str) -> None:
    assert catalog(tmp_path).lookup(name).id == newest


def test_superseded_models_say_by_what_and_the_newest_are_not_superseded(tmp_path: Path) -> None:
    rows = {row.model.id: row for row in catalog(tmp_path).models()}
    assert rows["claude-opus-4-5-20251101"].superseded_by == "claude-opus-5-5"
    assert rows["gpt-5.5"].superseded_by == "gpt-6.1-sol"
    assert rows["o4-mini"].superseded_by == "gpt-5.4-mini"
    assert rows["grok-4-0709"].superseded_by == "grok-4.7"
    assert rows["mistral-medium-2505"].superseded_by == "mistral-medium-3-5"
    assert rows["qwen/qwq-32b-preview"].superseded_by == "openrouter/qwen/qwq-32b"
    for identity in ("claude-opus-5-5", "gpt-6.1-sol", "gpt-6-astra", "mistral-medium-latest", "smollm2"):
        assert not rows[identity].superseded_by
    newer = {row.superseded_by for row in rows.values() if row.superseded_by in rows}
    assert not [identity for identity in newer if rows[identity].superseded_by]


def test_a_users_newer_model_becomes_the_latest_of_its_provider_alone(tmp_path: Path) -> None:
    config = """
[models.claude-opus-6]
provider = "anthropic"
[providers.ollama]
base_url = "http://127.0.0.1:9/v1"
models = ["mistral-small-9"]
"""
    result = catalog(tmp_path, config=config)
    assert result.lookup("claude-opus-latest").id == "claude-opus-6"
    assert result.lookup("mistral-small-latest").provider == "mistral"
    assert catalog(tmp_path / "other").lookup("opus-latest").id == "claude-opus-5-5"


def test_ids_are_spelled_as_the_vendors_spell_them() -> None:
    """Every id that is sent is in genai-prices' data under its provider. One id differs from what is sent."""
    models = catalog_rows.shipped().models.values()
    assert [model.id for model in models if model.id != model.wire_id] == ["deepseek-coder-v2.5"]
    providers = {provider.id: provider for provider in data.providers}
    ours = {"xai": "x-ai"}
    for model in models:
        if model.provider != "local":
            match = providers[ours.get(model.provider, model.provider)].find_model(model.wire_id)
            assert match is not None, model.id


# ── the user's aliases ───────────────────────────────────────────────────────────────────────────────


def test_the_users_aliases_win_and_may_name_anything_that_is_a_model(tmp_path: Path) -> None:
    config = """
aliases.opus = "claude-opus-5-5"
aliases.big = "Opus"
aliases.newest = "sonnet-latest"
aliases.slug = "openrouter/some/Slug:free"
aliases."gpt-5" = "gpt-6.1-sol"
aliases.google = "flash"
"""
    result = catalog(tmp_path, KEYS, config)
    assert not result.problems
    names = ("opus", "OPUS", "big", "newest", "slug", "gpt-5", "google")
    assert [result.resolve(name).model.id for name in names] == [
        "claude-opus-5-5",
        "claude-opus-5-5",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "openrouter/some/Slug:free",
        "gpt-6.1-sol",
        "gemini-2.5-flash",
    ]
    assert result.lookup("openai/gpt-5").id == "gpt-5"  # the provider's own name is still there
    rows = {row.model.id: row.names for row in result.models()}
    assert rows["claude-opus-5-5"][:2] == ("opus", "big")
    assert "opus" not in rows["claude-opus-4-5-20251101"]
    assert catalog(tmp_path / "other", KEYS).lookup("opus").id == "claude-opus-4-5-20251101"


@pytest.mark.parametrize(
    ("config", "name", "words"),
    [
        ('opus = "claude-opsu-5"', "opus", r"'opus' names 'claude-opsu-5', which is not a model"),
        ('opus = "opus"', "opus", r"'opus' leads back to itself \(opus → opus\)"),
        ('a = "b"\nb = "c"\nc = "A"', "b", r"'b' leads back to itself \(b → c → a → b\)"),
        ('opus = "codex"', "opus", r"'opus' names Codex, which is an agent"),
        ('opus = "auto"', "opus", r"'opus' names 'auto', which is not a model"),
        ("opus = 5", "opus", r"'opus' cannot be used: its model must be a non-empty string"),
        ('opus = ""', "opus", r"'opus' cannot be used"),
    ],
)
def test_a_bad_alias_is_an_error_and_never_another_model(
    tmp_path: Path, config: str, name: str, words: str
) -> None:
    result = catalog(tmp_path, KEYS, f"[aliases]\n{config}\n")
    assert any("config.toml [aliases]" in problem for problem in result.problems)
    with pytest.raises(ModelNotFound, match=words) as failure:
        result.resolve(name)
    assert "config.toml" in str(failure.value)
    assert result.resolve("sonnet")


@pytest.mark.parametrize(
    "line", ['codex = "gpt-5"', 'auto = "gpt-5"', '"openai/x" = "gpt-5"', '" " = "gpt-5"']
)
def test_names_that_cannot_be_aliases_are_named_and_ignored(tmp_path: Path, line: str) -> None:
    result = catalog(tmp_path, KEYS, f"[aliases]\n{line}\n")
    assert any("config.toml [aliases]" in problem and "ignored" in problem for problem in result.problems)
    assert not result.aliases


def test_an_alias_that_cannot_be_used_suggests_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"Did you mean .*claude-opus-5-5"):
        catalog(tmp_path, config='aliases.opus = "claude-opus-55"').lookup("opus")


def test_auto_takes_a_users_alias_before_a_provider_of_that_name(tmp_path: Path) -> None:
    result = catalog(tmp_path, KEYS, 'aliases.mistral = "mistral-medium-3-5"')
    assert [target.model.id for target in candidates(result, Needs(), ("mistral",))] == ["mistral-medium-3-5"]
