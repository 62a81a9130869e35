from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from fake import FakeAPI, FakeProcess


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeAPI]:
    """The vendors' APIs on a free loopback port, in this process (tests/fake/README.md)."""
    async with FakeAPI() as fake:
        yield fake


@pytest.fixture
def fake_process() -> Iterator[FakeProcess]:
    """The same in a process of its own, for tests that drive real CLIs and daemons."""
    with FakeProcess() as fake:
        yield fake
