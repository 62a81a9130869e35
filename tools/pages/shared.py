"""The generated parts of docs/use/settings.md, docs/use/errors.md, docs/use/security.md and docs/use/files.md."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from counsel import errors as errors_
from counsel import settings as settings_
from counsel.engine.context import images, secret_content, secret_files
from tools.generate import within


def settings() -> str:
    return within("docs/use/settings.md", settings="\n".join(_settings()))


def _settings() -> Iterator[str]:
    yield "| config.toml | environment or .env | default | what it does |"
    yield "|---|---|---|---|"
    for row in settings_.rows():
        yield f"| `{row.name}` | `{row.metadata['env']}` | {_default(row)} | {row.metadata['description']}{_allowed(row)} |"


def _default(row: dataclasses.Field[Any]) -> str:
    if row.default in ("", ()):
        return ""
    return f"`{str(row.default).lower() if isinstance(row.default, bool) else row.default}`"


def _allowed(row: dataclasses.Field[Any]) -> str:
    low, high, choices = row.metadata["min"], row.metadata["max"], row.metadata["choices"]
    if choices:
        return f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    if low is not None and high is not None:
        return f" {low} to {high}."
    return " Never shown." if row.metadata["secret"] else ""


def errors() -> str:
    return within("docs/use/errors.md", errors="\n".join(_errors()))


def _errors() -> Iterator[str]:
    rows = re.findall(r"([A-Z]\w+) +([A-Z_]{5,}) *(.*)", errors_.__doc__ or "")
    yield "| code | in Python | when | fields |"
    yield "|---|---|---|---|"
    for name, code, fields in rows:
        kind = getattr(errors_, name)
        names = ", ".join(f"`{field}`" for field in re.split(r",\s*", fields.strip()) if field)
        yield f"| `{code}` | `{name}` | {kind.__doc__} | {names} |"


def security() -> str:
    return within("docs/use/security.md", secrets="\n".join(_secrets()))


def _secrets() -> Iterator[str]:
    yield "| refused because | files |"
    yield "|---|---|"
    for row in secret_files.NAMES:
        names = ", ".join(f"`{pattern}`" for pattern in row.patterns)
        but = f" (not {', '.join(f'`{pattern}`' for pattern in row.except_)})" if row.except_ else ""
        when = " (only when they hold one)" if row.content else ""
        yield f"| {row.why} | {names}{but}{when} |"
    for why, _ in secret_content.RULES:
        yield f"| {why} | any name, found by content |"


def files() -> str:
    return within("docs/use/files.md", fits="\n".join(_fits()))


def _fits() -> Iterator[str]:
    yield "| provider | longest edge | bytes | types |"
    yield "|---|---|---|---|"
    for name, fit in {**images.VENDOR_LIMITS, "others": images.Limits()}.items():
        types = ", ".join(kind.removeprefix("image/").upper() for kind in fit.types)
        yield f"| {name} | {fit.edge} | {fit.bytes / 1024 / 1024:g} MiB | {types} |"
