"""SQL, `sqlite3` and connections stay inside `engine/store/sqlite`: another database must fit behind the protocol."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import counsel

SOURCE = Path(counsel.__file__).parent
SQLITE = SOURCE / "engine" / "store" / "sqlite"
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
OPENS = {"engine/store/__init__.py"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.is_relative_to(SQLITE):
            yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_outside_imports_sqlite3() -> None:
    assert [name for name, tree in modules() if "sqlite3" in imported(tree)] == []


def test_no_module_outside_holds_sql() -> None:
    result = [
        f"{name}:{node.lineno}: {node.value}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value)
    ]
    assert result == []


def test_only_doctor_and_the_one_that_opens_the_store_know_that_it_is_sqlite() -> None:
    know = {
        name
        for name, tree in modules()
        if any(module.startswith("counsel.engine.store.sqlite") for module in imported(tree))
    }
    assert know == DOCTOR | OPENS


def test_sql_is_recognised() -> None:
    """Else the tests above pass whatever is written."""
    for statement in (
        "SELECT 1",
        "INSERT OR REPLACE INTO jobs",
        "UPDATE jobs SET a = 1",
        "DELETE FROM x",
        "PRAGMA x",
    ):
        assert SQL.search(statement)
    texts = [path.read_text(encoding="utf-8") for path in SQLITE.glob("*.py")]
    assert sum(bool(SQL.search(text)) for text in texts) > 5
