"""Which process may start the daemon."""

from __future__ import annotations

from pathlib import Path

from counsel.front.launcher import Launcher


def test_one_process_at_a_time_may_start_the_daemon(tmp_path: Path) -> None:
    first, second = (Launcher({"COUNSEL_HOME": str(tmp_path)}) for _ in range(2))
    assert first.take_lock()
    assert first.take_lock(), "it has it"
    assert not second.take_lock()
    first.release()
    assert second.take_lock()
    second.release()
