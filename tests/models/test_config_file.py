"""Changes of config.toml, and the panels in it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.errors import ConfigInvalid, Conflict, InvalidArgument, NotFound
from counsel.models import config_file, panels
from counsel.models.catalog import Catalog
from counsel.requests import MAX_MODELS
from counsel.settings import Settings


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("default_model", ("default_model",)),
        (" COUNSEL_DEFAULT_MODEL ", ("default_model",)),
        ("aliases.my.name", ("aliases", "my.name")),
        ("panels.a", ("panels", "a")),
        ("providers.mine.base_url", ("providers", "mine", "base_url")),
        ("models.a.b.c", ("models", "a", "b.c")),
    ],
)
def test_where_a_key_belongs(key: str, path: tuple[str, ...]) -> None:
    assert config_file.path_of(key) == path


@pytest.mark.parametrize("key", ["defualt_model", "aliases", "aliases.", "providers..x", "nothing.at.all"])
def test_an_unknown_key_is_refused(key: str) -> None:
    with pytest.raises(NotFound):
        config_file.path_of(key)


def test_a_mistyped_key_gets_suggestions() -> None:
    error = config_file.unknown("COUNSEL-defualt-model")
    assert error.fields["nearest"][0] == "default_model"
    assert "Did you mean default_model" in str(error.hint)
    part = config_file.unknown("budget")
    assert any("budget" in name for name in part.fields["nearest"])
    assert len(part.fields["nearest"]) == 3
    assert len(set(part.fields["nearest"])) == len(part.fields["nearest"])
    assert config_file.unknown("audit").fields["nearest"] == ["audit_days", "audit_prompts"]
    assert len(config_file.unknown("timeout").fields["nearest"]) == 3
    nothing = config_file.unknown("zzzz")
    assert nothing.fields["nearest"] == []
    assert "config list" in str(nothing.hint)


def row(**metadata: object) -> Any:
    return next(
        row for row in settings.rows() if all(row.metadata[name] == value for name, value in metadata.items())
    )


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("aliases.fast", "haiku", "haiku"),
        ("aliases.fast", '"haiku"', "haiku"),
        ("panels.two", "opus, gpt-5", ["opus", "gpt-5"]),
        ("panels.two", '["opus"]', ["opus"]),
        ("models.m.context", "32_768", 32_768),
        ("models.m.vision", "true", True),
        ("default_model", "opus", "opus"),
        ("consensus_models", "opus,gpt-5", ["opus", "gpt-5"]),
    ],
)
def test_a_typed_value_is_converted_for_the_file(key: str, text: str, value: object) -> None:
    assert config_file.parsed(key, text) == value


def test_a_size_stays_as_it_was_written() -> None:
    size = row(unit="bytes")
    assert config_file.parsed(size.name, " 10MB ") == "10MB"
    assert config_file.parsed(size.name, "20000000") == 20_000_000


def test_a_value_that_the_setting_does_not_take() -> None:
    with pytest.raises(InvalidArgument, match="not 'many'") as excinfo:
        config_file.parsed("port", "many")
    assert excinfo.value.hint == settings_description("port")


def settings_description(name: str) -> str:
    return str(next(row for row in settings.rows() if row.name == name).metadata["description"])


def test_a_secret_does_not_belong_in_the_file() -> None:
    secret = row(secret=True)
    with pytest.raises(InvalidArgument, match="secret") as excinfo:
        config_file.parsed(secret.name, "x")
    assert secret.metadata["env"] in str(excinfo.value.hint)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_setting_is_written_read_and_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert config_file.put(home, ("default_model",), "opus")
    assert not config_file.put(home, ("default_model",), "opus"), "nothing had to change"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert settings.load({"COUNSEL_HOME": str(home)}).default_model == "opus"
    assert config_file.put(home, ("default_model",), config_file.MISSING)
    assert not config_file.put(home, ("default_model",), config_file.MISSING)
    assert "default_model" not in (home / "config.toml").read_text()


def test_a_change_that_makes_the_file_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"was not changed: .*opsu") as excinfo:
        config_file.put(tmp_path, ("default_model",), "opsu")
    assert excinfo.value.fields["file"] == str(tmp_path / "config.toml")
    assert len(excinfo.value.fields["problems"]) == 1
    assert not (tmp_path / "config.toml").exists()


def test_a_problem_that_was_there_before_prevents_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('default_model = "opsu"\n')
    assert config_file.put(tmp_path, ("port",), 4000)
    assert file.read_text() == 'default_model = "opsu"\nport = 4000\n'


def test_a_whole_file_is_replaced_unless_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    config_file.replace(tmp_path, b"", "port = 1\n")
    assert file.read_text() == "port = 1\n"
    config_file.replace(tmp_path, b"port = 1\n", "port = 2\n")
    with pytest.raises(Conflict, match="changed by another program"):
        config_file.replace(tmp_path, b"port = 1\n", "port = 3\n")
    assert file.read_text() == "port = 2\n"


def test_what_would_be_reported_about_a_text() -> None:
    assert config_file.problems("port = 4000\n") == []
    (syntax,) = config_file.problems("port = \n")
    assert syntax.startswith("it is not valid TOML")
    (unknown,) = config_file.problems("prot = 4000\n")
    assert "prot" in unknown
    assert "/config.toml" not in unknown, "the scratch folder of the check is not mentioned"


# ── panels ───────────────────────────────────────────────────────────────────────────────────────────


def with_panels(home: Path, **tables: object) -> Settings:
    home.mkdir(exist_ok=True)
    lines = [f"{name} = {value!r}".replace("'", '"') for name, value in tables.items()]
    (home / "config.toml").write_text("[panels]\n" + "\n".join(lines))
    return settings.load({"COUNSEL_HOME": str(home)})


def test_a_panel_stands_for_its_models(tmp_path: Path) -> None:
    user_settings = with_panels(tmp_path, two=["opus", "gpt-5"])
    assert panels.expanded(["@two", "haiku"], user_settings) == ("opus", "gpt-5", "haiku")
    assert panels.expanded([{"model": " @two "}], user_settings) == ("opus", "gpt-5")
    assert panels.expanded([{"model": "opus", "stance": "for"}], user_settings) == (
        {"model": "opus", "stance": "for"},
    )


def test_a_panel_has_no_stance_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="@two cannot have a role or a stance"):
        panels.expanded([{"model": "@two", "stance": "for"}], with_panels(tmp_path, two=["opus"]))


def test_too_many_models_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    user_settings = with_panels(tmp_path, many=["opus"] * (MAX_MODELS - 1))
    assert len(panels.expanded(["@many", "opus"], user_settings)) == MAX_MODELS
    with pytest.raises(InvalidArgument, match=f"{MAX_MODELS + 1} models"):
        panels.expanded(["@many", "opus", "opus"], user_settings)


def test_an_unknown_panel_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no panel @tow") as excinfo:
        panels.expanded(["@tow"], with_panels(tmp_path, two=["opus"]))
    assert "Known panels: @two." in str(excinfo.value.hint)
    assert excinfo.value.fields["panels"] == ["two"]
    with pytest.raises(NotFound) as excinfo:
        panels.expanded(["@tow"], settings.load({"COUNSEL_HOME": str(tmp_path / "new")}))
    assert "There are no panels yet." in str(excinfo.value.hint)


@pytest.mark.parametrize(
    ("name", "entries", "reason"),
    [
        ("good", ["opus"], ""),
        ("good", ["opus"] * MAX_MODELS, ""),
        ("good", [{"model": "opus", "stance": "for"}], ""),
        ("not good", ["opus"], "its name"),
        ("good", "opus", "a list of models"),
        ("good", [], "1 to 20 models, not 0"),
        ("good", ["opus"] * (MAX_MODELS + 1), "not 21"),
        ("good", ["opus", {"stance": "for"}], "entry 2"),
        ("good", [7], "entry 1"),
        ("good", ["opus", " @other"], "cannot contain panels"),
    ],
)
def test_what_a_panel_may_be(name: str, entries: object, reason: str) -> None:
    problem = panels.problem(name, entries)
    assert reason in problem
    assert bool(problem) is bool(reason)


def test_a_wrong_panel_is_reported_and_cannot_be_used(tmp_path: Path) -> None:
    user_settings = with_panels(tmp_path, wrong=["@other"], right=["opus"])
    assert list(panels.usable(user_settings)) == ["right"]
    (problem,) = Catalog.load(user_settings).problems
    assert problem.startswith("config.toml [panels] wrong: it names the panel @other")
    assert problem.endswith("; ignored.")
    with pytest.raises(InvalidArgument, match="@wrong cannot be used") as excinfo:
        panels.expanded(["@wrong"], user_settings)
    assert "config.toml" in str(excinfo.value.hint)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('default_model = "@nobody"', "default_model: there is no panel @nobody."),
        ('default_model = "@here"\n[panels]\nhere = ["opus"]', ""),
        ('consensus_models = ["opus", "gtp-5"]', "Did you mean gpt-5"),
        ('default_model = "auto"', ""),
        ('default_model = "codex"', ""),
        ('default_model = "opus, "', ""),
        ('default_model = "opus,gpt-5"', ""),
        ('[panels]\nhere = ["opus", "gtp-5"]', "config.toml [panels] here:"),
        ("budget_nobody = 3", "nobody"),
        ("[aliases.fast]\nmodel = 'opus'", "without a table"),
        ("[models.gpt-5]\ninput_price = 1", "input_price and output_price belong together"),
        ("[models.gpt-5]\ninput_price = -1\noutput_price = 1", "must be dollars per million tokens"),
        ("[models.gpt-5]\ninput_price = 0\noutput_price = 999999", ""),
        ("[models.gpt-5]\ninput_price = 0\noutput_price = 1000000", "must be dollars per million tokens"),
        ("[models.gpt-5]\nvision = 1", "must be true or false"),
        ("[models.gpt-5]\naliases = 'g'", "must be a list of strings"),
        ("[models.gpt-5]\ncontext = true", "positive whole number"),
        ("[models.gpt-5]\ncontext = 0", "positive whole number"),
        ("[models.gpt-5]\ncontext = 1", ""),
        ("[models.gpt-5]\ntemperature = [0]", "false or a range"),
        ("[models.gpt-5]\nefforts = {style = 'level'}", "efforts must have style and"),
        ("[providers.openai]\nkey_pattern = '('", "unknown field key_pattern"),
        ("[providers.mine]\nlabel = 'Mine'", "base_url is missing"),
    ],
)
def test_problems_of_a_file_are_reported(text: str, problem: str) -> None:
    problems = config_file.problems(text)
    if problem:
        assert any(problem in line for line in problems), problems
    else:
        assert problems == []
