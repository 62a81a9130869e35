from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from counsel import run_paths, settings
from counsel.caller import Caller, local_caller


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "counsel"
    folder.mkdir()
    return folder


def load(home: Path, **env: str) -> settings.Settings:
    return settings.load({"COUNSEL_HOME": str(home), **env})


def test_defaults(home: Path) -> None:
    settings = load(home)
    assert settings.port == 3157
    assert settings.source("port") == "default"
    assert settings.problems == ()
    assert settings.home == home


def test_environment_wins_over_dotenv_over_config(home: Path) -> None:
    (home / "config.toml").write_text("port = 1\nmax_attempts = 1\nlog_level = 'error'\n")
    (home / ".env").write_text("COUNSEL_PORT=2\nCOUNSEL_MAX_ATTEMPTS=2\n")
    settings = load(home, COUNSEL_PORT="3")
    assert (settings.port, settings.max_attempts, settings.log_level) == (3, 2, "error")
    assert settings.source("port") == "environment variable COUNSEL_PORT"
    assert settings.source("max_attempts") == f"{home / '.env'}: COUNSEL_MAX_ATTEMPTS"
    assert settings.source("log_level") == f"{home / 'config.toml'}: log_level"


def test_an_empty_variable_counts_as_not_set(home: Path) -> None:
    (home / ".env").write_text("COUNSEL_PORT=2\nOPENAI_API_KEY=from-file\n")
    settings = load(home, COUNSEL_PORT="", OPENAI_API_KEY="")
    assert settings.port == 2
    assert settings.env["OPENAI_API_KEY"] == "from-file"
    assert settings.source("OPENAI_API_KEY") == str(home / ".env")


VALID = {"int": "", "bool": "", "str": "text", "tuple[str, ...]": "a"}


@pytest.mark.parametrize("row", list(settings.rows()), ids=lambda row: row.name)
def test_every_setting_is_read_from_every_source(home: Path, row: Any) -> None:
    low, high, choices = row.metadata["min"], row.metadata["max"], row.metadata["choices"]
    text = choices[-1] if choices else VALID[row.type]
    if row.type == "int":
        text = str(low if low not in {None, row.default} else (high or (low or 0) + 7))
    if row.type == "bool":
        text = str(not row.default).lower()
    if row.metadata["unit"] == "usd":
        text = "2.5"
    if row.metadata["unit"] == "url":
        text = "https://counsel.example"
    toml_value = {"int": text, "bool": text, "str": f'"{text}"', "tuple[str, ...]": f'["{text}"]'}[row.type]
    from_env = load(home, **{row.metadata["env"]: text})
    (home / ".env").write_text(f"{row.metadata['env']}={text}\n")
    from_dotenv = load(home)
    (home / ".env").unlink()
    (home / "config.toml").write_text(f"{row.name} = {toml_value}\n")
    from_config = load(home)
    values = [getattr(settings, row.name) for settings in (from_env, from_dotenv, from_config)]
    assert values[0] == values[1] == values[2] != row.default
    assert [settings.problems for settings in (from_env, from_dotenv, from_config)] == [(), (), ()]
    assert row.metadata["description"].endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("COUNSEL_PORT", "abc", "whole number"),
        ("COUNSEL_PORT", "70000", "from 0 to 65535"),
        ("COUNSEL_PORT", "1.5", "whole number"),
        ("COUNSEL_MAX_FILES", "0", "at least 1"),
        ("COUNSEL_PORT", "9" * 5000, ""),
        ("LOG_LEVEL", "loud", "one of debug"),
        ("COUNSEL_LOG_CONTENT", "maybe", "true or false"),
    ],
)
def test_a_bad_value_is_named_and_the_default_used(home: Path, name: str, value: str, word: str) -> None:
    settings = load(home, **{name: value, "COUNSEL_MAX_ATTEMPTS": "2"})
    assert settings.max_attempts == 2
    (problem,) = settings.problems
    assert problem.startswith(f"environment variable {name}: ")
    assert word in problem
    assert "default" in problem
    assert len(problem) < 300


@pytest.mark.parametrize(
    "line", ["port = 'x'", "port = true", "port = 1.0", "host = 1", "cors_origins = [1]", "log_content = 1"]
)
def test_a_bad_type_in_the_config_is_named(home: Path, line: str) -> None:
    (home / "config.toml").write_text(f"{line}\nmax_attempts = 2\n")
    settings = load(home)
    assert settings.max_attempts == 2
    assert settings.problems[0].startswith(f"{home / 'config.toml'}: ")


def test_an_unknown_setting_is_named(home: Path) -> None:
    (home / "config.toml").write_text("prot = 1\n[providers.x]\nbase_url = 'u'\n")
    settings = load(home)
    assert "'prot'" in settings.problems[0]
    assert len(settings.problems) == 1
    assert settings.tables["providers"]["x"]["base_url"] == "u"


def test_a_list_in_the_place_of_tables_is_named(home: Path) -> None:
    (home / "config.toml").write_text('[[models]]\nid = "mine"\n')
    result = settings.load({"COUNSEL_HOME": str(home)})
    assert "[models.NAME]" in result.problems[0]
    assert result.tables == {}


@pytest.mark.parametrize("text", ["TRUE", "1", "yes", "On"])
def test_words_for_true(home: Path, text: str) -> None:
    assert load(home, COUNSEL_LOG_CONTENT=text).log_content is True


def test_lists_are_split_by_comma_and_folders_as_path_does(home: Path) -> None:
    settings = load(home, COUNSEL_AUTO_ORDER="a, b,,c", COUNSEL_ALLOWED_DIRS="/a,b:/c")
    assert settings.auto_order == ("a", "b", "c")
    assert settings.allowed_dirs == ("/a,b", "/c")


# ── bad files ────────────────────────────────────────────────────────────────────────────────────────


def test_one_bad_line_loses_only_itself(home: Path) -> None:
    (home / "config.toml").write_text("port = 99\nlog_level = = 'x'\nmax_attempts = 2\n")
    settings = load(home)
    assert (settings.port, settings.max_attempts) == (99, 2)
    assert "line 2 ignored" in settings.problems[0]


def test_a_bad_header_does_not_give_its_keys_to_the_table_above(home: Path) -> None:
    """Otherwise a half-written table could redirect another provider's key."""
    (home / "config.toml").write_text(
        "port = 99\n[providers.good]\nname = 'good'\n\n[providers.evil\nbase_url = 'http://evil'\n\n[providers.last]\nname = 'l'\n"
    )
    settings = load(home)
    assert settings.port == 99
    assert settings.tables["providers"] == {"good": {"name": "good"}, "last": {"name": "l"}}
    assert "lines 5, 6 ignored" in settings.problems[0]


def test_a_bad_header_loses_its_table_to_the_end_of_the_file(home: Path) -> None:
    lines = [
        "[providers.good]",
        "name = 'good'",
        "[providers.evil",
        "name = 'evil'",
        "base_url = 'http://evil'",
    ]
    (home / "config.toml").write_text("\n".join(lines))
    settings = load(home)
    assert settings.tables["providers"] == {"good": {"name": "good"}}
    assert "lines 3, 4, 5 ignored" in settings.problems[0]


@given(
    text=st.text(max_size=80)
    | st.lists(
        st.sampled_from(["a = 1", "[t]", "[[t]]", "x = [", '"""', "=", "port = 5", "]", "{", "'"]),
        max_size=12,
    ).map("\n".join)
)
@hypothesis_settings(max_examples=200, deadline=None)
def test_no_text_stops_a_start(text: str, tmp_path_factory: Any) -> None:
    home = tmp_path_factory.getbasetemp() / "any"
    home.mkdir(exist_ok=True)
    for name in ("config.toml", ".env"):
        (home / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert load(home).home == home


def test_a_file_that_cannot_be_read_is_named(home: Path) -> None:
    (home / "config.toml").mkdir()
    (home / ".env").write_bytes(b"\xff\xfe\x00")
    problems = load(home).problems
    assert any("config.toml" in problem for problem in problems)
    assert any(".env" in problem and "UTF-8" in problem for problem in problems)


def test_a_bom_is_no_problem(home: Path) -> None:
    (home / "config.toml").write_bytes(b"\xef\xbb\xbfport = 5\n")
    assert load(home).port == 5


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("export A=x", "x"),
        ("  A = spaced out  ", "spaced out"),
        ('A="quoted # not a comment"', "quoted # not a comment"),
        ("A='single'  # comment", "single"),
        ("A=value # comment", "value"),
        ("A=pass#word", "pass#word"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=a=b=c", "a=b=c"),
    ],
)
def test_forms_of_dotenv(home: Path, line: str, value: str) -> None:
    (home / ".env").write_text(f"# first\n\n{line}\nB=2\n")
    settings = load(home)
    assert (settings.env["A"], settings.env["B"], settings.problems) == (value, "2", ())


@pytest.mark.parametrize("line", ["sk-secret-key-pasted", 'A="unclosed sk-secret', "1A=sk-secret"])
def test_a_bad_dotenv_line_is_named_and_not_shown(home: Path, line: str) -> None:
    (home / ".env").write_text(f"B=1\n{line}\n")
    settings = load(home)
    assert settings.env["B"] == "1"
    assert "line 2" in settings.problems[0]
    assert "secret" not in repr(settings.problems)


# ── what must not happen ─────────────────────────────────────────────────────────────────────────────


def test_a_hostile_project_is_never_read(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "counsel").mkdir(parents=True)
    for folder in (project, project / "counsel", project / ".counsel"):
        folder.mkdir(exist_ok=True)
        (folder / ".env").write_text("OPENAI_BASE_URL=http://evil\nCOUNSEL_ALLOWED_DIRS=/\n")
        (folder / "config.toml").write_text(
            "allowed_dirs = ['/']\n[providers.openai]\nbase_url = 'http://evil'\n"
        )
    monkeypatch.chdir(project)
    user = {"HOME": str(tmp_path / "user")}
    for env in (
        {"COUNSEL_HOME": str(home)},
        user,
        {**user, "XDG_DATA_HOME": "."},
        {**user, "XDG_DATA_HOME": ""},
    ):
        caller = local_caller(env={**env, "CLIENT_CWD": str(project)})
        assert caller.cwd == project
        assert caller.settings.allowed_dirs == ()
        assert "OPENAI_BASE_URL" not in caller.env
        assert not caller.settings.tables


def test_secrets_are_in_no_repr(home: Path) -> None:
    (home / ".env").write_text("XAI_API_KEY=sk-hidden-2\n")
    settings = load(
        home, COUNSEL_TOKEN="sk-hidden-1", CODEX_API_KEY="sk-hidden-3", OPENAI_API_KEY="sk-hidden-4"
    )
    assert settings.token == "sk-hidden-1"
    assert "sk-hidden" not in repr(settings) + str(settings) + repr(Caller(settings=settings)) + repr(
        settings.problems
    )


def test_settings_cannot_be_changed(home: Path) -> None:
    settings = load(home)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.env["A"] = "b"  # type: ignore[index]


@pytest.mark.skipif(sys.platform != "linux", reason="the data folder of Linux")
def test_the_default_home(tmp_path: Path) -> None:
    assert settings.default_home({"HOME": "/h"}) == Path("/h/.local/share/counsel")
    assert settings.default_home({"HOME": "/h", "XDG_DATA_HOME": "/d"}) == Path("/d/counsel")
    assert settings.default_home({"COUNSEL_HOME": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize(
    "value", ["${env:OPENAI_API_KEY}", "${OPENAI_API_KEY}", "${OPENAI_API_KEY:-}", "$OPENAI_API_KEY"]
)
def test_a_reference_that_a_client_passed_on_unexpanded_is_no_value(value: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "COUNSEL_HOME": "${env:COUNSEL_HOME}", "OPENAI_API_KEY": value}
    assert "OPENAI_API_KEY" not in settings.load(env).env
    assert settings.load(env).home == settings.default_home({"HOME": str(tmp_path)})
    assert run_paths.home(env) == str(settings.default_home({"HOME": str(tmp_path)}))
    assert (
        settings.load({"HOME": str(tmp_path), "OPENAI_API_KEY": f"x{value}"}).env["OPENAI_API_KEY"]
        == f"x{value}"
    )
