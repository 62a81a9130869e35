"""The routes in docs/use/http.md, and the OpenAPI document."""

from __future__ import annotations

import json

from counsel.http.api import openapi
from counsel.http.api.endpoint import ApiRoute
from counsel.http.api.routes import ROUTES
from tools.generate import within


def document() -> str:
    return json.dumps(openapi.document(), indent=1, ensure_ascii=False) + "\n"


def routes() -> str:
    rows = "\n".join(map(_row, ROUTES))
    return within(
        "docs/use/http.md", routes=f"| request | parameters | what it does |\n|---|---|---|\n{rows}"
    )


def _row(row: ApiRoute) -> str:
    names = ", ".join(f"`{parameter.name}`" for parameter in row.query)
    return f"| `{row.method} {openapi.path_of(row)}` | {names} | {row.summary} |"
