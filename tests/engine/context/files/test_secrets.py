"""Secrets are refused by name and by content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.errors import FileNotAllowed
from support.context_files import KEY, ask, refused


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        ".ENV.production",
        ".envrc",
        "prod.env",
        "id_rsa",
        "deploy/id_ed25519",
        ".ssh/config",
        ".ssh/deep/er/key",
        ".claude/.credentials.json",
        ".claude.json",
        ".codex/auth.json",
        ".gemini/oauth_creds.json",
        ".netrc",
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".kube/config",
        ".docker/config.json",
        ".git-credentials",
        "store.p12",
    ],
)
def test_secrets_are_refused_by_name_unless_the_user_names_them(
    project: Path, caller: Callable[..., Caller], name: str
) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("secret\n")
    error = refused(FileNotAllowed, caller(), name)
    assert error.fields["file"] == name
    assert str(path) in (error.hint or "")
    assert "secret" in ask(caller(COUNSEL_ALLOWED_SECRET_FILES=str(path)), name).prompt
    assert "secret" in ask(caller(COUNSEL_ALLOWED_SECRET_FILES=path.name), name).prompt


@pytest.mark.parametrize(
    "name", [".env.example", ".env.sample", ".env.template", "environment.py", "id_rsa.pub", "env.d.ts"]
)
def test_examples_and_public_keys_are_not_secrets(
    project: Path, caller: Callable[..., Caller], name: str
) -> None:
    (project / name).write_text("A=\n")
    assert "A=" in ask(caller(), name).prompt


def test_a_secret_behind_a_harmless_link_is_refused(project: Path, caller: Callable[..., Caller]) -> None:
    (project / ".env").write_text("A=1\n")
    (project / "notes.txt").symlink_to(".env")
    refused(FileNotAllowed, caller(), "notes.txt")


def test_a_secret_name_for_a_harmless_file_is_refused(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "notes.txt").write_text("A=1\n")
    (project / ".env").symlink_to("notes.txt")
    refused(FileNotAllowed, caller(), ".env")


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt{2:2}", "notes.txt{3:}"])
def test_a_private_key_is_refused_by_content(project: Path, caller: Callable[..., Caller], name: str) -> None:
    (project / "notes.txt").write_text("see:\n" + KEY + "end\n")
    assert "private key" in refused(FileNotAllowed, caller(), name).message
    assert ask(caller(COUNSEL_ALLOWED_SECRET_FILES="notes.txt"), name)


def test_a_private_key_inside_json_or_utf16_is_refused(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "account.json").write_text('{"private_key": "' + KEY.replace("\n", "\\n") + '"}')
    (project / "wide.txt").write_text(KEY, encoding="utf-16")
    refused(FileNotAllowed, caller(), "account.json")
    refused(FileNotAllowed, caller(), "wide.txt")


@pytest.mark.parametrize("template", ["    client-key-data: {}", '{{"user":{{"client-key-data": "{}"}}}}'])
def test_a_clusters_client_key_is_refused_by_content(
    project: Path, caller: Callable[..., Caller], template: str
) -> None:
    (project / "cluster.conf").write_text(template.format("LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo"))
    refused(FileNotAllowed, caller(), "cluster.conf")


def test_code_that_mentions_the_header_is_not_a_key(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "check.py").write_text(
        'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError(text)\n'
    )
    assert ask(caller(), "check.py")


@pytest.mark.parametrize(
    ("name", "harmless", "secret"),
    [
        (".npmrc", "registry=https://r.example\n", "//r.example/:_authToken=abc\n"),
        (".pypirc", "[pypi]\nusername = me\n", "[pypi]\npassword = abc\n"),
    ],
)
def test_registry_files_are_secret_only_with_a_token(
    project: Path, caller: Callable[..., Caller], name: str, harmless: str, secret: str
) -> None:
    (project / name).write_text(harmless)
    assert ask(caller(), name)
    (project / name).write_text(secret)
    refused(FileNotAllowed, caller(), name)


def test_logins_that_a_variable_moved_are_refused_by_any_name(
    project: Path, caller: Callable[..., Caller]
) -> None:
    codex = project / "codex-home"
    codex.mkdir()
    (codex / "auth.json").write_text("{}")
    (project / "copy.txt").hardlink_to(codex / "auth.json")
    assert ask(caller(), "copy.txt")
    other_home = caller(CODEX_HOME=str(codex))
    refused(FileNotAllowed, other_home, "codex-home/auth.json")
    refused(FileNotAllowed, other_home, "copy.txt")


def test_counsels_own_folder_is_refused(project: Path, caller: Callable[..., Caller]) -> None:
    own = project / "counsel"
    own.mkdir()
    (own / "config.toml").write_text("port = 1\n")
    error = refused(FileNotAllowed, caller(COUNSEL_HOME=str(own)), "counsel/config.toml")
    assert "own folder" in error.message


@pytest.mark.parametrize("text", ["\n", " ", "-----BEGIN PRIVATE KEY-----", "client-key-data:\n", "\r"])
def test_a_hostile_file_does_not_slow_down_the_search_for_secrets(
    project: Path, caller: Callable[..., Caller], text: str
) -> None:
    """Each of these texts made an earlier pattern run for hours."""
    for name in ("big", ".pypirc", ".npmrc"):
        (project / name).write_text(text * (200_000 // len(text)), newline="")
        assert ask(caller(), name).sources[0].size


def test_no_error_shows_content(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "notes.txt").write_text(KEY)
    (project / ".npmrc").write_text("_authToken=topsecret\n")
    error = refused(FileNotAllowed, caller(), "notes.txt", ".npmrc")
    assert "b3BlbnNz" not in repr(error.as_dict())
    assert "topsecret" not in repr(error.as_dict())
