"""The embedded model's process reports its address, or why it has none, and ends with its parent."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import ProviderUnavailable
from counsel.models import embedded, embedded_worker


class Stdin:
    """Closed by the parent when `buffer` has been read."""

    buffer = io.BytesIO(b"until here")


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signals.append((group, number)))
    monkeypatch.setattr(sys, "stdin", Stdin())
    return signals


def test_it_reports_its_address_and_serves_until_its_parent_ends(
    ends: list[tuple[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    order: list[str] = []

    @contextmanager
    def fake_serve(home: Path) -> Iterator[Any]:
        order.append(f"serve {home}")
        model: Any = type("Model", (), {"environment": {"LOCAL_BASE_URL": "http://x"}})
        yield model
        order.append(f"end after {len(ends)}")

    monkeypatch.setattr(embedded, "fetch", lambda home: order.append(f"fetch {home}"))
    monkeypatch.setattr(embedded, "LocalModel", fake_serve)
    embedded_worker.main(str(tmp_path))
    assert order == [f"fetch {tmp_path}", f"serve {tmp_path}", "end after 1"]
    assert ends == [(0, signal.SIGKILL)], "its whole group"
    assert json.loads(capsys.readouterr().out) == {"environment": {"LOCAL_BASE_URL": "http://x"}}


def test_it_reports_why_it_cannot_serve(
    ends: list[tuple[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fetch(home: Path) -> None:
        raise ProviderUnavailable("There is no network.", hint="Look.")

    monkeypatch.setattr(embedded, "fetch", fetch)
    embedded_worker.main(str(tmp_path))
    assert json.loads(capsys.readouterr().out)["error"] == {
        "error": "There is no network.", "code": "PROVIDER_UNAVAILABLE", "hint": "Look."
    }  # fmt: skip
