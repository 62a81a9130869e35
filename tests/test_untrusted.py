"""Programs that start while the user works in a folder that is not trusted."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from counsel import untrusted


@pytest.mark.parametrize("name", untrusted.SEARCH_PATHS)
def test_search_paths_keep_their_absolute_entries(name: str) -> None:
    env = {name: "/usr/bin:node_modules/.bin::/bin:.", "OTHER": "a:b"}
    assert untrusted.absolute_paths(env) == {name: "/usr/bin:/bin", "OTHER": "a:b"}
    assert untrusted.absolute_paths({name: "bin:", "OTHER": "a"}) == {"OTHER": "a"}
    assert env[name].startswith("/usr/bin:node"), "the caller's own variables stay"


def test_no_variable_leads_back() -> None:
    env = {
        "OLDPWD": "/w",
        "INIT_CWD": "/w",
        "CLAUDE_PROJECT_DIR": "/w",
        "CLIENT_CWD": "/w",
        "PWD": "/w",
        "HOME": "/h",
    }
    assert untrusted.env_in_folder({**env, "PATH": "bin:/bin"}, "/empty") == {
        "HOME": "/h", "PATH": "/bin", "PWD": "/empty"
    }  # fmt: skip


def test_the_empty_folder_is_counsels_own_and_stays_empty(tmp_path: Path) -> None:
    env = {"COUNSEL_HOME": str(tmp_path)}
    first = untrusted.empty_folder(env)
    assert first == f"{untrusted.run_folder(env)}/empty"
    assert stat.S_IMODE(Path(first).stat().st_mode) == 0o500
    assert untrusted.empty_folder(env) == first
    Path(first).chmod(0o700)
    (Path(first) / "node_modules").mkdir()
    second = untrusted.empty_folder(env)
    assert second == f"{first}1"
    Path(second).rmdir()
    Path(second).symlink_to(tmp_path)
    assert untrusted.empty_folder(env) == f"{first}2"
