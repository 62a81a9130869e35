"""A setting's value from text or TOML: its type, its choices, its range."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any


def parse(row: dataclasses.Field[object], raw: object) -> object:
    kind = {"int": _integer, "bool": _boolean, "str": _string, "tuple[str, ...]": _strings}[str(row.type)]
    choices = row.metadata["choices"]
    if row.metadata["unit"] == "bytes":
        raw = _bytes(raw)
    value: Any = kind(row.name, raw.lower() if choices and isinstance(raw, str) else raw)
    if choices and value not in choices and value != row.default:
        raise ValueError(f"{row.name} must be one of {', '.join(choices)}")
    low, high = row.metadata["min"], row.metadata["max"]
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"{row.name} must be {_range(low, high)}")
    return value


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"from {low} to {high}"


def _integer(name: str, raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and re.fullmatch(r"\s*-?\d+\s*", raw):
        return int(raw)
    raise ValueError(f"{name} must be a whole number")


_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def _bytes(raw: object) -> object:
    """`500 MB`, `2GiB`, `1.5g`; anything else as it is."""
    if isinstance(raw, str) and (
        match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])i?)?b?\s*", raw, re.IGNORECASE)
    ):
        return int(float(match[1]) * _UNITS[(match[2] or "").lower()])
    return raw


_BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def _boolean(name: str, raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in _BOOLEANS:
        return _BOOLEANS[raw.strip().lower()]
    raise ValueError(f"{name} must be true or false")


def _string(name: str, raw: object) -> str:
    if isinstance(raw, str):
        return raw.strip()
    raise ValueError(f"{name} must be a string")


def _strings(name: str, raw: object) -> tuple[str, ...]:
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return tuple(raw)
    if isinstance(raw, str):
        separator = os.pathsep if name in {"allowed_dirs", "allowed_secret_files"} else ","
        return tuple(part.strip() for part in raw.split(separator) if part.strip())
    raise ValueError(f"{name} must be a list of strings")
