"""Which entries of an agent's file start counsel, and which of them import nothing from the folder where they start."""

from __future__ import annotations

import pytest

from counsel.agents.self_entry import is_isolated, is_ours
from counsel.agents.server_format import Server


@pytest.mark.parametrize(
    ("command", "args", "ours", "isolated"),
    [
        ("/opt/bin/counsel", ["stdio", "--as", "codex"], True, True),
        ("counsel", ["stdio"], True, False),  # PATH may contain the folder
        ("./counsel", ["stdio"], True, False),
        ("/usr/bin/python3", ["-P", "-m", "counsel", "stdio"], True, True),
        ("/usr/bin/python3", ["-m", "counsel", "stdio"], True, False),  # imports the folder's counsel.py
        ("python3", ["-P", "-m", "counsel", "stdio"], True, False),
        ("/opt/bin/uv", ["run", "counsel", "stdio"], True, False),
        ("/opt/bin/counsel", ["serve"], False, False),
        ("/opt/bin/counsel-helper", ["stdio"], False, False),
        ("/usr/bin/python3", ["-P", "-m", "other", "stdio"], False, False),
        ("", [], False, False),
    ],
)
def test_one_definition_of_our_own_entry(command: str, args: list[str], ours: bool, isolated: bool) -> None:
    assert is_ours(Server(name="any", transport="stdio", command=command, args=tuple(args))) is ours
    assert is_isolated(command, args) is isolated


def test_a_remote_or_broken_entry_is_not_ours() -> None:
    remote = Server(name="counsel", transport="http", url="http://127.0.0.1:1/mcp")
    assert not is_ours(remote)
    assert not is_isolated(None, None)
    assert not is_isolated("/opt/bin/counsel", "stdio")
    assert not is_isolated(["/opt/bin/counsel"], ["stdio"])
