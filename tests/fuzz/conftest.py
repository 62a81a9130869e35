from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fake import FakeProcess


@pytest.fixture(scope="module")
def vendor() -> Iterator[dict[str, str]]:
    """A vendor's API that answers at once."""
    with FakeProcess() as fake:
        yield {"OPENAI_API_KEY": "sk-test-0000000000000000", "OPENAI_BASE_URL": fake.v1}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")
