"""`counsel models`, as a person and as a program use it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from counsel import settings
from counsel.cli import models_output
from counsel.cli.terminal import output
from counsel.models.catalog import Catalog
from fake import FakeProcess
from support.pty_screen import in_terminal


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    clean = {
        name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))
    }

    def counsel(*argv: str, config: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "config.toml").write_text(config)
        command = [sys.executable, "-m", "counsel", "models", *argv]
        environment = {**clean, "COUNSEL_HOME": str(tmp_path), **env}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return counsel


def test_without_a_key_all_are_listed_with_what_they_need(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = run()
    assert result.returncode == 0
    assert "gemini-2.5-flash" in result.stdout
    assert "\x1b" not in result.stdout + result.stderr  # no colour without a terminal
    assert "ANTHROPIC_API_KEY" in result.stderr


def test_with_a_key_what_can_be_asked_is_listed(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    result = run(MISTRAL_API_KEY="k")
    (header, *lines) = result.stdout.splitlines()
    assert header.split()[:3] == ["MODEL", "PROVIDER", "AVAILABLE"]
    assert {line.split()[1] for line in lines} == {"mistral"}
    assert "--all" in result.stderr
    assert "gpt-5 " in run("--all", MISTRAL_API_KEY="k").stdout


def test_json_is_one_document_with_everything(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    document = json.loads(run("--json", GOOGLE_API_KEY="secret-key").stdout)
    models = {model["id"]: model for model in document["models"]}
    flash = models["gemini-2.5-flash"]
    assert (flash["available"], flash["context"], flash["aliases"]) == (True, 1_048_576, ["flash"])
    assert flash["price_per_million"]["input"] > 0
    assert not models["gpt-5"]["available"]
    assert "OPENAI_API_KEY" in models["gpt-5"]["reason"]
    assert "secret-key" not in json.dumps(document)


def test_one_provider_and_an_unknown_one(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    document = json.loads(run("--json", "--provider", "XAI").stdout)
    assert {model["provider"] for model in document["models"]} == {"xai"}
    result = run("--provider", "nobody")
    assert result.returncode == 1
    assert "nobody" in result.stderr
    assert "openrouter" in result.stderr


def test_a_bad_row_is_named_and_the_rest_is_listed(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = run(config="[models.gpt-5]\ncontext = -1\n")
    assert result.returncode == 0
    assert "problem: config.toml [models.gpt-5]: context must be a positive whole number" in result.stderr
    assert "gpt-5 " in result.stdout


def test_servers_are_asked_for_their_models(
    run: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    config = f'[providers.ollama]\nbase_url = "{fake_process.v1}"\ndiscover = true\n'
    before = {model["id"] for model in json.loads(run("--json", config=config).stdout)["models"]}
    document = json.loads(run("--json", "--discover", config=config).stdout)
    new = {model["id"]: model for model in document["models"] if model["id"] not in before}
    assert new
    assert all(name.startswith("ollama/") for name in new)
    assert all(model["available"] and not model["listed"] for model in new.values())


def test_a_server_that_does_not_answer_is_named(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    config = '[providers.off]\nbase_url = "http://127.0.0.1:1/v1"\ndiscover = true\n'
    result = run("--discover", config=config)
    assert result.returncode == 0
    assert "off did not list its models" in result.stderr


def test_discover_asks_the_providers_whose_rows_say_so_unless_one_is_named(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    config = '[providers.off]\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert "off did not list its models" not in run("--discover", config=config).stderr
    assert "off did not list its models" in run("--discover", "--provider", "off", config=config).stderr


def test_what_a_vendor_lists_keeps_our_facts(
    run: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    env = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": fake_process.url}
    document = json.loads(run("--json", "--discover", "--provider", "google", **env).stdout)
    assert not document["problems"]
    ids = [model["id"] for model in document["models"]]
    assert len(ids) == len(set(ids))


def test_a_provider_without_rows_says_how_its_models_are_asked(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = run("--provider", "ollama", config='[providers.ollama]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert (result.returncode, result.stdout) == (0, "")
    assert "--discover" in result.stderr
    assert "ollama/ID" in result.stderr


# ── filters ──────────────────────────────────────────────────────────────────────────────────────────


def ids(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [model["id"] for model in json.loads(result.stdout)["models"]]


def test_a_part_of_a_name_alias_or_provider_selects(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert ids(run("--json", "gpt", "mini")) == ["gpt-5.4-mini", "gpt-5-mini"]
    assert "gemini-2.5-pro" in ids(run("--json", "pro 2.5"))
    assert {model.split("-")[0] for model in ids(run("--json", "anthropic"))} == {"claude"}
    result = run("nosuch")
    assert (result.returncode, result.stdout) == (0, "")
    assert "No model matches 'nosuch'." in result.stderr
    assert "Did you mean sonnet" in run("sonet").stderr


def test_vision_price_and_availability_select(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    models = json.loads(run("--json").stdout)["models"]
    seeing = ids(run("--json", "--vision"))
    assert seeing == [model["id"] for model in models if model["vision"]]
    assert 0 < len(seeing) < len(models)
    cheap = ids(run("--json", "--under", "1"))
    assert cheap == [model["id"] for model in models if model["price_per_million"]["input"] < 1]
    assert ("gpt-6-luna" in cheap, "gpt-6.1-terra" in cheap) == (True, False)  # which costs 1 exactly
    assert set(ids(run("--json", "--available", MISTRAL_API_KEY="k"))) == set(
        ids(run("--json", "--provider", "mistral"))
    )
    result = run("--available")
    assert (result.returncode, result.stdout) == (0, "")
    assert "No available model" in result.stderr
    assert run("--available", "--all").returncode == 1


def test_newest_are_first_below_their_provider(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    models = json.loads(run("--json").stdout)["models"]
    providers = [model["provider"] for model in models]
    assert len(list(groupby(providers))) == len(set(providers))
    opus = [model["id"] for model in models if "claude-opus" in model["id"]]
    assert opus == [
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-opus-4-7",
        "claude-opus-4-6",
        "claude-opus-4-5-20251101",
        "claude-opus-4-1-20250805",
    ]
    by_id = {model["id"]: model for model in models}
    assert by_id["claude-opus-5-5"]["superseded_by"] is None
    assert by_id["claude-opus-4-5-20251101"]["superseded_by"] == "claude-opus-5-5"
    assert "opus-latest" in by_id["claude-opus-5-5"]["aliases"]


ALIASES = """
[aliases]
opus = "claude-opus-5-5"
mine = "openrouter/someone/some-model"
bad = "nonsense"
"""


def test_the_users_aliases_are_listed_and_a_bad_one_is_named(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    document = json.loads(run("--json", config=ALIASES).stdout)
    assert [(alias["name"], alias["model"]) for alias in document["aliases"]] == [
        ("opus", "claude-opus-5-5"),
        ("mine", "openrouter/someone/some-model"),
        ("bad", None),
    ]
    assert "nonsense" in document["problems"][0]
    models = {model["id"]: model["aliases"] for model in document["models"]}
    assert models["openrouter/someone/some-model"] == ["mine"]
    assert models["claude-opus-5-5"][0] == "opus"
    assert "opus" not in models["claude-opus-4-5-20251101"]
    assert "problem: config.toml [aliases]: the alias 'bad'" in run(config=ALIASES).stderr


# ── on a terminal ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", range(110, 150))
def test_aliases_beside_a_model_fit_the_window(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path)})).models("anthropic")
    monkeypatch.setattr(output, "width", lambda: columns)
    models_output.show(rows, {}, aliases={}, hidden_count=0)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert len(lines) == 1 + len(rows)
    assert max(map(len, lines)) <= columns
    assert printed.err.startswith("\ni images, "), "a line between the models and what the letters mean"
    assert any("opus-latest" in line for line in lines)


@pytest.mark.parametrize("columns", [80, 140])
def test_every_model_is_one_line_of_the_terminal(tmp_path: Path, columns: int) -> None:
    (tmp_path / "config.toml").write_text(ALIASES + f'long = "openrouter/{"x" * 50}"\n')
    env = {"PATH": os.environ["PATH"], "COUNSEL_HOME": str(tmp_path), "OPENAI_API_KEY": "k"}
    lines = in_terminal("models", "--all", env=env, cwd=tmp_path, columns=columns).lines
    table = lines[: lines.index("i images, w web search, t tools, e effort levels; → superseded by")]
    assert max(map(len, table)) <= columns
    entries = [line.split() for line in table if line.startswith("  ")]
    document = json.loads(
        subprocess.run(
            [sys.executable, "-m", "counsel", "models", "--json"], env=env, capture_output=True, check=True
        ).stdout
    )
    assert [entry[0] for entry in entries] == [model["id"] for model in document["models"]]
    assert next(line for line in table if line.startswith("Google")).startswith(
        "Google: not available. Set GOOGLE_API_KEY or GEMINI_API_KEY"
    )
    by_name = {entry[0]: entry[1:] for entry in entries}
    assert by_name["claude-opus-4-5-20251101"][:6] == ["200K", "$5", "$25", "iwte", "→", "claude-opus-5-5"]
    assert by_name["gpt-6.1-sol"][:4] == ["1.05M", "$2", "$10", "iwte"]
    assert ("sol-latest" in by_name["gpt-6.1-sol"]) == (columns == 140)
    assert "opus = claude-opus-5-5" in table
    assert "mine = openrouter/someone/some-model" in table


def test_a_filter_shows_what_the_names_mean(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "COUNSEL_HOME": str(tmp_path)}
    lines = in_terminal("models", "opus", env=env, cwd=tmp_path).lines
    assert "opus = claude-opus-4-5-20251101" in lines
    assert "opus-latest = claude-opus-5-5" in lines
    assert not [line for line in lines if "gpt" in line]


def test_the_list_does_not_import_what_it_does_not_need(tmp_path: Path) -> None:
    """The price library alone takes half a second."""
    script = (
        "import sys, os; from counsel import cli; code = cli.run(['models', '--all']);"
        "heavy = {'genai_prices', 'aiohttp', 'asyncio', 'pydantic', 'rich', 'ssl'} & set(sys.modules);"
        "assert not heavy, heavy; sys.exit(code)"
    )
    env = {"PATH": os.environ["PATH"], "COUNSEL_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env
    )
    assert result.returncode == 0, result.stderr
