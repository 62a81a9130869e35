"""The resolved matrix: exactly what is sent, for every model of the catalog and every setting.

`make docs` writes `tests/models/matrix.txt`. Its diff shows all effects of a change in the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from counsel.models import catalog_rows
from counsel.models.catalog import Target
from counsel.models.wires import WIRES
from counsel.types import EFFORTS, Call, Endpoint, Image, Model, ModelSettings, Prepared, ToolSpec, Turn

QUESTION = Turn("user", "Q")
IMAGE = Turn("user", "Q", images=(Image("image/png", b"P"),))
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})

SETTINGS: dict[str, Call] = {
    "default": Call((QUESTION,)),
    "temperature=0.2": Call((QUESTION,), model_settings=ModelSettings(temperature=0.2)),
    **{
        f"effort={effort}": Call((QUESTION,), model_settings=ModelSettings(effort=effort))
        for effort in EFFORTS
    },
    "verbosity=low": Call((QUESTION,), model_settings=ModelSettings(verbosity="low")),
    "web_search": Call((QUESTION,), model_settings=ModelSettings(web_search=True)),
    "media_resolution=LOW": Call(
        (QUESTION,), model_settings=ModelSettings(media_resolution="MEDIA_RESOLUTION_LOW")
    ),
    "system": Call((QUESTION,), system="S"),
    "image": Call((IMAGE,)),
    "tool": Call((QUESTION,), tools=(TOOL,)),
    "minimal, web_search": Call((QUESTION,), model_settings=ModelSettings(effort="minimal", web_search=True)),
    "tool and web_search": Call((QUESTION,), tools=(TOOL,), model_settings=ModelSettings(web_search=True)),
}


def targets() -> list[Target]:
    tables = catalog_rows.shipped()
    providers = tables.providers
    return [
        Target(model, Endpoint(providers[model.provider], providers[model.provider].base_url, "KEY"))
        for model in tables.models.values()
    ]


def takes(model: Model, call: Call) -> bool:
    """Whether the engine lets this call reach the model's wire."""
    return (model.vision or not call.turns[0].images) and (model.tools or not call.tools)


def prepared(target: Target, call: Call) -> Prepared:
    route = target.searching() if call.model_settings.web_search else target
    return WIRES[route.endpoint.provider.wire].prepare(call, route.model, route.endpoint)


def matrix() -> str:
    return "".join(f"{line}\n" for target in targets() for line in _model_lines(target))


def _model_lines(target: Target) -> Iterator[str]:
    default = prepared(target, SETTINGS["default"])
    yield f"{target.model.id} ({target.model.provider}) → {_path(target, default)}"
    for name, call in SETTINGS.items():
        if not takes(target.model, call):
            yield f"    {name:<21} refused"
            continue
        request = prepared(target, call)
        body = request.body if name == "default" else _changes(default.body, request.body)
        path = "" if _path(target, request) == _path(target, default) else f" → {_path(target, request)}"
        left_out = f" left out: {', '.join(request.left_out)}" if request.left_out else ""
        changes = "".join(f" adapted: {change.setting} → {change.sent}" for change in request.adapted)
        yield f"    {name:<21} {_compact(body)}{path}{left_out}{changes}"
    yield ""


def _path(target: Target, request: Prepared) -> str:
    return request.url.removeprefix(target.endpoint.base_url)


def _changes(default: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    changes = {name: value for name, value in body.items() if default.get(name) != value}
    return {**changes, **{name: None for name in default if name not in body}}


def _compact(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False) if body else "no change"
