"""Optional fields that some vendors refuse: after a refusal, requests with the same model and key omit the field."""

from __future__ import annotations

from collections.abc import Mapping

from counsel.models.vendor_errors import ErrorReport
from counsel.types import Endpoint, Model, Prepared

_MAX_REMEMBERED = 1024


class RefusedFields:
    def __init__(self) -> None:
        self._refused: set[tuple[str, str | None, str, str]] = set()  # address, key, model, field

    def body(self, request: Prepared, endpoint: Endpoint, model: Model) -> dict[str, object]:
        """The request's body without the fields that were refused before."""
        body = request.body
        for field in request.optional:
            if _key(endpoint, model, field) in self._refused:
                body = _without(body, field.split("."))
        return body

    def add(self, report: ErrorReport, request: Prepared, endpoint: Endpoint, model: Model) -> bool:
        """Whether the vendor refused an optional field for the first time, so that a request without it may succeed."""
        if report.kind != "refused":
            return False
        message = f"{report.field} {report.message}"
        keys = {_key(endpoint, model, field) for field in request.optional if field in message}
        new = keys - self._refused
        if len(self._refused) >= _MAX_REMEMBERED:
            self._refused.clear()
        self._refused |= new
        return bool(new)


def _key(endpoint: Endpoint, model: Model, field: str) -> tuple[str, str | None, str, str]:
    return endpoint.base_url, endpoint.key, model.wire_id, field


def _without(body: Mapping[str, object], path: list[str]) -> dict[str, object]:
    """A copy without one field; an object that becomes empty is removed, too."""
    name, rest = path[0], path[1:]
    inner = body.get(name)
    remaining = _without(inner, rest) if rest and isinstance(inner, dict) else None
    fields = {key: value for key, value in body.items() if key != name}
    return {**fields, name: remaining} if remaining else fields
