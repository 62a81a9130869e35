"""Writing to a terminal whose window is gone, before the signal that says so."""

from __future__ import annotations

import os

import pytest

from counsel.cli.terminal import closed_window


def test_text_for_a_window_that_is_gone_goes_nowhere() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        closed_window.write(terminal, "seen")
        assert os.read(master, 100) == b"seen"
        os.close(master)
        for text in ("not seen", "nor this"):
            closed_window.write(terminal, text)


def test_another_failure_is_reported() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        with pytest.raises(BrokenPipeError):
            closed_window.write(pipe, "x")
        closed_window.write_nowhere(writer)  # or closing it would fail again
