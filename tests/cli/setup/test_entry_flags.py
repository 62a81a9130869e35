"""With which Python flags an agent starts counsel."""

from __future__ import annotations

from pathlib import Path

import pytest

import counsel
from counsel import settings
from counsel.agents.definitions import AGENTS
from counsel.cli.setup import plan as setup_plan


@pytest.mark.parametrize(
    ("pythonpath", "flags"),
    [
        ("", ("-E", "-P")),
        ("{source}", ("-P",)),
        ("/other:{source}", ("-P",)),
        ("{source}/counsel", ("-E", "-P")),
        ("{parent}", ("-E", "-P")),
    ],
)
def test_an_entry_keeps_pythonpath_only_where_counsel_is_found_through_it(
    tmp_path: Path, pythonpath: str, flags: tuple[str, ...]
) -> None:
    source = Path(counsel.__file__).parent.parent
    env = {
        "COUNSEL_HOME": str(tmp_path),
        "PYTHONPATH": pythonpath.format(source=source, parent=source.parent),
    }
    entry = setup_plan.server(AGENTS["codex"], settings.load(env))
    assert entry.args[: len(flags) + 1] == (*flags, "-m")
