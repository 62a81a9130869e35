from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def asking() -> ModuleType:
    """Imported on request: pydantic-ai and the vendors' SDKs take seconds to import, and some of them warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("models.oracles.asking")


@pytest.fixture(scope="session")
def reading() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("models.oracles.reading")
