"""Parse a setting's value from text or TOML, and check its type, choices and range."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

Period: TypeAlias = Literal["day", "month"]
_PERIODS: tuple[Period, ...] = ("day", "month")


class ProviderBudget(NamedTuple):
    """The most that calls to one provider may cost per day or month."""

    provider: str
    period: Period
    usd: float
    source: str


def parse(row: dataclasses.Field[object], raw: object) -> object:
    kind = {"int": _integer, "bool": _boolean, "str": _string, "tuple[str, ...]": _strings}[str(row.type)]
    choices = row.metadata["choices"]
    if row.metadata["unit"] == "bytes":
        raw = _bytes(raw)
    elif row.metadata["unit"] == "usd":
        raw = "" if raw == "" else f"{dollars(row.name, raw):.10f}".rstrip("0").rstrip(".")
    elif row.metadata["unit"] == "url":
        raw = _origin(row.name, raw)
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


def _origin(name: str, raw: object) -> object:
    """`https://counsel.example/` without its trailing slash. Paths are refused: the console's page is at `/`."""
    if raw == "":
        return raw
    if isinstance(raw, str) and re.fullmatch(
        r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?/?", raw.strip()
    ):
        return raw.strip().rstrip("/").lower()
    raise ValueError(f"{name} must be an address such as https://counsel.example, without a path")


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


def dollars(name: str, raw: object) -> float:
    """`5`, `"2.50"`, `"$5"`, `"5 USD"`."""
    value = math.nan
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        value = float(raw)
    elif isinstance(raw, str) and (
        match := re.fullmatch(r"\s*\$?\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:usd|\$)?\s*", raw, re.IGNORECASE)
    ):
        value = float(match[1])
    if not (math.isfinite(value) and 0 <= value <= 1e9):
        raise ValueError(f"{name} must be an amount of US dollars, such as 5 or 2.50")
    return value


def provider_budgets(
    env: Mapping[str, str], table: Mapping[str, Any], file: Path, problems: list[str]
) -> tuple[ProviderBudget, ...]:
    """The budgets from `[budgets.PROVIDER]` in config.toml and from `COUNSEL_BUDGET_DAY_PROVIDER`, which wins.

    An unreadable amount counts as 0: if it meant no limit, a typing mistake would cost money.
    """
    budgets: dict[tuple[str, Period], ProviderBudget] = {}
    for provider, row in table.items():
        if not isinstance(row, dict) or set(row) - set(_PERIODS):
            problems.append(f"{file}: [budgets.{provider}] must have day, month or both, and nothing else.")
            continue
        for period in _PERIODS:
            if period in row:
                source = f"{file}: budgets.{provider}.{period}"
                usd = _dollars_or_nothing(row[period], source, problems)
                budgets[env_name(provider), period] = ProviderBudget(provider.lower(), period, usd, source)
    for name, value in env.items():
        if value and (match := _VARIABLE(name)):
            period = "day" if match[1] == "DAY" else "month"
            source = f"environment variable {name}"
            usd = _dollars_or_nothing(value, source, problems)
            before = budgets.get((match[2], period))
            provider = before.provider if before else match[2].lower()
            budgets[match[2], period] = ProviderBudget(provider, period, usd, source)
    return tuple(budgets.values())


_VARIABLE = re.compile(r"COUNSEL_BUDGET_(DAY|MONTH)_([A-Z0-9_]+)").fullmatch


def _dollars_or_nothing(raw: object, source: str, problems: list[str]) -> float:
    try:
        return dollars("the budget", raw)
    except ValueError as error:
        problems.append(f"{source}: {error}; nothing is spent there until it is corrected.")
        return 0.0


def env_name(provider: str) -> str:
    """A provider's name in an environment variable: `my-proxy` becomes `MY_PROXY`."""
    return re.sub(r"[^A-Z0-9]", "_", provider.upper())
