"""What Claude Code may read in folders that it was not told to trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.reading import request_to
from counsel.agents.claude import run as claude
from counsel.caller import Caller
from counsel.types import Call, Turn


@pytest.mark.parametrize(
    ("trusted_folders", "with_file", "only_users", "named_folder"),
    [
        ({"cwd", "other"}, set(), False, None),
        ({"cwd", "other"}, {"cwd"}, False, None),
        ({"other"}, set(), True, None),
        ({"other"}, {"cwd"}, True, "cwd"),
        ({"cwd"}, {"other"}, True, "other"),
        ({"cwd"}, set(), False, None),
    ],
)
def test_settings_of_an_untrusted_folder_are_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trusted_folders: set[str],
    with_file: set[str],
    only_users: bool,
    named_folder: str | None,
) -> None:
    for name in ("cwd", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(claude, "_trusts", lambda request, folder: folder.name in trusted_folders)
    monkeypatch.setattr(
        claude,
        "_project_file",
        lambda folder, request: folder / "CLAUDE.md" if folder.name in with_file else None,
    )
    request = request_to(
        "claude",
        caller=Caller(cwd=tmp_path / "cwd"),
        env={"HOME": str(tmp_path)},
        call=Call((Turn("user", "look"),), files=(tmp_path / "other" / "a.txt",)),
        cwd=tmp_path / "cwd",
        start=tmp_path / "cwd",
    )
    assert [folder.name for folder in request.other_folders] == ["other"]
    command = claude.command(request)
    assert ("--setting-sources" in command.argv) == only_users
    assert ("--strict-mcp-config" in command.argv) == ("cwd" not in trusted_folders)
    assert (named_folder is not None) == any("the folder's own settings" in note for note in command.notes)
    if named_folder:
        assert str(tmp_path / named_folder / "CLAUDE.md") in command.notes[0]


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        ({"COUNSEL_HOME": "/elsewhere", "OPENAI_API_KEY": "sk-secret"}, {"COUNSEL_HOME": "/elsewhere"}),
        ({"COUNSEL_HOME": 1}, {}),
        (None, {}),
    ],
)
def test_counsels_own_entry_is_kept_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: object, kept: dict[str, str]
) -> None:
    monkeypatch.setattr(claude, "_trusts", lambda request, folder: False)
    entry = {"command": "/opt/bin/counsel", "args": ["stdio"]}
    servers = {"counsel": {**entry, "env": env}, "other": {"command": "c"}}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "cwd").mkdir()
    argv = claude.command(
        request_to("claude", env={"HOME": str(tmp_path)}, cwd=tmp_path / "cwd", start=tmp_path / "cwd")
    ).argv
    config = json.loads(argv[argv.index("--mcp-config") + 1])
    assert config == {"mcpServers": {"counsel": {**entry, "env": kept}}}
