"""The shape of the code in one table: `python -m tools.shape [CHECKOUT …] [--json]`.

Each checkout (a folder with `src/counsel`, by default the current one) is a column: a worktree of an old commit next to
`.` shows before and after. Parses the files with `ast` and imports none of them, so any commit will do.

- A function's length is from `def` to its last line. Nested functions count on their own and as part of the outer one.
- `Any` and `Json` count uses in code and in quoted annotations, not imports.
- Cycles are groups of packages (or modules) that reach each other by imports. "Any import" includes imports inside
  functions, under `TYPE_CHECKING`, and by name (`import_module("counsel.…")`); "module level" has only those that run
  at import. A module at the root (`counsel/types.py`) counts as a package; `counsel/__init__.py`, with the version
  and the public names, is left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

PRODUCT = "counsel"
LONG_FUNCTION = 50  # lines
SMALL_MODULE, LARGE_MODULE = 60, 300  # lines
JSON_ALIAS = re.compile(r"(Json|JSON)\w*")  # names for "some JSON": `Json`, `JsonObject`
NOQA = re.compile(r"#\s*noqa\b", re.IGNORECASE)
BY_NAME = {"import_module", "Later", "imported", "__import__"}  # functions that import a module by its name
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
Graph: TypeAlias = dict[str, set[str]]


@dataclass(frozen=True)
class Import:
    target: str  # "counsel.engine.chat", or a name in it: "counsel.engine.chat.Chat"
    lazy: bool  # in a function, under TYPE_CHECKING or by name


@dataclass
class Module:
    name: str
    package: bool
    text: str
    functions: dict[str, int] = field(default_factory=dict)  # qualified name → lines
    imports: list[Import] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    function_imports: int = 0

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def noqa(self) -> int:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT and bool(NOQA.search(token.string)) for token in tokens)

    def uses(self, pattern: str | re.Pattern[str]) -> int:
        return sum(count for name, count in self.names.items() if re.fullmatch(pattern, name))


class Reader(ast.NodeVisitor):
    """Fills a Module from its syntax tree."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scope: list[str] = []  # names of the classes and functions around the node
        self.functions = 0  # how many of them are functions
        self.typing_only = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scope.append(node.name)
        self.module.functions[".".join(self.scope)] = (node.end_lineno or node.lineno) - node.lineno + 1
        self._annotation(node.returns)
        self.functions += 1
        self.generic_visit(node)
        self.functions -= 1
        self.scope.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_If(self, node: ast.If) -> None:
        before = self.typing_only
        self.typing_only = before or "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body:
            self.visit(statement)
        self.typing_only = before
        self.visit(node.test)
        for statement in node.orelse:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        self._imported(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parent = node.module or ""
        if node.level:
            parts = self.module.name.split(".")
            above = parts[: len(parts) - node.level + self.module.package]
            parent = ".".join([*above, *([node.module] if node.module else [])])
        self._imported(f"{parent}.{alias.name}" for alias in node.names)

    def _imported(self, targets: Iterator[str]) -> None:
        self.module.function_imports += bool(self.functions)
        lazy = self.typing_only or bool(self.functions)
        self.module.imports += [Import(target, lazy) for target in targets if _ours(target)]

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and _ours(part.value):
                    self.module.imports.append(Import(part.value.rstrip("."), lazy=True))
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._annotation(node.annotation)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.module.names[node.id] += 1

    def _annotation(self, node: ast.expr | None) -> None:
        """Count the names in an annotation's strings; `visit_Name` counts the others."""
        for part in ast.walk(node) if node else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                self.module.names.update(re.findall(r"\w+", part.value))


def _ours(name: str) -> bool:
    return name.partition(".")[0] == PRODUCT


def read(checkout: Path) -> dict[str, Module]:
    root = checkout / "src"
    modules = {}
    for path in sorted((root / PRODUCT).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        modules[name] = Module(name, package, path.read_text(encoding="utf-8"))
        Reader(modules[name]).visit(ast.parse(modules[name].text))
    if not modules:
        raise SystemExit(f"{checkout} has no src/{PRODUCT}: name a checkout of {PRODUCT}")
    return modules


def module_graph(modules: Mapping[str, Module], *, lazy: bool) -> Graph:
    graph: Graph = {name: set() for name in modules}
    for module in modules.values():
        for import_ in module.imports:
            if lazy or not import_.lazy:
                graph[module.name].add(_resolved(import_.target, modules))
    return graph


def _resolved(target: str, modules: Mapping[str, Module]) -> str:
    while target not in modules:
        target = target.rpartition(".")[0]
    return target


def package_graph(graph: Graph, modules: Mapping[str, Module], depth: int | None = None) -> Graph:
    """The graph of packages: with `depth` 1 the folders at the root, with None every folder."""
    packages: Graph = {}
    for name in graph.keys() - {PRODUCT}:
        targets = {_package(modules[target], depth) for target in graph[name] - {PRODUCT}}
        packages.setdefault(_package(modules[name], depth), set()).update(targets)
    return packages


def _package(module: Module, depth: int | None) -> str:
    parts = module.name.split(".")
    if len(parts) == 2 and not module.package:  # a module at the root
        return module.name
    folder = parts if module.package else parts[:-1]
    return ".".join(folder if depth is None else folder[: depth + 1])


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that reach each other, largest first."""
    reach = {node: _reachable(node, graph) for node in graph}
    groups = {
        tuple(sorted({node, *(neighbour for neighbour in reach[node] if node in reach.get(neighbour, ()))}))
        for node in graph
        if any(node in reach.get(neighbour, ()) for neighbour in reach[node] - {node})
    }
    return sorted((list(group) for group in groups), key=lambda group: (-len(group), group))


def _reachable(start: str, graph: Graph) -> set[str]:
    nodes: set[str] = set()
    queue = [start]
    while queue:
        new = graph.get(queue.pop(), set()) - nodes
        nodes |= new
        queue += new
    return nodes


def shape(checkout: Path) -> dict[str, object]:
    modules = read(checkout)
    return {
        **_functions(modules),
        **_modules(modules),
        "noqa": sum(module.noqa for module in modules.values()),
        "Any": sum(module.uses("Any") for module in modules.values()),
        "Json": sum(module.uses(JSON_ALIAS) for module in modules.values()),
        "imports inside functions": sum(module.function_imports for module in modules.values()),
        **_cycles(modules),
        "test functions": _tests(checkout),
    }


def _functions(modules: Mapping[str, Module]) -> dict[str, object]:
    lengths = {f"{m.name}.{name}": lines for m in modules.values() for name, lines in m.functions.items()}
    sizes = sorted(lengths.values()) or [0]
    long = {name: lines for name, lines in lengths.items() if lines > LONG_FUNCTION}
    return {
        "functions": len(lengths),
        "function lines, median": sizes[len(sizes) // 2],
        "function lines, p90": sizes[len(sizes) * 9 // 10],
        f"functions over {LONG_FUNCTION} lines": len(long),
        "longest functions": _largest(long),
    }


def _modules(modules: Mapping[str, Module]) -> dict[str, object]:
    # An empty `__init__.py` only makes a folder a package.
    lengths = {module.name: module.lines for module in modules.values() if module.lines}
    folders = Counter(module.name.rpartition(".")[0] for module in modules.values() if not module.package)
    return {
        "lines": sum(lengths.values()),
        "modules": len(lengths),
        "packages": sum(module.package for module in modules.values()),
        f"modules under {SMALL_MODULE} lines": sum(lines < SMALL_MODULE for lines in lengths.values()),
        f"modules over {LARGE_MODULE} lines": sum(lines > LARGE_MODULE for lines in lengths.values()),
        "longest modules": _largest(lengths),
        "fullest folders": _largest(folders),
    }


def _largest(sizes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:5])


def _cycles(modules: Mapping[str, Module]) -> dict[str, object]:
    every, at_import = module_graph(modules, lazy=True), module_graph(modules, lazy=False)
    return {
        "cycles of modules, module level": cycles(at_import),
        "cycles of packages, module level": cycles(package_graph(at_import, modules)),
        "cycles of top packages, module level": cycles(package_graph(at_import, modules, 1)),
        "cycles of top packages, any import": cycles(package_graph(every, modules, 1)),
    }


def _tests(checkout: Path) -> int:
    return sum(
        isinstance(node, FUNCTION) and node.name.startswith("test_")
        for path in (checkout / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def table(shapes: Mapping[str, Mapping[str, object]]) -> str:
    first = next(iter(shapes.values()))
    rows = [["", *shapes], ["---"] * (len(shapes) + 1)]
    rows += [[name, *(_cell(shape_[name]) for shape_ in shapes.values())] for name in first]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return (
            ", ".join(f"`{name.removeprefix(f'{PRODUCT}.')}` {size}" for name, size in value.items())
            or "none"
        )
    if isinstance(value, list):
        groups = ("↔".join(name.removeprefix(f"{PRODUCT}.") for name in group) for group in value)
        return f"{len(value)}: {'; '.join(groups)}" if value else "none"
    return f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.shape", description="The shape of the code in one table."
    )
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()], help="folders with src/counsel")
    parser.add_argument("--json", action="store_true", help="JSON instead of a Markdown table")
    options = parser.parse_args()
    shapes = {path.resolve().name: shape(path) for path in options.checkouts}
    print(json.dumps(shapes, indent=2) if options.json else table(shapes))


if __name__ == "__main__":
    main()
