"""`counsel config`: values and their origin; changes that are validated, keep comments, and damage nothing."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from support.user import User

TEXT = """# my settings
default_model = "gpt-5"  # the best

# for debugging
log_level = "debug"

[aliases]
fast = "gpt-5-mini"
"""


@pytest.fixture
def person(user: User) -> User:
    user.command = "config"
    return user


@pytest.fixture
def file(person: User) -> Path:
    person.counsel_home.mkdir(mode=0o700)
    file = person.counsel_home / "config.toml"
    file.write_text(TEXT)
    return file


def test_a_value_is_set_in_a_new_file_that_only_the_user_reads(person: User) -> None:
    person.counsel("set", "default_model", "opus")
    file = person.counsel_home / "config.toml"
    assert file.read_text() == 'default_model = "opus"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert person.counsel("get", "default_model") == "opus\n"


def test_a_change_keeps_comments_and_every_other_byte(person: User, file: Path) -> None:
    person.counsel("set", "default_model", "opus")
    person.counsel("set", "aliases.fast", "haiku")
    text = TEXT.replace('"gpt-5"', '"opus"').replace('"gpt-5-mini"', '"haiku"')
    assert file.read_text() == text
    person.counsel("unset", "log_level")
    assert file.read_text() == text.replace('log_level = "debug"\n', "")
    person.counsel("set", "default_model", "opus")
    assert "Nothing was changed." in person.err


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("consensus_models", "gpt-5, opus", 'consensus_models = ["gpt-5", "opus"]'),
        ("COUNSEL_MAX_FILES", "7", "max_files = 7"),
        ("max_database_bytes", "500 MB", 'max_database_bytes = "500 MB"'),
        ("keep_abandoned", "yes", "keep_abandoned = true"),
        ("default_effort", "HIGH", 'default_effort = "high"'),
        ("providers.ollama.base_url", "http://127.0.0.1:11434/v1", 'base_url = "http://127.0.0.1:11434/v1"'),
        ("aliases.my.model", "gpt-5", '"my.model" = "gpt-5"'),
        ("panels.duo", "gpt-5, opus", 'duo = ["gpt-5", "opus"]'),
    ],
)
def test_values_are_written_as_toml(person: User, key: str, value: str, line: str) -> None:
    person.counsel("set", key, value)
    assert line in (person.counsel_home / "config.toml").read_text().splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set", "max_files", "many"], "INVALID_ARGUMENT", "max_files must be a whole number, not 'many'"),
        (["set", "max_files", "0"], "INVALID_ARGUMENT", "max_files must be at least 1"),
        (["set", "log_level", "loud"], "INVALID_ARGUMENT", "must be one of debug, info, warning, error"),
        (["set", "defualt_model", "opus"], "NOT_FOUND", "Did you mean default_model"),
        (["get", "model"], "NOT_FOUND", "default_model"),
        (["set", "nonsense", "1"], "NOT_FOUND", "counsel config list"),
        (["set", "token", "hush"], "INVALID_ARGUMENT", "is a secret"),
        (["set", "providers.mine.wire", "nonsense"], "CONFIG_INVALID", "wire must be one of"),
        (["set", "aliases.fast", "7"], "CONFIG_INVALID", "aliases"),
        (["set", "panels.duo", "opus,sonet"], "CONFIG_INVALID", "[panels] duo: model not found: 'sonet'"),
        (["set", "panels.duo", "@other"], "CONFIG_INVALID", "panels cannot contain panels"),
        (["set", "panels.duo", "[]"], "CONFIG_INVALID", "1 to 20 models"),
        (
            ["set", "default_model", "gtp-5"],
            "CONFIG_INVALID",
            "default_model: model not found: 'gtp-5'. Did you mean gpt-5",
        ),
        (
            ["set", "consensus_models", "opus,sonet"],
            "CONFIG_INVALID",
            "consensus_models: model not found: 'sonet'",
        ),
        (["get", "aliases.none"], "INVALID_ARGUMENT", "is not set"),
        (["set", "aliases.", "x"], "NOT_FOUND", "no setting"),
    ],
)
def test_a_bad_key_or_value_changes_nothing(
    person: User, file: Path, arguments: list[str], code: str, words: str
) -> None:
    error = person.json(*arguments, code=1)
    assert error["code"] == code
    assert words in error["error"] + error.get("hint", "")
    assert "hush" not in json.dumps(error)
    assert file.read_text() == TEXT


@pytest.mark.parametrize(
    "name", ["auto", "opus-latest", "codex", "codex:gpt-5", "openrouter/some/model", "grok"]
)
def test_every_name_that_can_be_asked_can_be_the_default(person: User, name: str) -> None:
    """Also one of a provider that is not set up yet."""
    person.counsel("set", "default_model", name)
    assert person.counsel("get", "default_model") == f"{name}\n"


def test_doctor_names_a_default_model_that_does_not_exist(person: User, file: Path) -> None:
    file.write_text('default_model = "gtp-5"\n')
    person.command = "doctor"
    text = person.counsel(code=1)
    assert "✗ default_model: model not found: 'gtp-5'. Did you mean gpt-5" in text


def test_a_file_that_is_not_toml_is_not_changed(person: User, file: Path) -> None:
    file.write_text("default_model = \nx")
    os.utime(file, (1e9, 1e9))  # long ago, so that nobody waits for a writer that may be in the middle of it
    assert person.json("set", "log_level", "info", code=1)["code"] == "CONFIG_INVALID"
    assert file.read_text() == "default_model = \nx"


def test_the_list_says_where_each_value_comes_from(
    person: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNSEL_MAX_FILES", "9")
    (person.counsel_home / ".env").write_text("COUNSEL_PORT=4000\nCOUNSEL_TOKEN=a-very-secret-token\n")
    document = person.json("list")
    origin = {row["name"]: (row["value"], row["source"]) for row in document["settings"]}
    assert origin["max_files"] == (9, "environment")
    assert origin["port"] == (4000, ".env")
    assert origin["default_model"] == ("gpt-5", "config.toml")
    assert origin["aliases.fast"] == ("gpt-5-mini", "config.toml")
    assert origin["max_images"] == (20, "default")
    assert origin["token"] == ("(set, not shown)", ".env")
    assert document["file"] == str(file)
    text = person.counsel("list")
    assert "environment (COUNSEL_MAX_FILES)" in text
    assert "a-very-secret-token" not in text
    person.counsel("set", "max_files", "5")
    assert "takes precedence over config.toml" in person.err


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    program = folder / "editor.py"
    program.write_text(f"import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\n{code}\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")


def test_an_edited_file_is_saved_if_it_is_valid(
    person: User, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, "file.write_text(file.read_text().replace('debug', 'info'))")
    person.counsel("edit")
    assert file.read_text() == TEXT.replace('"debug"', '"info"').replace("for debugging", "for infoging")


@pytest.mark.parametrize(
    ("text", "words"),
    [("port = ", "not valid TOML"), ("port = 99999", "port must be"), ("prot = 1", "unknown setting 'prot'")],
)
def test_an_edited_file_that_is_bad_is_not_saved(
    person: User, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    editor(tmp_path, monkeypatch, f"file.write_text({text!r})")
    person.counsel("edit", code=1)
    assert words in person.err
    assert file.read_text() == TEXT


def test_an_edit_does_not_overwrite_what_another_program_wrote_meanwhile(
    person: User, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(
        tmp_path,
        monkeypatch,
        f"file.write_text('port = 4000')\npathlib.Path({str(file)!r}).write_text('port = 5000')",
    )
    person.counsel("edit", code=1)
    assert "was changed by another program" in person.err
    assert file.read_text() == "port = 5000"
