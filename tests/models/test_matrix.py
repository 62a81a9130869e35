"""What holds for every model by setting.

The exact bodies are in `matrix.txt`, which `tests/test_generated.py` checks.
"""

import json
from collections.abc import Callable

import pytest

from counsel.models.catalog import Target
from counsel.types import Model
from tools.matrix import SETTINGS, prepared, takes, targets

ASKED = {
    "temperature=0.2": "temperature",
    **{f"effort={level}": "reasoning_effort" for level in ("minimal", "low", "medium", "high", "max")},
    "verbosity=low": "verbosity",
    "web_search": "use_websearch",
    "media_resolution=LOW": "media_resolution",
}
TAKES: dict[str, Callable[[Model], bool]] = {
    "reasoning_effort": lambda model: bool(model.efforts),
    "verbosity": lambda model: model.verbosity,
    "use_websearch": lambda model: model.web_search,
    "media_resolution": lambda model: model.media_resolution,
}


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.model.id)
def test_a_setting_is_sent_or_named_as_left_out(target: Target) -> None:
    for name, setting in ASKED.items():
        request = prepared(target, SETTINGS[name])
        if setting in TAKES:
            assert (setting not in request.left_out) == TAKES[setting](target.model), name
        assert set(request.left_out) <= {setting}, name


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.model.id)
def test_every_effort_of_the_row_is_what_is_sent(target: Target) -> None:
    for level, value in target.model.efforts.items():
        body = json.dumps(prepared(target, SETTINGS[f"effort={level}"]).body)
        assert f": {json.dumps(value)}" in body, level


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.model.id)
def test_the_key_is_in_a_header_and_nowhere_else(target: Target) -> None:
    for call in SETTINGS.values():
        if takes(target.model, call):
            request = prepared(target, call)
            assert any("KEY" in value for value in request.headers.values())
            assert "KEY" not in request.url + json.dumps(request.body)
            assert "KEY" not in repr(request)
