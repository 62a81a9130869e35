from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.models import embedded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def local_home() -> Path:
    """A home with the real embedded model, fetched once and kept in `.cache/` (or `COUNSEL_TEST_LOCAL`)."""
    home = Path(os.environ.get("COUNSEL_TEST_LOCAL", ROOT / ".cache" / "local-home"))
    embedded.fetch(home)
    return home
