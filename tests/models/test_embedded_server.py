"""How the embedded model is started, with a stand-in for the runtime that only records its parameters."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from counsel.errors import ProviderUnavailable
from counsel.models import embedded
from counsel.models.embedded import LocalModel

RUNTIME = """
from types import SimpleNamespace

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams = SimpleNamespace(), SimpleNamespace()

class Server:
    listening_address = "http://127.0.0.1:9"
    def __init__(self, parameters):
        if "broken" in parameters.model.path:
            raise RuntimeError("no such weights")
        self.parameters = parameters
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = embedded.folder(tmp_path) / "lib" / "xllamacpp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(RUNTIME)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    return tmp_path


def test_it_is_protected_by_a_key_of_its_own(home: Path) -> None:
    model = LocalModel(home)
    assert model.environment == {}
    endpoint = model.start()
    parameters = model._server.parameters
    (key,) = parameters.api_keys
    assert len(key) >= 32
    assert model.environment == {
        "COUNSEL_LOCAL_BASE_URL": "http://127.0.0.1:9/v1",
        "COUNSEL_LOCAL_API_KEY": key,
    }
    assert (endpoint.base_url, endpoint.key) == ("http://127.0.0.1:9/v1", key)
    assert Path(parameters.model.path) == embedded.folder(home) / "weights.gguf"
    assert (parameters.model_alias, parameters.n_ctx) == ({"smollm2"}, embedded.CONTEXT)
    assert parameters.cpuparams.n_threads == 1
    assert parameters.verbosity == -1  # prints nothing
    model.stop()
    assert model.environment == {}
    with LocalModel(home) as second:
        assert second.environment["COUNSEL_LOCAL_API_KEY"] != key
    assert second.environment == {}


def test_the_runtime_is_loaded_once(home: Path) -> None:
    package = embedded.folder(home) / "lib" / "xllamacpp"
    assert embedded._runtime(package) is sys.modules["xllamacpp"]
    assert embedded._runtime(package / "elsewhere") is sys.modules["xllamacpp"]


def test_a_runtime_that_does_not_work_is_reported_and_removed(home: Path) -> None:
    package = embedded.folder(home) / "lib" / "xllamacpp"
    (package / "__init__.py").write_text("raise ImportError('no such processor')")
    with pytest.raises(ProviderUnavailable, match="does not work on this system: no such processor"):
        LocalModel(home).start()
    assert "xllamacpp" not in sys.modules


def test_weights_that_cannot_be_loaded_are_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    embedded.folder(home).rename(broken)
    monkeypatch.setattr(embedded, "folder", lambda _: broken)
    with pytest.raises(ProviderUnavailable, match="failed to start: no such weights") as excinfo:
        LocalModel(home).start()
    assert str(broken) in str(excinfo.value.hint)
