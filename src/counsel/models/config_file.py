"""Changes of COUNSEL_HOME/config.toml: validated first, written through the safe writer, comments kept."""

from __future__ import annotations

import difflib
import os
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel import paths, settings
from counsel.errors import ConfigInvalid, Conflict, InvalidArgument, NotFound
from counsel.settings import values as setting_values
from counsel.text import did_you_mean

if TYPE_CHECKING:
    import dataclasses

    from counsel.configfiles.edits import Edit

MISSING = object()


def row_named(key: str) -> dataclasses.Field[Any] | None:
    """The setting with this name, or with this environment variable."""
    name = key.strip()
    return next((row for row in settings.rows() if name in {row.name, row.metadata["env"]}), None)


def path_of(key: str) -> tuple[str, ...]:
    """The key's path in config.toml: a setting, or a dotted path into one of the tables. Raises for any other name."""
    if row := row_named(key):
        return (row.name,)
    table, _, rest = key.partition(".")
    if table in settings.TABLES and all(rest.split(".")):
        depth = 1 if table in {"aliases", "panels"} else 2
        return (table, *rest.split(".", depth - 1))
    raise unknown(key)


def unknown(key: str) -> NotFound:
    names = [row.name for row in settings.rows()]
    nearest = difflib.get_close_matches(key.lower().replace("-", "_").removeprefix("counsel_"), names, n=3)
    nearest += [name for name in names if key.lower() in name and name not in nearest][: 3 - len(nearest)]
    hint = did_you_mean(nearest) or "`counsel config list` shows all settings."
    return NotFound(f"There is no setting {key[:80]!r}.", hint=hint, nearest=nearest)


def parsed(key: str, text: str) -> object:
    """The value to write into config.toml. Raises if the setting does not accept it."""
    row = row_named(key)
    if row is None:
        value = _toml_value(text)
        if key.startswith("panels.") and isinstance(value, str):
            return [name.strip() for name in value.split(",")]
        return value
    if row.metadata["secret"]:
        raise InvalidArgument(
            f"{row.name} is a secret, which does not belong in config.toml.",
            hint=f"Write {row.metadata['env']}=… into COUNSEL_HOME/.env, which only you can read.",
        )
    try:
        setting: Any = setting_values.parse(row, text)
    except ValueError as error:
        raise InvalidArgument(f"{error}, not {text[:80]!r}.", hint=str(row.metadata["description"])) from None
    if isinstance(setting, tuple):
        return list(setting)
    return text.strip() if row.metadata["unit"] and not text.strip().isdigit() else setting


def _toml_value(text: str) -> object:
    """`true`, `32_768`, `["a"]`; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def put(home: Path, path: Sequence[str], value: object) -> bool:
    """Set a key, or remove it if the value is `MISSING`. False: nothing had to change."""
    from counsel.configfiles.edits import Drop, Put
    from counsel.configfiles.write import safewrite

    file = home / "config.toml"
    target = safewrite.Target(file, "toml")
    edit: Edit = Drop(tuple(path)) if value is MISSING else Put(tuple(path), value)
    plan = safewrite.plan(safewrite.by_edits(target, lambda _: [edit]))
    before, after = (plan.before or b"").decode(), (plan.after or b"").decode()
    if value is not MISSING:
        refuse(problems(before), problems(after), file)
    paths.private_folder(home)
    return bool(safewrite.write([plan], home))


def replace(home: Path, before: bytes, after: str) -> None:
    """Write the whole file, unless another program has changed it since it was read."""
    from counsel.configfiles.write import safewrite

    file = home / "config.toml"

    def rewrite(data: bytes | None) -> bytes:
        if (data or b"") != before:
            raise Conflict(f"{file} was changed by another program meanwhile.", hint="Edit it again.")
        return after.encode()

    change = safewrite.Change(safewrite.Target(file, "toml"), rewrite)
    safewrite.write([safewrite.plan(change)], home)


def refuse(before: Sequence[str], after: Sequence[str], file: Path) -> None:
    """Raise if the change brings new problems; those that were there before do not prevent it."""
    if new := [problem for problem in after if problem not in before]:
        raise ConfigInvalid(
            f"{file} was not changed: {new[0].removesuffix('; ignored.').rstrip('.')}.",
            hint="docs/use/settings.md lists the settings and their values.",
            file=str(file),
            problems=new,
        )


def problems(text: str) -> list[str]:
    """What counsel would report about a config.toml with this text."""
    from counsel.models.catalog import Catalog

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [f"it is not valid TOML: {error}."]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.toml")
        file.touch(0o600)
        file.write_text(text, encoding="utf-8")
        user_settings = settings.load({"COUNSEL_HOME": folder, "HOME": folder, "PATH": os.defpath})
        reports = dict.fromkeys((*user_settings.problems, *Catalog.load(user_settings).problems))
        return [problem.replace(f"{file}: ", "") for problem in reports]
