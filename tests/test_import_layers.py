"""Imports point one way: a package imports only packages below it in `LAYERS`.

Every import counts, including those inside functions and of modules that are named in strings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROOT = "counsel"  # the modules beside the packages, which everybody shares
SHARED = {"results", "settings", "tracing"}  # packages that count as modules of the root

# From the bottom up. Packages of one row do not import each other.
LAYERS = (
    {ROOT},
    {"configfiles"},
    {"agents"},
    {"models"},
    {"servers", "skills"},
    {"engine.store"},
    {"engine"},  # its packages build one thing and import each other
    {"doctor", "evaluation"},
    {"front"},
    {"mcp"},
    {"daemon"},
    {"askmodel", "http"},
    {"cli"},
)
# Modules at the root that are interfaces themselves, or sit directly below them.
ENTRIES = {"counsel.api", "counsel.sync", "counsel.__main__", "counsel.overview"}
# Imports against the direction, each with its reason. A line that is no longer needed fails the test.
ALLOWED = {
    (
        "counsel.front.main",
        "counsel.daemon.standalone",
    ): "`stdio --standalone` runs the engine in the same process",
    ("counsel.front.relay", "counsel.mcp.client_timeouts"): "imported once a call waits, never at the start",
    (
        "counsel.daemon.console",
        "counsel.http.console.server",
    ): "imported when a console is opened: most daemons have none",
    ("counsel.front.launcher", "counsel.daemon.main"): "the command that it starts, as text",
}

# Packages of one layer that must not know each other, by any import.
APART = {
    "http.v1": ("http.api", "http.team", "http.console"),
    "engine.completions": ("engine.team",),
    "engine.context": ("engine.team", "engine.history", "engine.completions"),
    "engine.store": ("engine.team",),
    "configfiles.write": ("configfiles.json", "configfiles.toml", "configfiles.yaml"),
}


def modules() -> dict[str, Path]:
    def name(path: Path) -> str:
        return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")

    return {name(path): path for path in SOURCE.glob("counsel/**/*.py")}


MODULES = modules()


def package(module: str) -> str:
    _, *inner = module.split(".")
    if not inner or inner[0] in SHARED or (len(inner) == 1 and MODULES[module].name != "__init__.py"):
        return ROOT
    return "engine.store" if inner[:2] == ["engine", "store"] else inner[0]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[
                0
            ]  # `import_module("counsel.engine.engine")`, "counsel.cli.questions.ask:ask"


@cache
def targets(module: str) -> tuple[str, ...]:
    return tuple(imported(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def wrong_imports() -> set[tuple[str, str]]:
    rank = {name: number for number, row in enumerate(LAYERS) for name in row}
    against = set()
    for module in MODULES:
        if module in ENTRIES:
            continue
        for target in targets(module):
            if target not in MODULES or package(target) == package(module) or target == ROOT:
                continue
            if rank[package(target)] >= rank[package(module)]:
                against.add((module, target))
    return against


def test_every_package_has_its_layer() -> None:
    assert {package(module) for module in MODULES} == set().union(*LAYERS)


def test_imports_point_one_way() -> None:
    against = wrong_imports() - ALLOWED.keys()
    assert not against, "\n".join(f"{module} imports {target}" for module, target in sorted(against))


def test_packages_of_one_layer_that_stay_apart() -> None:
    inside = {package: [name for name in MODULES if _is_below(name, package)] for package in APART}
    assert all(inside.values())
    against = [
        (module, target)
        for package, siblings in APART.items()
        for module in inside[package]
        for target in targets(module)
        if any(_is_below(target, sibling) for sibling in siblings)
    ]
    assert not against


def _is_below(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{ROOT}.{package}.")


def test_every_exception_is_still_needed() -> None:
    assert ALLOWED.keys() <= wrong_imports()


def test_the_front_imports_the_standard_library_alone() -> None:
    """Its own modules, the root's, and nothing else when a module of it is imported."""
    allowed_packages = sys.stdlib_module_names | {"counsel"}
    for module, path in MODULES.items():
        if package(module) != "front":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            assert {name.partition(".")[0] for name in names} <= allowed_packages, f"{module}: {names}"
