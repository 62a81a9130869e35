"""SQL, drivers and connections stay inside `engine/store/sqlite` and `engine/store/postgres`, behind one protocol."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import counsel
from counsel.engine.store import open_store
from counsel.errors import ConfigInvalid

pytestmark = pytest.mark.xdist_group("boundaries")  # one worker parses the source, once
SOURCE = Path(counsel.__file__).parent
SQLITE = SOURCE / "engine" / "store" / "sqlite"
POSTGRES = SOURCE / "engine" / "store" / "postgres"
# Uppercase, as our SQL is written; prose may say "select" and "update".
SQL = re.compile(
    r"\b(SELECT\s|INSERT\s+(OR\s+\w+\s+)?INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b|PRAGMA\s|"
    r"(CREATE|ALTER|DROP)\s+(TABLE|INDEX)\s+\w|BEGIN\s+IMMEDIATE\b|VACUUM\b)"
)
DOCTOR = {
    "doctor/checks.py",
    "doctor/files.py",
    "doctor/repair.py",
}  # they repair SQLite's own files
OPENS_STORE = {"engine/store/__init__.py"}


class Module(NamedTuple):
    name: str
    imports: frozenset[str]
    sql: tuple[str, ...]


@cache
def modules() -> list[Module]:
    """All modules outside the two stores."""
    outside = (
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.is_relative_to(SQLITE) and not path.is_relative_to(POSTGRES)
    )
    return [module(path) for path in outside]


def module(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = str(path.relative_to(SOURCE))
    return Module(name, frozenset(imported(tree)), tuple(sql(name, tree)))


def sql(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value):
            yield f"{name}:{node.lineno}: {node.value}"


def imports_below(package: str) -> set[str]:
    """The modules that import this package, or something in it."""
    return {module.name for module in modules() if any(name.startswith(package) for name in module.imports)}


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_outside_imports_a_driver() -> None:
    drivers = {"sqlite3", "psycopg", "psycopg_pool"}
    assert [module.name for module in modules() if drivers & module.imports] == []


def test_neither_store_knows_the_other() -> None:
    for folder, package in ((SQLITE, "postgres"), (POSTGRES, "sqlite")):
        for path in folder.glob("*.py"):
            names = imported(ast.parse(path.read_text(encoding="utf-8")))
            assert [name for name in names if name.startswith(f"counsel.engine.store.{package}")] == [], path


def test_no_module_outside_contains_sql() -> None:
    assert [sql for module in modules() for sql in module.sql] == []


def test_only_doctor_and_the_one_that_opens_the_store_know_that_it_is_sqlite() -> None:
    assert imports_below("counsel.engine.store.sqlite") == DOCTOR | OPENS_STORE


def test_no_module_outside_imports_the_store_on_postgresql() -> None:
    """`open_store` names it in a string, and imports it when a database URL is set."""
    assert imports_below("counsel.engine.store.postgres") == set()


def test_postgresql_is_loaded_only_when_it_is_asked_for(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from counsel.engine.engine import open_engine\n"
        "async def main():\n"
        "    engine = await open_engine(pathlib.Path(sys.argv[1]))\n"
        "    await engine.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if 'psycopg' in name or 'store.postgres' in name])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COUNSEL_HOME": str(tmp_path), "COUNSEL_DATABASE": ""},
    )
    assert process.stdout.strip() == "[]"


def test_without_the_driver_a_database_url_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("counsel.engine.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    # The import below creates the package again: without this, its parent would keep an empty one for other tests.
    monkeypatch.setattr("counsel.engine.store.postgres", None, raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setenv("COUNSEL_DATABASE", "postgresql://localhost/counsel")
    with pytest.raises(ConfigInvalid) as error:
        open_store(tmp_path)
    assert "counsel[team]" in (error.value.hint or "")


def test_sql_is_recognised() -> None:
    """Otherwise the tests above could not fail."""
    for statement in (
        "SELECT 1",
        "INSERT OR REPLACE INTO jobs",
        "UPDATE jobs SET a = 1",
        "DELETE FROM x",
        "PRAGMA x",
    ):
        assert SQL.search(statement)
    for folder in (SQLITE, POSTGRES):
        texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
        assert sum(bool(SQL.search(text)) for text in texts) > 5
