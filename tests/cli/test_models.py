"""`counsel models`, as a person and as a program meet it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fake import FakeProcess


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
    done = run()
    assert done.returncode == 0
    assert "gemini-2.5-flash" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr  # no colour without a terminal
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_with_a_key_what_can_be_asked_is_listed(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run(MISTRAL_API_KEY="k")
    (header, *lines) = done.stdout.splitlines()
    assert header.split()[:3] == ["MODEL", "PROVIDER", "AVAILABLE"]
    assert {line.split()[1] for line in lines} == {"mistral"}
    assert "--all" in done.stderr
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
    done = run("--provider", "nobody")
    assert done.returncode == 1
    assert "nobody" in done.stderr
    assert "openrouter" in done.stderr


def test_a_bad_row_is_named_and_the_rest_is_listed(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run(config="[models.gpt-5]\ncontext = -1\n")
    assert done.returncode == 0
    assert "problem: config.toml [models.gpt-5]: context must be a positive whole number" in done.stderr
    assert "gpt-5 " in done.stdout


def test_servers_are_asked_for_their_models(
    run: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    config = f'[providers.ollama]\nbase_url = "{fake_process.v1}"\ndiscover = true\n'
    before = {model["id"] for model in json.loads(run("--json", config=config).stdout)["models"]}
    found = json.loads(run("--json", "--discover", config=config).stdout)
    new = {model["id"]: model for model in found["models"] if model["id"] not in before}
    assert new
    assert all(name.startswith("ollama/") for name in new)
    assert all(model["available"] and not model["listed"] for model in new.values())


def test_a_server_that_does_not_answer_is_named(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    config = '[providers.off]\nbase_url = "http://127.0.0.1:1/v1"\ndiscover = true\n'
    done = run("--discover", config=config)
    assert done.returncode == 0
    assert "off did not list its models" in done.stderr


def test_what_a_vendor_lists_keeps_our_facts(
    run: Callable[..., subprocess.CompletedProcess[str]], fake_process: FakeProcess
) -> None:
    env = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": fake_process.url}
    found = json.loads(run("--json", "--discover", "--provider", "google", **env).stdout)
    assert not found["problems"]
    ids = [model["id"] for model in found["models"]]
    assert len(ids) == len(set(ids))


def test_a_provider_without_rows_says_how_its_models_are_asked(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run("--provider", "ollama", config='[providers.ollama]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert (done.returncode, done.stdout) == (0, "")
    assert "--discover" in done.stderr
    assert "ollama/ID" in done.stderr
