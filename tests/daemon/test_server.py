"""What ends a daemon before it listens."""

from __future__ import annotations

import pytest

from counsel.daemon import server


def test_a_home_that_cannot_be_used_is_named_and_fails_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNSEL_HOME", "not/absolute")
    assert server.run(lambda: None) == 1
    assert capsys.readouterr().err.startswith("COUNSEL_HOME is not/absolute: it must be an absolute path")
