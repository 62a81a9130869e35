"""The resolved matrix: for every model of the catalog by every setting, exactly what is sent.

`make docs` writes `tests/models/matrix.txt`. A change of one row of data shows all its effects there as a diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from counsel.models import catalog_rows
from counsel.models.catalog import Target
from counsel.models.wires import WIRES
from counsel.types import EFFORTS, Call, Endpoint, Image, Knobs, Model, Prepared, ToolSpec, Turn

QUESTION = Turn("user", "Q")
IMAGE = Turn("user", "Q", images=(Image("image/png", b"P"),))
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})

SETTINGS: dict[str, Call] = {
    "default": Call((QUESTION,)),
    "temperature=0.2": Call((QUESTION,), knobs=Knobs(temperature=0.2)),
    **{f"effort={effort}": Call((QUESTION,), knobs=Knobs(effort=effort)) for effort in EFFORTS},
    "verbosity=low": Call((QUESTION,), knobs=Knobs(verbosity="low")),
    "web_search": Call((QUESTION,), knobs=Knobs(web_search=True)),
    "media_resolution=LOW": Call((QUESTION,), knobs=Knobs(media_resolution="MEDIA_RESOLUTION_LOW")),
    "system": Call((QUESTION,), system="S"),
    "image": Call((IMAGE,)),
    "tool": Call((QUESTION,), tools=(TOOL,)),
    "minimal, web_search": Call((QUESTION,), knobs=Knobs(effort="minimal", web_search=True)),
    "tool and web_search": Call((QUESTION,), tools=(TOOL,), knobs=Knobs(web_search=True)),
}


def targets() -> list[Target]:
    shipped = catalog_rows.shipped()
    providers = shipped.providers
    return [
        Target(model, Endpoint(providers[model.provider], providers[model.provider].base_url, "KEY"))
        for model in shipped.models.values()
    ]


def takes(model: Model, call: Call) -> bool:
    """The engine refuses these before a wire sees them."""
    return (model.vision or not call.turns[0].images) and (model.tools or not call.tools)


def prepared(target: Target, call: Call) -> Prepared:
    way = target.searching() if call.knobs.web_search else target
    return WIRES[way.endpoint.provider.wire].prepare(call, way.model, way.endpoint)


def matrix() -> str:
    return "".join(f"{line}\n" for target in targets() for line in _of_one(target))


def _of_one(target: Target) -> Iterator[str]:
    usual = prepared(target, SETTINGS["default"])
    yield f"{target.model.id} ({target.model.provider}) → {_path(target, usual)}"
    for name, call in SETTINGS.items():
        if not takes(target.model, call):
            yield f"    {name:<21} refused"
            continue
        sent = prepared(target, call)
        body = sent.body if name == "default" else _changes(usual.body, sent.body)
        moved = "" if _path(target, sent) == _path(target, usual) else f" → {_path(target, sent)}"
        left_out = f" left out: {', '.join(sent.left_out)}" if sent.left_out else ""
        adapted = "".join(f" adapted: {change.setting} → {change.sent}" for change in sent.adapted)
        yield f"    {name:<21} {_compact(body)}{moved}{left_out}{adapted}"
    yield ""


def _path(target: Target, sent: Prepared) -> str:
    return sent.url.removeprefix(target.endpoint.base_url)


def _changes(usual: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in sent.items() if usual.get(name) != value}
    return {**changed, **{name: None for name in usual if name not in sent}}


def _compact(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False) if body else "no change"
