"""The sources and the tests of each package. Paths that do not exist are skipped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "counsel"
TESTS = ROOT / "tests"
FAST = "not slow and not client and not browser and not conformance and not localmodel"  # and `thorough`


@dataclass(frozen=True)
class Package:
    name: str
    sources: tuple[str, ...]  # files and folders under src/counsel
    tests: tuple[str, ...]  # files and folders under tests


INTERFACES = ("front", "mcp", "daemon", "http", "askmodel")
PACKAGES = {
    package.name: package
    for package in (
        # Tests of an import from SQLite are with its command.
        Package("engine", ("engine",), ("engine", "cli/test_database_import.py")),
        Package("models", ("models",), ("models",)),
        Package("configfiles", ("configfiles",), ("configfiles",)),
        Package("servers", ("servers",), ("servers",)),
        Package("agents", ("agents",), ("agents", "servers", "skills")),  # their formats, too
        Package("skills", ("skills",), ("skills",)),
        Package(
            "evaluation", ("evaluation",), ("evaluation", "cli/test_bench.py")
        ),  # as the database's import
        # Tests of `/api/servers` and `/api/skills` are with `servers` and `skills`.
        Package("interfaces", INTERFACES, (*INTERFACES, "servers/test_api.py", "skills/test_api.py")),
        # Some tests of commands are with what the commands manage.
        Package("cli", ("cli", "doctor"), ("cli", "servers", "skills")),
        # Shared modules are tested by the packages that use them.
        Package(
            "root", ("*.py", "results", "settings", "tracing"), ("test_*.py", "cli", "engine", *INTERFACES)
        ),
    )
}

# Tests kill these processes, and a killed process records nothing: any test of the folder may reach them.
OFTEN_KILLED = ("front", "daemon")
# Programs that run without site-packages, so that nothing can be recorded, with the function that starts them.
STARTED_BY = {
    "agents/supervisor.py": ("agents/process.py", "Process._start"),
    "engine/consult/schema_worker.py": ("engine/consult/structured.py", "_in_worker"),
    "engine/context/pdf_worker.py": ("engine/context/pdf.py", "_run"),
}


def source_files(package: Package) -> list[Path]:
    return _files(SOURCE, package.sources, "*.py")


def test_files(package: Package) -> list[Path]:
    return _files(TESTS, package.tests, "test_*.py")


def _files(base: Path, names: tuple[str, ...], pattern: str) -> list[Path]:
    paths: set[Path] = set()
    for name in names:
        for path in base.glob(name):
            paths.update(path.rglob(pattern) if path.is_dir() else [path])
    return sorted(paths)
