"""src/counsel/models/shipped.json: providers.toml and catalog.toml in a form that loads in a millisecond."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src" / "counsel" / "models"


def tables() -> str:
    """One line per table, so that a small change of the TOML files is a small diff here."""
    parts = [f"{json.dumps(name)}: {_lines(_read(f'{name}.toml'))}" for name in ("providers", "catalog")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _read(name: str) -> dict[str, object]:
    return tomllib.loads((FOLDER / name).read_text("utf-8"))


def _lines(tables: dict[str, object]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_rows(table)}" for name, table in tables.items()) + "}"


def _rows(table: object) -> str:
    if isinstance(table, list):
        return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in table) + "]"
    return json.dumps(table, ensure_ascii=False)
