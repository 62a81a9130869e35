from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def asking() -> ModuleType:
    """pydantic-ai and the vendors' SDKs take seconds to import, and some of them warn: only when a test asks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("models.oracles.asking")


@pytest.fixture(scope="session")
def reading() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("models.oracles.reading")
